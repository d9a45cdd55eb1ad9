"""A deterministic Chat Completions server in a process of its own; its script is in the URL.

``http://127.0.0.1:PORT/tools=10,parallel=1,delay=0,deltas=4/v1/chat/completions``

The first ``tools`` answers of a conversation are ``parallel`` calls of ``add`` each, then comes
the text. The turn is the number of tool results after the last user message, so the server
keeps no state. ``delay`` is in milliseconds; ``deltas`` is the number of pieces of a streamed text.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TEXT = "The answer is 42."


def script_of(path: str) -> dict[str, int]:
    """The script that a request path names."""
    script = {"tools": 0, "parallel": 1, "delay": 0, "deltas": 4}
    for part in path.split("/")[1].split(","):
        key, _, value = part.partition("=")
        if value:
            script[key] = int(value)
    return script


def _turn(script: dict[str, int], body: bytes) -> int:
    compact = body.replace(b'"role": "', b'"role":"')
    start = max(compact.rfind(b'"role":"user"'), 0)
    return compact.count(b'"role":"tool"', start) // script["parallel"]


def _message(script: dict[str, int], body: bytes) -> dict[str, Any]:
    turn = _turn(script, body)
    if turn >= script["tools"]:
        return {"role": "assistant", "content": TEXT}
    calls = [
        {
            "id": f"call_{turn:04d}_{index:02d}",
            "type": "function",
            "function": {"name": "add", "arguments": json.dumps({"a": turn, "b": index})},
        }
        for index in range(script["parallel"])
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _plain(script: dict[str, int], body: bytes) -> bytes:
    message = _message(script, body)
    data = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1700000000,
            "model": "mock",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def _streamed(script: dict[str, int]) -> bytes:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f" tok{number % 10}"} for number in range(script["deltas"])]
    events: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    events.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    out = [
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
    ]
    for event in events:
        data = json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [event]})
        out.append(_chunk(b"data: " + data.encode() + b"\n\n"))
    out.append(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    return b"".join(out)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """Reads requests with a content length and answers each in turn."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end])
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            self._handle(head.split(b" ", 2)[1].decode(), body)

    def _handle(self, path: str, body: bytes) -> None:
        script = script_of(path)
        streamed = b'"stream":true' in body or b'"stream": true' in body
        answer = _streamed(script) if streamed else _plain(script, body)
        assert self._transport is not None
        if script["delay"]:
            loop = asyncio.get_running_loop()
            loop.call_later(script["delay"] / 1000, self._transport.write, answer)
        else:
            self._transport.write(answer)


async def serve() -> None:
    """Listen on a free loopback port and print it."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running_server() -> Iterator[str]:
    """Start the server as a child process; yields ``http://127.0.0.1:PORT``."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve())
