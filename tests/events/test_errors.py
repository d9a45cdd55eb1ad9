"""The exception tree: what is caught by what, and that all of it survives pickling."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from yiemagent import errors
from yiemagent.agent.results import Response, RunResult
from yiemagent.errors import (
    ConfigurationError,
    LlmError,
    LlmTimeout,
    McpError,
    McpTimeout,
    RateLimited,
    RunAborted,
    WaitTimeout,
    YiemAgentError,
)
from yiemagent.messages import AssistantMessage

CLASSES = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_everything_raised_on_purpose_has_one_root(cls: type[Exception]) -> None:
    """Architecture, section 6."""
    assert issubclass(cls, YiemAgentError)
    assert cls.__doc__


def test_errors_are_also_what_the_standard_library_would_raise() -> None:
    """Architecture, section 6: ``except TimeoutError`` and ``except ValueError`` work."""
    assert issubclass(WaitTimeout, TimeoutError)
    assert issubclass(LlmTimeout, TimeoutError)
    assert issubclass(McpTimeout, TimeoutError)
    assert issubclass(ConfigurationError, ValueError)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_survives_pickling(cls: type[Any], copied: Any) -> None:
    """D-32: celery and multiprocessing carry errors between processes."""
    error = cls("what happened")
    error.add_note("a note")

    other = copied(error)

    assert type(other) is cls
    assert other.args == ("what happened",)
    assert str(other) == "what happened"
    assert other.__dict__ == error.__dict__


def test_an_llm_error_keeps_its_attributes() -> None:
    """Architecture, section 6."""
    error = RateLimited(
        "slow down",
        status=429,
        retryable=True,
        retry_after=2.5,
        partial=AssistantMessage("half"),  # type: ignore[arg-type]
    )

    other = pickle.loads(pickle.dumps(error))

    assert (other.kind, other.status, other.retryable, other.retry_after) == ("rate_limit", 429, True, 2.5)
    assert other.partial == error.partial
    assert LlmError("x", kind="quota").kind == "quota"


def test_an_error_and_the_result_it_carries_survive_together() -> None:
    """D-32: they hold each other."""
    error = RunAborted("Operation aborted", reason="enough")
    response = Response("aborted", error=error)
    error.result = RunResult("aborted", None, responses=(response,), error=error)

    other = pickle.loads(pickle.dumps(error))

    assert other.reason == "enough"
    assert other.result.error is other
    assert other.result.responses[0].error is other


def test_an_mcp_error_keeps_code_and_data() -> None:
    """Architecture, section 6."""
    other = pickle.loads(pickle.dumps(McpError("no", code=-32601, data={"method": "x"})))

    assert (other.code, other.data) == (-32601, {"method": "x"})
