"""The MCP client: blocking, safe from any thread, with no event loop anywhere.

Source: issue 5 parts 1, 2; WT-020 to WT-022; field problems 1, 14-16, 37, 41-43.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.mcp.calls import UNSET, Timeout
from yiemagent.mcp.connected import ConnectedClient
from yiemagent.mcp.jsonrpc import result_of
from yiemagent.mcp.lists import PROMPTS, RESOURCES, TEMPLATES
from yiemagent.mcp.options import EventSink, OnProgress
from yiemagent.mcp.output import check_output
from yiemagent.mcp.results import (
    Completion,
    McpPrompt,
    McpResource,
    McpResourceTemplate,
    McpTool,
    PromptMessages,
    ResourceContents,
    ToolCallResult,
)
from yiemagent.mcp.subscriptions import Subscription

__all__ = ["McpClient"]


class McpClient(ConnectedClient):
    """One MCP server, over any transport.

    Connects when it is first used, in each process anew; use it from any thread, close it from
    any thread and in any order, or leave it to a ``with`` block, the garbage collector or the end
    of the program. It is also the callable of the Julia design: ``mcp("tools/list", session_id)``
    and ``mcp("tools/call", name, arguments, session_id)`` return the JSON-RPC response.

    Every method takes ``timeout`` (seconds for all of it, connecting included; by default the
    client's, which begins when it is connected) and ``signal`` (ends it within 0.2 s), and may
    raise, beside what it names:

    - ``McpTimeout``: too slow; the request was cancelled.
    - ``RunAborted``: *signal* was aborted; the request was cancelled.
    - ``McpConnectionError``: the server cannot be reached, was lost, or this client is closed.
    - ``McpProtocolError``: the server said something that the protocol does not allow.
    - ``McpError``: the server answered with an error; ``code`` and ``data`` are its own.

    Args:
        transport: How to reach the server.
        **options: The fields of ``ClientOptions``.

    Raises:
        ConfigurationError: An option cannot be used.
    """

    # --- tools

    def list_tools(
        self,
        *,
        refresh: bool = False,
        session_id: str | None = None,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
    ) -> tuple[McpTool, ...]:
        """Every tool the server offers, all pages, in its order.

        Args:
            refresh: Ask even if the server allowed an earlier answer to be kept.
            session_id: ``sessionId`` of the plain dialect.
            timeout: For all pages together.
            signal: Ends it.

        Source: WT-020, decision 31.
        """
        call = self._calls.begin(timeout, signal)
        return self._tools.list(call, refresh=refresh, session_id=session_id or self._options.session_id)

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
        on_progress: OnProgress | None = None,
        event_sink: EventSink | None = None,
        session_id: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolCallResult:
        """Call a tool. It is never sent twice, unless the server surely did not run it.

        Args:
            name: As the server calls it.
            arguments: Checked by the server.
            timeout: For everything; this tool's own if it needs more than the client's.
            signal: Ends it.
            on_progress: Gets progress, in this thread.
            event_sink: Gets progress and logs as readable lines, in this thread.
            session_id: ``sessionId`` of the plain dialect.
            meta: More keys for ``_meta``, such as ``traceparent``.

        Returns:
            The result; ``is_error`` when the tool itself failed.

        Source: WT-021, WT-022.
        """
        call = self._calls.begin(timeout, signal, on_progress, event_sink, meta)
        result = result_of(self._tools.run(name, arguments, call, session_id or self._options.session_id))
        tool = self._tools.definition(name)
        return ToolCallResult.read(result, () if tool is None else check_output(tool, result, self._label))

    # --- resources

    def list_resources(
        self, *, refresh: bool = False, timeout: Timeout = UNSET, signal: AbortSignal | None = None
    ) -> tuple[McpResource, ...]:
        """Every resource the server lists, all pages; empty when it has none."""
        call = self._calls.begin(timeout, signal)
        members = self._lists.collect(RESOURCES, call, refresh=refresh)[1]
        return tuple(map(McpResource.read, members))

    def list_resource_templates(
        self, *, refresh: bool = False, timeout: Timeout = UNSET, signal: AbortSignal | None = None
    ) -> tuple[McpResourceTemplate, ...]:
        """Every resource template the server lists, all pages; empty when it has none."""
        call = self._calls.begin(timeout, signal)
        members = self._lists.collect(TEMPLATES, call, refresh=refresh)[1]
        return tuple(map(McpResourceTemplate.read, members))

    def read_resource(
        self,
        uri: str,
        *,
        refresh: bool = False,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[ResourceContents, ...]:
        """What a resource holds, in one or several parts.

        Args:
            uri: Of the resource; of a template with its variables filled in.
            refresh: Ask even if the server allowed an earlier answer to be kept.
            timeout: For all of it.
            signal: Ends it.
            on_progress: Gets progress, in this thread.
        """
        call = self._calls.begin(timeout, signal, on_progress)
        generation = self._notices.changes("contents")
        params = {"uri": uri}
        result = None if refresh else self._cache.get("resources/read", params, generation)
        if result is None:
            result = result_of(self._calls.request("resources/read", params, call)[1])
            self._cache.put("resources/read", params, generation, result)
        return ResourceContents.read_all(result)

    def subscribe(
        self,
        uri: str,
        on_update: Callable[[str], object],
        *,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
    ) -> Subscription:
        """Hear when a resource changes; goes on over reconnects until it is closed.

        Args:
            uri: Of the resource.
            on_update: Called with the URI, on a worker, in order; what it raises is logged.
            timeout: Until the server has confirmed it.
            signal: Ends that wait.
        """
        return self._subscriptions.resource(uri, on_update, self._calls.begin(timeout, signal))

    def watch_lists(
        self,
        *names: str,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
    ) -> Subscription:
        """Hear when ``"tools"``, ``"prompts"`` or ``"resources"`` change: then ``changes`` grows.

        Older servers tell it unasked; there this costs nothing.
        """
        return self._subscriptions.lists(names, self._calls.begin(timeout, signal))

    def changes(self, name: str) -> int:
        """A number that grows when *name* may have changed.

        Args:
            name: ``tools``, ``prompts``, ``resources``, or ``contents`` (of resources).
        """
        return self._notices.changes(name)

    # --- prompts

    def list_prompts(
        self, *, refresh: bool = False, timeout: Timeout = UNSET, signal: AbortSignal | None = None
    ) -> tuple[McpPrompt, ...]:
        """Every prompt the server lists, all pages; empty when it has none."""
        call = self._calls.begin(timeout, signal)
        members = self._lists.collect(PROMPTS, call, refresh=refresh)[1]
        return tuple(map(McpPrompt.read, members))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
    ) -> PromptMessages:
        """A prompt with its arguments filled in.

        Args:
            name: As the server calls it.
            arguments: Texts, by name.
            timeout: For all of it.
            signal: Ends it.
        """
        call = self._calls.begin(timeout, signal)
        params = {"name": name, "arguments": dict(arguments or {})}
        return PromptMessages.read(result_of(self._calls.request("prompts/get", params, call)[1]))

    def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        context: Mapping[str, str] | None = None,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
    ) -> Completion:
        """What the server suggests for an argument of a prompt or a variable of a template.

        Args:
            argument: Name of the argument.
            value: What was typed so far.
            prompt: Name of the prompt, or
            resource: the URI template; exactly one of the two.
            context: Arguments that are already known.
            timeout: For all of it.
            signal: Ends it.
        """
        if (prompt is None) == (resource is None):
            raise ConfigurationError("complete needs either prompt= or resource=")
        reference = (
            {"type": "ref/prompt", "name": prompt}
            if resource is None
            else {"type": "ref/resource", "uri": resource}
        )
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        call = self._calls.begin(timeout, signal)
        return Completion.read(result_of(self._calls.request("completion/complete", params, call)[1]))
