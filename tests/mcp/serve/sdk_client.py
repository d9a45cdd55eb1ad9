"""Talks to a server with the official SDK and prints what it was told; runs in the SDK's own venv."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from typing import Any

from mcp import Client, MCPError, StdioServerParameters


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(mode: str, target: Any) -> None:
    server = target if isinstance(target, str) else StdioServerParameters(command=target[0], args=target[1:])
    said: dict[str, Any] = {}
    progress: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    async with Client(server, mode=mode) as client:
        said["version"] = client.protocol_version
        said["server"] = client.server_info.name
        said["instructions"] = client.instructions
        tools, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        said["tools"] = [tool.name for tool in tools]
        said["add"] = plain(await client.call_tool("add", {"a": 1, "b": 2}))["content"]
        said["forecast"] = plain(await client.call_tool("forecast", {"city": "Rome"}))["structuredContent"]
        said["boom"] = (await client.call_tool("boom", {})).is_error
        said["kinds"] = [block.type for block in (await client.call_tool("mixed", {})).content]
        await client.call_tool("count", {"to": 2}, progress_callback=on_progress)
        said["progress"] = progress
        try:
            await client.call_tool("nothing", {})
        except MCPError as exc:
            said["unknown"] = exc.error.code
        said["resources"] = [str(entry.uri) for entry in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        said["templates"] = [entry.uri_template for entry in templates]
        said["read"] = plain((await client.read_resource("memo://day/1")).contents[0])["text"]
        said["prompt"] = (await client.get_prompt("about", {"topic": "oak"})).messages[0].content.text
        if mode == "legacy":
            await client.send_ping()
    print("SAID " + json.dumps(said))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
