"""Clients of scripted servers in memory, closed when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.mcp.client import McpClient
from yiemagent.testing.memory_mcp import ScriptedMcpServer

MakeClient = Callable[..., McpClient]


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    """Makes a client of a scripted server; keywords are the client's options."""
    clients: list[McpClient] = []

    def make(server: ScriptedMcpServer, **options: Any) -> McpClient:
        transport = {name: options.pop(name) for name in ("fallback_era", "era_key") if name in options}
        clients.append(McpClient(server.transport(**transport), **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
