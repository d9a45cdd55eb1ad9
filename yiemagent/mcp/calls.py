"""One call of the user's: its clock, its progress, and what the server wants to know on the way.

Source: protocol 2026-07-28 "Multi Round-Trip Requests"; E-09, E-10; field problems 26-29.
"""

from __future__ import annotations

import contextvars
import enum
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpError, McpProtocolError, RunAborted
from yiemagent.mcp.answers import Answers
from yiemagent.mcp.call import Call
from yiemagent.mcp.deadline import Deadline, check_seconds
from yiemagent.mcp.jsonrpc import METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED, Message, error_of
from yiemagent.mcp.link import ServerLink
from yiemagent.mcp.notices import Notices
from yiemagent.mcp.options import ClientOptions, EventSink, OnProgress
from yiemagent.mcp.session import Session
from yiemagent.mcp.waiting import Outcome, pause, wait_for
from yiemagent.mcp.workers import Workers

__all__ = ["Calls", "Timeout", "UNSET"]

logger = logging.getLogger(__name__)

MAX_ROUNDS = 20
"""How often a server may ask for more input in one call."""
EMPTY_ROUND_PAUSE = 0.5
"""Seconds before a call is repeated that wants nothing but to be repeated."""


GIVE_UP_SECONDS = 5.0
"""Seconds for a request that only tidies up."""


class _Unset(enum.Enum):
    UNSET = "unset"


UNSET: Final = _Unset.UNSET
"""The client's own timeout, which begins when it is connected."""

Timeout = float | None | _Unset


class Calls:
    """Sends the user's requests over a link.

    Args:
        link: Where they go.
        answers: What the server may ask for meanwhile.
        notices: Where progress and logs go.
        options: How to behave.
    """

    def __init__(self, link: ServerLink, answers: Answers, notices: Notices, options: ClientOptions) -> None:
        self._link = link
        self.session = link.session_of
        """The session of a call: see ``ServerLink.session_of``."""
        self._answers = answers
        self._notices = notices
        self._options = options
        self._always_listening = (
            options.progress_extends or options.on_progress is not None or options.event_sink is not None
        )
        self._questions = Workers("mcp-input", threads=8)

    def begin(
        self,
        timeout: Timeout,
        signal: AbortSignal | None,
        on_progress: OnProgress | None = None,
        event_sink: EventSink | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Call:
        """Start the clock of a call. With a timeout of its own, connecting counts too.

        Raises:
            McpTimeout, RunAborted, McpConnectionError, McpError: The connection could not be made.
        """
        options = self._options
        session = self._link.current
        if timeout is UNSET:
            if session is None:
                session = self._link.session(Deadline(options.connect_timeout), signal)
            seconds = options.timeout
        else:
            seconds = check_seconds("timeout", timeout)
        deadline = Deadline(seconds, limit=options.max_call_seconds)
        return Call(deadline, signal, on_progress, event_sink, meta, session)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        call: Call,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Session, Message]:
        """Send a request; what the server wants to know first is answered and the call repeated.

        Raises:
            McpTimeout, RunAborted, McpConnectionError, McpProtocolError: As of ``ServerLink.exchange``.
            McpError: The server wants to know something that cannot be answered.
        """
        given = params
        listening = self._listening(call)
        listen = self._listener(call) if listening else self._notices.take
        for round_number in range(MAX_ROUNDS):
            session, response = self._link.exchange(
                method, params, call, listen, progress=listening, headers=headers
            )
            asked = self._asked(session, response, round_number)
            if asked is None:
                return session, response
            params = {**(given or {}), **self._fulfil(asked, call)}
        raise McpProtocolError(f"{self._link.label} asked for input {MAX_ROUNDS} times in one {method}")

    # --- tasks

    def task_progress(self, task: Mapping[str, Any], call: Call) -> None:
        """Report the state of a task as the progress of its call."""
        text = task.get("statusMessage") or task.get("status")
        if self._listening(call):
            message = {"params": {"progress": 0, "message": str(text)}}
            self._notices.progress(message, call.on_progress, call.event_sink)

    def tell_later(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a request whose answer nobody waits for, on a worker."""

        def work() -> None:
            call = Call(Deadline(GIVE_UP_SECONDS))
            try:
                self.request(method, params, call)
            except (McpError, RunAborted) as exc:
                logger.debug("server=%s method=%s | %s", self._link.label, method, exc)

        if self._link.current is not None:
            self._questions.start(work)

    # --- progress

    def _listening(self, call: Call) -> bool:
        return self._always_listening or call.on_progress is not None or call.event_sink is not None

    def _listener(self, call: Call) -> Callable[[Message], None]:
        notices, options = self._notices, self._options

        def listen(message: Message) -> None:
            method = message.get("method")
            if method == "notifications/progress":
                if options.progress_extends:
                    call.deadline.extend(call.deadline.timeout)
                notices.progress(message, call.on_progress, call.event_sink)
            elif method == "notifications/message":
                notices.log(message, call.event_sink)
            else:
                notices.take(message)

        return listen

    # --- what the server wants to know

    def _asked(self, session: Session, response: Message, round_number: int) -> Mapping[str, Any] | None:
        """The result that asks for input, or None when the response is the answer."""
        result = response.get("result")
        if isinstance(result, dict):
            kind = result.get("resultType")
            if kind is None or kind == "complete" or not session.era.request_meta:
                return None
            if kind == "input_required":
                return result
            raise McpProtocolError(f"{self._link.label} answered with the unknown result type {kind!r}")
        error = error_of(response)
        if (
            error is not None
            and error.code == URL_ELICITATION_REQUIRED
            and round_number == 0
            and self._answers.on_elicitation is not None
            and isinstance(error.data, Mapping)
        ):
            elicitations = error.data.get("elicitations")
            if isinstance(elicitations, list) and elicitations:
                return {"urls": [each for each in elicitations if isinstance(each, dict)]}
        return None

    def _fulfil(self, asked: Mapping[str, Any], call: Call) -> Mapping[str, Any]:
        """What to add to the params of the repeated request."""
        if "urls" in asked:
            questions = {str(i): ("elicitation/create", each) for i, each in enumerate(asked["urls"])}
            answers = self._ask(questions, call)
            if any(answer.get("action") != "accept" for answer in answers.values()):
                raise McpError("the user did not open the page that the server asks for")
            return {}
        more: dict[str, Any] = {}
        if "requestState" in asked:
            more["requestState"] = asked["requestState"]
        requests = asked.get("inputRequests")
        if isinstance(requests, Mapping) and requests:
            more["inputResponses"] = self._ask(_questions(requests), call)
        else:
            pause(EMPTY_ROUND_PAUSE, call.deadline, call.signal, f"repeating a call to {self._link.label}")
        return more

    def _ask(
        self, questions: Mapping[str, tuple[str, Mapping[str, Any]]], call: Call
    ) -> dict[str, dict[str, Any]]:
        """Have all questions answered at the same time, on workers, the call's clock standing still."""
        waiting = {key: (method, self._start(method, params)) for key, (method, params) in questions.items()}
        call.deadline.hold(self._options.input_timeout)
        try:
            answers = {}
            for key, (method, outcome) in waiting.items():
                answer = wait_for(outcome, call.deadline, call.signal, f"answering {method}")
                if answer is None:
                    raise McpError(
                        f"{self._link.label} asks for {method}, which this client does not offer",
                        code=METHOD_NOT_FOUND,
                    )
                answers[key] = answer
            return answers
        finally:
            call.deadline.release()

    def _start(self, method: str, params: Mapping[str, Any]) -> Outcome[dict[str, Any] | None]:
        outcome: Outcome[dict[str, Any] | None] = Outcome()

        def work() -> None:
            try:
                outcome.settle(self._answers.result(method, params))
            except BaseException as exc:
                error = McpError(f"answering {method} of {self._link.label} failed: {exc}")
                error.__cause__ = exc
                outcome.fail(error)

        self._questions.start(work, contextvars.copy_context())
        return outcome

    def forget(self) -> None:
        """Forget the parent's threads in a forked child."""
        self._questions.forget()


def _questions(requests: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    questions = {}
    for key, request in requests.items():
        if not isinstance(request, Mapping):
            raise McpProtocolError(f"the input request {key!r} is no object: {request!r}")
        params = request.get("params")
        questions[key] = (str(request.get("method")), params if isinstance(params, Mapping) else {})
    return questions
