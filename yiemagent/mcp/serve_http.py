"""An MCP server as a WSGI application: one endpoint, JSON answers, event streams where asked for.

Modern requests need no session. Legacy clients get a session id that says all there is to
remember, their protocol version, so any process of a pre-forking server can answer them.

Source: protocol versions 2025-03-26 to 2026-07-28, Streamable HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from yiemagent.errors import ConfigurationError, McpProtocolError
from yiemagent.forking import forget_parent_on_fork
from yiemagent.mcp.eras import LEGACY_VERSIONS, MODERN_VERSIONS, VERSION_META
from yiemagent.mcp.jsonrpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Message,
    decode,
    kind_of,
    make_error,
)
from yiemagent.mcp.serve_headers import header_mismatch
from yiemagent.mcp.serve_http_sessions import HttpSessions
from yiemagent.mcp.serve_http_stream import EventStream
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.mcp.serve_session import ServerSession
from yiemagent.mcp.serve_target import Servable, as_server
from yiemagent.mcp.serve_wire import encode_answer
from yiemagent.mcp.workers import Workers
from yiemagent.value_checks import check_count, check_names, check_type

__all__ = ["McpWsgi", "serve_http"]

logger = logging.getLogger(__name__)

Environ: TypeAlias = Mapping[str, Any]
StartResponse: TypeAlias = Callable[..., Any]

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_BODY_BYTES = 32 << 20

STATUS = {
    200: "200 OK",
    202: "202 Accepted",
    204: "204 No Content",
    400: "400 Bad Request",
    403: "403 Forbidden",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    406: "406 Not Acceptable",
    411: "411 Length Required",
    413: "413 Content Too Large",
    415: "415 Unsupported Media Type",
    500: "500 Internal Server Error",
}


class _Answered(Exception):
    """The HTTP answer is known already."""

    def __init__(self, status: int, message: Message | None = None, **headers: str) -> None:
        super().__init__(status)
        self.status = status
        self.message = message
        self.headers = [(name.replace("_", "-"), value) for name, value in headers.items()]


def _refused(status: int, text: str, *, code: int = INVALID_REQUEST, **headers: str) -> _Answered:
    return _Answered(status, make_error(None, code, text), **headers)


def serve_http(
    target: Servable,
    *,
    path: str | None = "/mcp",
    allowed_origins: Collection[str] = (),
    concurrency: int = 8,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> McpWsgi:
    """Make a WSGI application; run it with gunicorn, waitress, ``run_http`` or inside Flask or Django.

    Args:
        target: What to serve: tools, an ``McpServer``, or a client whose server is passed on.
        path: The one path that is answered; None answers all, for mounting.
        allowed_origins: Web pages that may call, such as ``https://app.example``; pages from this
            machine always may. Requests without an ``Origin``, as all but browsers send, pass.
        concurrency: How many calls with an event stream run at once.
        max_body_bytes: Longest request.

    Raises:
        ConfigurationError: Something is no tool, or an origin is no origin.
    """
    return McpWsgi(
        as_server(target),
        path=path,
        allowed_origins=allowed_origins,
        concurrency=concurrency,
        max_body_bytes=max_body_bytes,
    )


class McpWsgi:
    """See ``serve_http``. Calls run in the thread of their request, or on a worker when they stream."""

    def __init__(
        self,
        server: MessageServer,
        *,
        path: str | None,
        allowed_origins: Collection[str],
        concurrency: int,
        max_body_bytes: int,
    ) -> None:
        check_type("path", path, str)
        check_count("concurrency", concurrency, none=False)
        check_count("max_body_bytes", max_body_bytes, none=False)
        for origin in check_names("allowed_origins", allowed_origins):
            if "://" not in origin or urlsplit(origin).path not in ("", "/"):
                raise ConfigurationError(f"allowed_origins takes scheme://host[:port], got {origin!r}")
        self._server = server
        self._path = path
        self._origins = {origin.rstrip("/").lower() for origin in allowed_origins}
        self._max_body_bytes = max_body_bytes
        self._workers = Workers("mcp-server", threads=concurrency)
        self._sessions = HttpSessions()
        forget_parent_on_fork(self)

    def _after_fork_in_child(self) -> None:
        self._workers.forget()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one HTTP request."""
        try:
            return self._route(environ, start_response)
        except _Answered as answer:
            return _reply(start_response, answer.status, answer.message, answer.headers)
        except Exception as exc:
            logger.exception("path=%s | the server could not answer", environ.get("PATH_INFO"))
            failure = make_error(None, INTERNAL_ERROR, f"{type(exc).__name__}: {exc}")
            return _reply(start_response, 500, failure, [])

    def close(self) -> None:
        """Abort what runs and end every stream."""
        self._workers.clear()
        self._sessions.close()

    def _route(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self._path is not None and environ.get("PATH_INFO", "").rstrip("/") != self._path.rstrip("/"):
            raise _refused(404, f"MCP is served at {self._path}")
        self._check_origin(environ.get("HTTP_ORIGIN"))
        method = environ["REQUEST_METHOD"]
        if method == "POST":
            return self._post(environ, start_response)
        if method == "DELETE" and environ.get("HTTP_MCP_SESSION_ID"):
            self._sessions.end(environ["HTTP_MCP_SESSION_ID"])
            raise _Answered(204)
        raise _refused(405, f"{method} is not served; send messages by POST", Allow="POST, DELETE")

    def _check_origin(self, origin: str | None) -> None:
        if origin is None or origin.lower() in self._origins:
            return
        if urlsplit(origin).hostname not in LOCAL_HOSTS:
            raise _refused(403, f"pages from {origin} may not use this server (allowed_origins)")

    def _post(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        messages, batch = self._read(environ)
        requests = [message for message in messages if kind_of(message) == "request"]
        if not batch and requests and _is_modern(environ, requests[0]):
            return self._post_modern(environ, start_response, requests[0])
        if any(message["method"] == "initialize" for message in requests):
            session = self._sessions.visit()
        else:
            session = self._find_session(environ)
        if batch or not requests:
            return self._post_many(start_response, session, messages, batch)
        if _streams(environ, requests[0]):
            stream = EventStream(self._server, session, requests[0], self._workers)
            return stream.start(start_response)
        answers: list[Message] = []
        self._server.handle(session, requests[0], answers.append, _run_here)
        headers = []
        if requests[0]["method"] == "initialize" and session.version is not None:
            headers.append(("Mcp-Session-Id", self._sessions.keep(session)))
        return _reply(start_response, 200 if answers else 202, answers[-1] if answers else None, headers)

    def _post_modern(
        self, environ: Environ, start_response: StartResponse, request: Message
    ) -> Iterable[bytes]:
        mismatch = header_mismatch(environ, request, self._server)
        if mismatch is not None:
            raise _Answered(400, make_error(request["id"], HEADER_MISMATCH, mismatch))
        session = self._sessions.visit()
        if _streams(environ, request):
            return EventStream(self._server, session, request, self._workers, ends_with_stream=True).start(
                start_response
            )
        answers: list[Message] = []
        accepted = self._server.handle(session, request, answers.append, _run_here)
        status = 200 if accepted else 400
        if answers and answers[-1].get("error", {}).get("code") == METHOD_NOT_FOUND:
            status = 404
        return _reply(start_response, status, answers[-1] if answers else None, [])

    def _post_many(
        self, start_response: StartResponse, session: ServerSession, messages: list[Message], batch: bool
    ) -> Iterable[bytes]:
        """Notifications, responses, and the batches of 2025-03-26."""
        answers: list[Message] = []
        for message in messages:
            self._server.handle(session, message, answers.append, _run_here)
        replies = [answer for answer in answers if "method" not in answer]
        if not replies:
            return _reply(start_response, 202, None, [])
        if batch:
            return _reply(start_response, 200, replies, [])
        return _reply(start_response, 400, replies[0], [])

    def _read(self, environ: Environ) -> tuple[list[Message], bool]:
        kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise _refused(415, f"the body must be application/json, not {kind or 'untyped'}")
        accepted = environ.get("HTTP_ACCEPT", "*/*")
        if not any(kind in accepted for kind in ("application/json", "text/event-stream", "*/*")):
            raise _refused(406, "Accept must allow application/json and text/event-stream")
        try:
            body = _read_body(environ, self._max_body_bytes)
            return decode(body), body.lstrip()[:1] == b"["
        except McpProtocolError as exc:
            raise _refused(400, str(exc), code=PARSE_ERROR) from exc

    def _find_session(self, environ: Environ) -> ServerSession:
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is not None and version not in LEGACY_VERSIONS + MODERN_VERSIONS:
            raise _refused(400, f"MCP-Protocol-Version {version} is not spoken here")
        session_id = environ.get("HTTP_MCP_SESSION_ID")
        if session_id is None:
            raise _refused(400, "Mcp-Session-Id is missing: send initialize first, or 2026-07-28 requests")
        session = self._sessions.find(session_id)
        if session is None:
            raise _refused(404, "this session is unknown or has ended; initialize again")
        return session


def _read_body(environ: Environ, limit: int) -> bytes:
    stream = environ["wsgi.input"]
    declared = environ.get("CONTENT_LENGTH")
    if declared:
        if not declared.isdigit():
            raise _refused(400, f"Content-Length {declared!r} is no number")
        if int(declared) > limit:
            raise _refused(413, f"the body may have at most {limit:,} bytes")
        return bytes(stream.read(int(declared)))
    if not environ.get("wsgi.input_terminated"):
        raise _refused(411, "Content-Length is missing")
    body = bytes(stream.read(limit + 1))
    if len(body) > limit:
        raise _refused(413, f"the body may have at most {limit:,} bytes")
    return body


def _is_modern(environ: Environ, request: Message) -> bool:
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    said = isinstance(meta, Mapping) and VERSION_META in meta
    return said or environ.get("HTTP_MCP_PROTOCOL_VERSION") in MODERN_VERSIONS


def _streams(environ: Environ, request: Message) -> bool:
    """Whether the answer is an event stream: only when progress is asked for, and can be read."""
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    wanted = isinstance(meta, Mapping) and meta.get("progressToken") is not None
    return (
        wanted and request["method"] == "tools/call" and "text/event-stream" in environ.get("HTTP_ACCEPT", "")
    )


def _run_here(work: Callable[[], None]) -> bool:
    work()
    return True


def _reply(
    start_response: StartResponse,
    status: int,
    message: Message | list[Message] | None,
    headers: list[tuple[str, str]],
) -> Iterable[bytes]:
    if isinstance(message, list):
        body = b"[" + b",".join(map(encode_answer, message)) + b"]"
    else:
        body = b"" if message is None else encode_answer(message)
    kind = [] if message is None else [("Content-Type", "application/json")]
    start_response(STATUS[status], [*kind, ("Content-Length", str(len(body))), *headers])
    return [body]
