"""Tools, resources and prompts as an MCP server, without a wire.

``McpServer`` takes JSON-RPC messages and gives answers; ``serve_stdio``, ``serve_http`` and
``serve_nats`` bring them.

Source: issue 5 part 5.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from yiemagent.errors import ConfigurationError
from yiemagent.mcp.eras import default_client_info as our_name_and_version
from yiemagent.mcp.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from yiemagent.mcp.serve_calls import run_tool
from yiemagent.mcp.serve_offers import ServedPrompt, ServedResource
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.mcp.serve_session import Incoming, Refusal
from yiemagent.mcp.serve_wire import tool_listing, wire_result
from yiemagent.tools.arguments import InvalidArguments, prepare_call_arguments
from yiemagent.tools.registry import ToolRegistry
from yiemagent.tools.result import error_result
from yiemagent.tools.tool import Tool, Tools
from yiemagent.value_checks import check_count, check_type

__all__ = ["McpServer"]

logger = logging.getLogger(__name__)

_Offer = TypeVar("_Offer", ServedResource, ServedPrompt)

PAGE_SIZE = 100

USERS_CODE = {"tools/call", "resources/read", "prompts/get"}


class McpServer(MessageServer):
    """Answers MCP requests with the tools it was given. Any thread may call any method.

    Args:
        tools: Tools and plain functions; also an agent's, by ``agent.as_tool``.
        name: What clients are told.
        version: What clients are told; this library's version when None.
        title: For people.
        instructions: How to use the server, for the client's model.
        resources: What can be read.
        prompts: What can be asked for by name.
        page_size: How many entries of a list are sent at once.

    Raises:
        ConfigurationError: Something is no tool, or two things have one name.
    """

    def __init__(
        self,
        tools: Tools = (),
        *,
        name: str = "yiemagent",
        version: str | None = None,
        title: str | None = None,
        instructions: str | None = None,
        resources: Iterable[ServedResource] = (),
        prompts: Iterable[ServedPrompt] = (),
        page_size: int = PAGE_SIZE,
    ) -> None:
        check_count("page_size", page_size, none=False)
        check_type("name", name, str, none=False)
        for keyword, text in (("version", version), ("title", title), ("instructions", instructions)):
            check_type(keyword, text, str)
        self._registry = ToolRegistry(tools)
        for tool in self._registry:
            tool.wire_schema  # noqa: B018 - made of the signature now, so that a wrong one is told here
        self._info = {"name": name, "version": version or our_name_and_version()["version"]}
        if title is not None:
            self._info["title"] = title
        self._instructions = instructions
        self._resources = _offers("resources", resources, ServedResource)
        self._prompts = {prompt.name: prompt for prompt in _offers("prompts", prompts, ServedPrompt)}
        self._page_size = page_size
        self._handlers = self._make_handlers()

    @property
    def name(self) -> str:
        """What clients are told."""
        return self._info["name"]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order."""
        return self._registry.specs

    def info(self) -> Mapping[str, Any]:
        """See ``MessageServer.info``."""
        return self._info

    def capabilities(self) -> Mapping[str, Any]:
        """See ``MessageServer.capabilities``."""
        capabilities: dict[str, Any] = {"tools": {}}
        if self._resources:
            capabilities["resources"] = {}
        if self._prompts:
            capabilities["prompts"] = {}
        return capabilities

    def instructions(self) -> str | None:
        """See ``MessageServer.instructions``."""
        return self._instructions

    def takes_long(self, method: str) -> bool:
        """The user's code does."""
        return method in USERS_CODE

    def schema_of(self, tool_name: str) -> Mapping[str, Any] | None:
        """See ``MessageServer.schema_of``."""
        tool = self._registry.get(tool_name)
        return None if tool is None else tool.wire_schema

    def answer(self, incoming: Incoming) -> dict[str, Any]:
        """See ``MessageServer.answer``."""
        handler = self._handlers.get(incoming.method)
        if handler is None:
            raise Refusal(METHOD_NOT_FOUND, f"Method not found: {incoming.method}")
        return handler(incoming)

    def _make_handlers(self) -> dict[str, Callable[[Incoming], dict[str, Any]]]:
        handlers: dict[str, Callable[[Incoming], dict[str, Any]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }
        if self._resources:
            handlers |= {
                "resources/list": lambda incoming: self._list_resources(incoming, templates=False),
                "resources/templates/list": lambda incoming: self._list_resources(incoming, templates=True),
                "resources/read": self._read_resource,
            }
        if self._prompts:
            handlers |= {"prompts/list": self._list_prompts, "prompts/get": self._get_prompt}
        return handlers

    # --- tools

    def _list_tools(self, incoming: Incoming) -> dict[str, Any]:
        tools, following = self._page(incoming, self._registry.specs)
        listing: dict[str, Any] = {"tools": [tool_listing(tool, incoming.version) for tool in tools]}
        return listing | following

    def _call_tool(self, incoming: Incoming) -> dict[str, Any]:
        name = incoming.params.get("name")
        tool = self._registry.get(name) if isinstance(name, str) else None
        if tool is None:
            raise Refusal(INVALID_PARAMS, f"Unknown tool: {name}")
        try:
            arguments = prepare_call_arguments(tool, incoming.params.get("arguments"))
        except InvalidArguments as exc:
            return wire_result(tool, None, error_result(exc.text, "invalid_tool_arguments"), incoming.version)
        returned, result = run_tool(tool, arguments, incoming)
        return wire_result(tool, returned, result, incoming.version)

    # --- resources and prompts

    def _list_resources(self, incoming: Incoming, *, templates: bool) -> dict[str, Any]:
        chosen = [resource for resource in self._resources if resource.is_template == templates]
        page, following = self._page(incoming, chosen)
        key = "resourceTemplates" if templates else "resources"
        return {key: [resource.listing() for resource in page]} | following

    def _read_resource(self, incoming: Incoming) -> dict[str, Any]:
        uri = incoming.params.get("uri")
        for resource in self._resources:
            values = resource.match(uri) if isinstance(uri, str) else None
            if values is not None:
                return {"contents": [resource.contents(str(uri), values)]}
        code = INVALID_PARAMS if incoming.modern else RESOURCE_NOT_FOUND
        raise Refusal(code, f"Resource not found: {uri}", {"uri": uri})

    def _list_prompts(self, incoming: Incoming) -> dict[str, Any]:
        prompts, following = self._page(incoming, tuple(self._prompts.values()))
        return {"prompts": [prompt.listing() for prompt in prompts]} | following

    def _get_prompt(self, incoming: Incoming) -> dict[str, Any]:
        name = incoming.params.get("name")
        prompt = self._prompts.get(name) if isinstance(name, str) else None
        if prompt is None:
            raise Refusal(INVALID_PARAMS, f"Unknown prompt: {name}")
        arguments = incoming.params.get("arguments") or {}
        known = {argument.name: argument.required for argument in prompt.arguments}
        missing = [key for key, required in known.items() if required and key not in arguments]
        unknown = [key for key in arguments if key not in known]
        if missing or unknown:
            text = f"missing {', '.join(missing)}" if missing else f"unknown {', '.join(unknown)}"
            raise Refusal(INVALID_PARAMS, f"Wrong arguments for prompt {name}: {text}")
        return prompt.messages(arguments)

    def _page(self, incoming: Incoming, items: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The page that the cursor asks for, and the field that leads to the next one."""
        cursor = incoming.params.get("cursor")
        start = 0
        if cursor is not None and (cursor or incoming.version):
            if isinstance(cursor, bool) or not str(cursor).isascii() or not str(cursor).isdigit():
                raise Refusal(INVALID_PARAMS, "Invalid cursor")
            start = int(cursor)
            if start >= len(items):
                raise Refusal(INVALID_PARAMS, "Invalid cursor")
        end = start + self._page_size
        if end < len(items):
            return items[start:end], {"nextCursor": str(end)}
        # In the Julia design's dialect an empty text says that there is no more.
        return items[start:end], {} if incoming.version else {"nextCursor": ""}


def _offers(keyword: str, given: Iterable[_Offer], kind: type[_Offer]) -> tuple[_Offer, ...]:
    listed = tuple(given) if isinstance(given, Iterable) else (given,)
    for one in listed:
        if not isinstance(one, kind):
            raise ConfigurationError(f"{keyword} must be a list of {kind.__name__}, got {one!r}")
    return listed
