"""A server on fastmcp, run in its own environment. usage: fastmcp_server.py stdio | http PORT"""

import base64
import sys
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Audio, Image

server = FastMCP("fast", instructions="A server on fastmcp.")
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass
class Wine:
    name: str
    year: int


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Fail."""
    raise ValueError("kaboom")


@server.tool
def image() -> Image:
    """A picture."""
    return Image(data=DOT, format="png")


@server.tool
def audio() -> Audio:
    """A sound."""
    return Audio(data=b"RIFF0000WAVE", format="wav")


@server.tool
def wine() -> Wine:
    """A structured answer."""
    return Wine("Barolo", 2016)


@server.tool
def names() -> list[str]:
    """A list."""
    return ["a", "b"]


@server.tool
async def slow(steps: int, ctx: Context) -> str:
    """Report progress and write logs."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await ctx.info(f"log {step + 1}")
    return "done"


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user in the middle of the call."""
    answer = await ctx.elicit("your name?", response_type=str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@server.tool
def noisy() -> str:
    """Print what is not JSON."""
    print("this line is not JSON", flush=True)
    return "ok"


@server.tool
def big(kilobytes: int) -> str:
    """A long answer."""
    return "x" * (kilobytes * 1024)


@server.resource("data://greeting")
def greeting() -> str:
    """A resource."""
    return "hello"


@server.resource("data://item/{number}")
def item(number: str) -> str:
    """A template."""
    return f"item {number}"


@server.prompt
def ask_about(topic: str) -> str:
    """A prompt."""
    return f"Tell me about {topic}"


if sys.argv[1] == "stdio":
    server.run(transport="stdio", show_banner=False)
else:
    server.run(
        transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="warning"
    )
