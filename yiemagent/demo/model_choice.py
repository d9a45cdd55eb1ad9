"""Which model answers: a real one when the environment or an option names it, else the stand-in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yiemagent.model import Llm

__all__ = ["ChosenModel", "chosen_model"]

DEFAULT_MODEL = "gpt-5-mini"
_LIST_WITHIN = 10.0
_NO_KEY = ""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """A model, and the line that says which one it is."""

    llm: Llm
    introduction: str


@contextlib.contextmanager
def chosen_model(
    environment: Mapping[str, str], *, model: str | None, base_url: str | None, pause: float
) -> Iterator[ChosenModel]:
    """The model for the options and the environment; what it needs lives as long as the block.

    Args:
        environment: ``OPENAI_API_KEY``, ``OPENAI_BASE_URL`` and ``OPENAI_MODEL`` are read.
        model: Name of the model; without one ``OPENAI_MODEL``, then the first model that the server at
            the base URL lists, then a default.
        base_url: Before ``OPENAI_BASE_URL``.
        pause: Seconds between the stand-in's words.

    Raises:
        YiemAgentError: The options cannot work, or the server does not list its models.
    """
    from yiemagent.llm.openai_chat import OpenAIChat

    key = environment.get("OPENAI_API_KEY")
    url = base_url or environment.get("OPENAI_BASE_URL")
    if key or url:
        name = model or environment.get("OPENAI_MODEL") or (_first_model(url, key) if url else DEFAULT_MODEL)
        where = f" at {url}" if url else ""
        llm = OpenAIChat(name, base_url=url, api_key=key or _NO_KEY)
        yield ChosenModel(llm, f"Model: {name}{where}.")
        return
    from yiemagent.demo.offline import OfflineModel

    with OfflineModel(pause=pause) as offline:
        llm = OpenAIChat(offline.name, base_url=offline.base_url, api_key=_NO_KEY)
        yield ChosenModel(
            llm,
            "Model: the offline stand-in, a small set of rules on this machine, not a language model. "
            "Set OPENAI_API_KEY or OPENAI_BASE_URL to ask a real one.",
        )


def _first_model(url: str, key: str | None) -> str:
    """The first model that the server at *url* lists: local servers often have just one."""
    import requests

    from yiemagent.errors import ConfigurationError, ConnectionFailed

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        response = requests.get(f"{url.rstrip('/')}/models", headers=headers, timeout=_LIST_WITHIN)
        response.raise_for_status()
        listed: Any = response.json()
        return str(listed["data"][0]["id"])
    except requests.ConnectionError as error:
        raise ConnectionFailed(f"nothing answers at {url}; is the server running?") from error
    except (requests.RequestException, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(
            f"{url} does not list its models ({_cause(error)}); name one with --model or OPENAI_MODEL"
        ) from error


def _cause(error: BaseException) -> str:
    text = str(error).splitlines()
    return text[0][:120] if text and text[0] else type(error).__name__
