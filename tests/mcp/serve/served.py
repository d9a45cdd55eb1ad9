"""The server that the tests of this folder talk to; run as a program it serves on stdio."""

from __future__ import annotations

import subprocess
import sys

from yiemagent.mcp.serve import McpServer
from yiemagent.mcp.serve_offers import PromptArgument, ServedPrompt, ServedResource
from yiemagent.mcp.serve_stdio import serve_stdio
from yiemagent.messages import ImageContent, OpaqueContent, TextContent
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import Tool, ToolContext, ToolResult

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def boom() -> str:
    """Fail."""
    raise ValueError("kaboom")


def noisy() -> str:
    """Write where nobody should, from here and from a child."""
    print("a line that is no JSON")
    subprocess.run([sys.executable, "-c", "print('nor is this'); input()"], check=False)
    return "ok"


@tool
def count(to: int, ctx: ToolContext) -> str:
    """Count, and tell how far it is."""
    for step in range(1, to + 1):
        ctx.update(ToolResult((TextContent(f"step {step}"),), {"progress": step, "total": to}))
    return "done"


@tool
def sleep(ctx: ToolContext) -> str:
    """Wait until the call is cancelled."""
    ctx.update("sleeping")
    return "cancelled" if ctx.signal.wait(60) else "slept"


def mixed() -> list[TextContent | ImageContent | OpaqueContent]:
    """Text, image, audio and a link."""
    return [
        TextContent("a pixel"),
        ImageContent(PIXEL, "image/png"),
        OpaqueContent({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
        OpaqueContent({"type": "resource_link", "uri": "memo://today", "name": "today"}),
    ]


forecast = Tool(
    name="forecast",
    label="Forecast",
    description="The weather of a city.",
    input_schema={
        "type": "object",
        "properties": {"city": {"type": "string", "x-mcp-header": "City"}},
        "required": ["city"],
    },
    output_schema={"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]},
    annotations={"readOnlyHint": True},
    execute=lambda call_id, args, signal, on_update: {"degrees": 21.5},
)

TOOLS = [add, boom, noisy, count, sleep, mixed, forecast]


def make_server(**options: object) -> McpServer:
    """A server with something of everything."""
    settings: dict[str, object] = {
        "name": "served",
        "version": "1.2",
        "instructions": "Be kind.",
        "page_size": 3,
        "resources": [
            ServedResource(uri="memo://today", name="today", read=lambda: "buy wine"),
            ServedResource(uri="memo://pixel", name="pixel", read=lambda: b"\x89PNG", mime_type="image/png"),
            ServedResource(uri="memo://day/{day}", name="day", read=lambda day: f"what was on {day}"),
        ],
        "prompts": [
            ServedPrompt(
                name="about",
                description="Ask about something.",
                render=lambda topic, tone="plain": f"Tell me about {topic} in a {tone} tone.",
                arguments=[PromptArgument(name="topic", required=True), PromptArgument(name="tone")],
            )
        ],
        **options,
    }
    return McpServer(TOOLS, **settings)  # type: ignore[arg-type]


if __name__ == "__main__":
    serve_stdio(make_server())
