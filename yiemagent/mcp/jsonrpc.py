"""JSON-RPC 2.0 as MCP servers really speak it: encoding, reading, ids and errors.

Messages are plain dicts, exactly as on the wire. Nothing here knows MCP's methods, but for
the two places where a notification names the request that it belongs to.

Source: E-07 (shapes of errors, ids as strings), E-14 (what a message is), E-11 (ids only).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from yiemagent.compact_json import compact_json
from yiemagent.errors import McpError, McpProtocolError

__all__ = [
    "HEADER_MISMATCH",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "MISSING_CLIENT_CAPABILITY",
    "PARSE_ERROR",
    "RESOURCE_NOT_FOUND",
    "UNSUPPORTED_PROTOCOL_VERSION",
    "URL_ELICITATION_REQUIRED",
    "Message",
    "MessageKind",
    "RpcError",
    "decode",
    "encode",
    "error_of",
    "id_key",
    "kind_of",
    "make_error",
    "make_notification",
    "make_request",
    "make_result",
    "owner_key",
    "result_of",
]

Message: TypeAlias = dict[str, Any]
"""One JSON-RPC request, response or notification."""

MessageKind: TypeAlias = Literal["request", "response", "notification", "invalid"]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""What servers before 2026-07-28 say; newer ones say ``INVALID_PARAMS``."""
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

_encode_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode

_LINE_ENDS = frozenset(("", "\n", "\r\n"))

_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]


@dataclass(frozen=True, slots=True)
class RpcError:
    """The ``error`` of a response, read leniently."""

    message: str
    code: int | None = None
    data: Any = None

    def exception(self) -> McpError:
        """The exception that stands for it."""
        return McpError(self.message, code=self.code, data=self.data)


def make_request(request_id: int | str, method: str, params: Mapping[str, Any] | None = None) -> Message:
    """A request; ``params`` is left out when None."""
    message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if params is not None:
        message["params"] = params
    return message


def make_notification(method: str, params: Mapping[str, Any] | None = None) -> Message:
    """A notification; ``params`` is left out when None."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def make_result(request_id: Any, result: Mapping[str, Any]) -> Message:
    """The answer to a request of the other side."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def make_error(request_id: Any, code: int, message: str, data: Any = None) -> Message:
    """The refusal of a request of the other side; ``data`` is left out when None."""
    error: Message = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def encode(message: Message | list[Message]) -> bytes:
    """One line of UTF-8 JSON without a line end and without any raw line end in it.

    Raises:
        McpProtocolError: It holds something that JSON cannot say (NaN, a set, a cycle).
    """
    try:
        text = compact_json(message)
        try:
            return text.encode()
        except UnicodeEncodeError:  # half a surrogate pair: sayable as an escape only
            return _encode_ascii(message).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        named = message.get("method", "the message") if isinstance(message, dict) else "the batch"
        raise McpProtocolError(f"{named} cannot be written as JSON: {exc}") from exc


def decode(payload: bytes | bytearray | memoryview | str) -> list[Message]:
    """Read one payload: a message, or a batch of them (protocol 2025-03-26).

    Members of a batch that are no objects are left out; an empty batch gives an empty list.

    Raises:
        McpProtocolError: It is no JSON, no UTF-8, or neither an object nor an array.
    """
    try:
        if isinstance(payload, bytes) and payload[:1] == b"{":
            # Nearly always. json.loads would first look for the encoding and match white space.
            text = payload.decode()
            try:
                value, end = _scan(text, 0)
                if text[end:] in _LINE_ENDS:
                    return [value]
            except StopIteration:
                pass
            value = json.loads(text)  # For other white space, and for its error.
        else:
            value = json.loads(bytes(payload) if isinstance(payload, memoryview) else payload)
    except (ValueError, RecursionError) as exc:
        raise McpProtocolError(f"not a JSON-RPC message: {_excerpt(payload)} ({exc})") from exc
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list):
        return [member for member in value if isinstance(member, dict)]
    raise McpProtocolError(f"not a JSON-RPC message: {_excerpt(payload)}")


def _excerpt(payload: bytes | bytearray | memoryview | str) -> str:
    head = payload[:200]
    text = head if isinstance(head, str) else bytes(head).decode("utf-8", "replace")
    return repr(text) + (f" and {len(payload) - 200} more" if len(payload) > 200 else "")


def kind_of(message: Mapping[str, Any]) -> MessageKind:
    """What *message* is: a method makes a request (with an id) or a notification (without).

    A response with a null id, as a server sends when it could not read a request, is a response.
    """
    if isinstance(message.get("method"), str):
        return "request" if message.get("id") is not None else "notification"
    if "id" in message or message.get("error") is not None:
        return "response"
    return "invalid"


def id_key(value: Any) -> str | None:
    """The id as a key: ``7``, ``"7"`` and ``7.0`` are the same id, as some servers turn one into another."""
    if type(value) is int:
        return str(value)
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def owner_key(message: Mapping[str, Any]) -> str | None:
    """The key of the request that a notification belongs to, or None when it names none.

    Progress names its request through ``progressToken`` (we use the request's id as the token),
    and what comes through ``subscriptions/listen`` names it in ``_meta``.
    """
    params = message.get("params")
    if not isinstance(params, dict):
        return None
    if message.get("method") == "notifications/progress":
        return id_key(params.get("progressToken"))
    meta = params.get("_meta")
    return id_key(meta.get(SUBSCRIPTION_ID)) if isinstance(meta, dict) else None


def error_of(response: Mapping[str, Any]) -> RpcError | None:
    """The error of a response, or None when there is none.

    Tolerant: ``error: null`` is no error, a text is its own message, and a missing message is
    replaced by the code.
    """
    error = response.get("error")
    if error is None:
        return None
    if not isinstance(error, Mapping):
        return RpcError(str(error) or "unknown error")
    code = error.get("code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    message = error.get("message")
    text = (
        message if isinstance(message, str) and message else f"error {code if code is not None else error!r}"
    )
    return RpcError(text, code, error.get("data"))


def result_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a response.

    Raises:
        McpError: The response is an error; code and data are kept.
        McpProtocolError: It has neither a result nor an error, or the result is no object.
    """
    error = error_of(response) if "error" in response else None
    if error is not None:
        raise error.exception()
    result = response.get("result")
    if not isinstance(result, dict):
        raise McpProtocolError(f"the response has no result object: {_excerpt(repr(response))}")
    return result
