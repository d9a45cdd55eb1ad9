"""The cellar as an MCP server of its own: ``python -m yiemagent.demo.cellar_server``.

It speaks MCP on stdin and stdout and serves until stdin is closed, to our agent or to any other
MCP client.
"""

from __future__ import annotations

from yiemagent.demo.cellar import cellar_tools

__all__ = ["main"]

_INSTRUCTIONS = "A wine cellar. Prices are in euros for a bottle. Start with search_wines."


def main() -> None:
    """Serve the cellar's tools until the client closes our stdin."""
    from yiemagent.mcp import McpServer, serve_stdio

    serve_stdio(McpServer(cellar_tools(), name="wine-cellar", instructions=_INSTRUCTIONS))


if __name__ == "__main__":
    main()
