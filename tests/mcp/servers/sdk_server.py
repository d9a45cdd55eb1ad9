"""A server on the official SDK, run in its own environment. usage: sdk_server.py stdio | http PORT"""

import asyncio
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("sdk", instructions="A server on the official SDK.")


class Person(BaseModel):
    name: str
    age: int = 36


def ask_person() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


def ask_model() -> Sample:
    content = TextContent(type="text", text="Say a word.")
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=10)


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("kaboom")


@server.tool()
def person() -> Person:
    """A structured answer."""
    return Person(name="Ada")


@server.tool()
def greet(who: Annotated[Person, Resolve(ask_person)]) -> str:
    """Ask the user who they are."""
    return f"Hello {who.name}, {who.age}"


@server.tool()
def word(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the client's model for a word."""
    return answer.content.text


@server.tool()
def folders(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask the client for its roots."""
    return ",".join(str(root.uri) for root in roots.roots)


@server.tool()
async def slow(steps: int, ctx: Context) -> str:
    """Report progress."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


@server.tool()
async def sleep(seconds: float) -> str:
    """Take long."""
    await asyncio.sleep(seconds)
    return "slept"


@server.tool()
def extra() -> str:
    """A tool that comes later and goes when it was called, so that one server does for several tests."""
    server.remove_tool("extra")
    return "extra"


server.remove_tool("extra")


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool and say so."""
    server.add_tool(extra)
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def touch(ctx: Context) -> str:
    """Say that a resource was updated."""
    await ctx.notify_resource_updated("data://greeting")
    return "touched"


@server.resource("data://greeting")
def greeting() -> str:
    """A resource."""
    return "hello"


@server.resource("data://item/{number}")
def item(number: str) -> str:
    """A template."""
    return f"item {number}"


@server.prompt()
def ask_about(topic: str) -> str:
    """A prompt."""
    return f"Tell me about {topic}"


if sys.argv[1] == "stdio":
    server.run(transport="stdio")
else:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
