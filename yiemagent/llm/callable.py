"""Any function ``llm_call(request, *, event_sink) -> dict`` as a model (the Julia design's way).

It gets messages and tools in OpenAI's format and may answer in any of the shapes that servers
do; those are read by the decoder of Chat Completions. It cannot be interrupted, so the loop
runs it on a thread that can be left.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from yiemagent.assistant_events import AssistantEvent
from yiemagent.data_class import replace
from yiemagent.error_text import error_text
from yiemagent.errors import ConfigurationError, LlmError
from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.callable_shapes import as_completion
from yiemagent.llm.errors import body_error, make_error
from yiemagent.llm.openai_decode import ChatDecoder
from yiemagent.llm.openai_messages import Dialect
from yiemagent.llm.openai_request import ChatRequests
from yiemagent.llm.outcome import completed, failed
from yiemagent.llm.quirks import Quirks
from yiemagent.llm.usage import known_model
from yiemagent.messages import AssistantMessage
from yiemagent.model import LlmContext, ModelInfo, StreamOptions

__all__ = ["CallableLlm"]

_API = "callable"


class CallableLlm:
    """A function as a model.

    Args:
        llm_call: Called as ``llm_call(request, event_sink=...)`` with ``{"messages": [...]}`` and
            ``"tools"`` if there are any; the request is its own to change. A function without an
            ``event_sink`` parameter is called without one.
        format_msg_for_llm: Makes the request in place of ours: it gets the ``LlmContext`` and
            returns the request, or the list of its messages.

    Raises:
        ConfigurationError: ``llm_call`` cannot be called like that, or is a coroutine function.
    """

    abortable = False

    def __init__(
        self,
        llm_call: Callable[..., Any],
        format_msg_for_llm: Callable[[LlmContext], Any] | None = None,
    ) -> None:
        for name, function in (("llm_call", llm_call), ("format_msg_for_llm", format_msg_for_llm)):
            if function is not None and not callable(function):
                raise ConfigurationError(f"{name} must be callable, got {function!r}")
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
                raise ConfigurationError(f"{name} must be a plain function: an async one is never awaited")
        _check_call(llm_call)
        self._call = llm_call
        self._format = format_msg_for_llm
        self._passes_sink = _accepts(llm_call, "event_sink")
        name = getattr(llm_call, "__name__", type(llm_call).__name__)
        self._info = ModelInfo(id=name, provider=_API, api=_API)
        quirks = Quirks(provider=_API, call_ids="any", merge_users=False, key_envs=())
        self._requests = ChatRequests(Dialect(quirks, name, images=True, api=_API, any_model=True))

    @property
    def info(self) -> ModelInfo:
        """The function's name; nothing else is known."""
        return self._info

    def __repr__(self) -> str:
        return f"CallableLlm({self._info.id})"

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        """Call the function once; whatever it raises becomes ``Failed``."""
        base = AssistantMessage((), api=_API, provider=_API, model=self._info.id)
        try:
            response = self._answer(context, options)
        except BaseException as raised:
            yield failed(base, _as_llm_error(raised, self._info.id))
            return
        base = _with_origin(base, response)
        builder = AnswerBuilder(base, context.tools, listening=options.want_deltas)
        info = replace(self._info, **{**known_model(base.model), "id": base.model})
        decoder = ChatDecoder(builder, self._info.id, info, max_tokens=options.max_tokens)
        error = _stated_error(response, self._info.id)
        if error is None:
            decoder.take_body(as_completion(response))
        else:
            decoder.lost(error)
        message, failure = decoder.finish()
        yield from builder.drain()
        if failure is None:
            yield from completed(message, announce=options.want_deltas and not builder.started)
        else:
            yield failed(message, failure)

    def _answer(self, context: LlmContext, options: StreamOptions) -> Any:
        request = self._request(context, options)
        if options.on_payload is not None:
            request = options.on_payload(request) or request
        response = (
            self._call(request, event_sink=options.event_sink or _no_sink)
            if self._passes_sink
            else self._call(request)
        )
        if inspect.iscoroutine(response):
            response.close()
            raise make_error("invalid_response", f"{self._info.id} returned a coroutine, not an answer")
        if not isinstance(response, (Mapping, str)):
            raise make_error(
                "invalid_response",
                f"{self._info.id} returned {type(response).__name__}; an llm_call returns the text, or a "
                'dict such as {"content": "..."} or a whole Chat Completions response',
            )
        return response

    def _request(self, context: LlmContext, options: StreamOptions) -> Any:
        if self._format is not None:
            made = self._format(context)
            return {"messages": made} if isinstance(made, list) else made
        body = self._requests.body(context, options, stream=False, defaults={})
        request = json.loads(body)
        del request["model"]
        return request


def _no_sink(text: str, publish: bool = False) -> None:
    """Nobody listens."""


def _check_call(llm_call: Callable[..., Any]) -> None:
    """Find out now that it cannot be called, not at the first prompt.

    Raises:
        ConfigurationError: It does not take one request, with or without an ``event_sink``.
    """
    try:
        signature = inspect.signature(llm_call)
    except (TypeError, ValueError):
        return  # A builtin without a signature.
    sink = {"event_sink": _no_sink} if _accepts(llm_call, "event_sink") else {}
    try:
        signature.bind({}, **sink)
    except TypeError as error:
        name = getattr(llm_call, "__name__", type(llm_call).__name__)
        raise ConfigurationError(
            f"a model function is called as llm_call(request, event_sink=...), or llm_call(request) if it "
            f"has no event_sink, which {name} cannot take: {error}"
        ) from error


def _accepts(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(one.name == name or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def _with_origin(base: AssistantMessage, response: Any) -> AssistantMessage:
    """*base* with provider and model as the response names them."""
    if not isinstance(response, Mapping):
        return base
    provider, model = response.get("provider"), response.get("model")
    return replace(
        base,
        provider=provider if isinstance(provider, str) and provider else base.provider,
        model=model if isinstance(model, str) and model else base.model,
    )


def _stated_error(response: Any, source: str) -> LlmError | None:
    stated = response.get("error_message") if isinstance(response, Mapping) else None
    return body_error(stated, source) if stated else None


def _as_llm_error(error: BaseException, source: str) -> LlmError:
    if isinstance(error, LlmError):
        return error
    kind = "timeout" if isinstance(error, TimeoutError) else "model_exception"
    made = make_error(kind, f"{source} raised {error_text(error)}")
    made.__cause__ = error
    return made
