"""MCP servers from what people write down: an address, or the usual ``mcpServers`` file.

Source: issue 5 part 1.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import unquote, urlsplit

from yiemagent.errors import ConfigurationError
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.options import ClientKeywords

if TYPE_CHECKING:
    from yiemagent.mcp.http_auth import Auth

__all__ = ["connect", "load_servers"]

logger = logging.getLogger(__name__)

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_WIRES = {"http": "auto", "streamable-http": "streamable", "streamableHttp": "streamable", "sse": "sse"}
"""What files call the ways to speak over a URL, and what ``McpHttp`` calls them."""
_KNOWN_KEYS = {"type", "transport", "command", "args", "env", "cwd", "url", "headers", "era", "disabled"}


def connect(
    target: str | Mapping[str, Any], *, auth: Auth | None = None, **options: Unpack[ClientKeywords]
) -> McpClient:
    """A client for a server named by its address. It connects when it is first used.

    Args:
        target: ``"stdio:npx -y some-server"``, ``"https://host/mcp"``, ``"nats://host:4222/topic"``
            (``tls://`` likewise), or one entry of an ``mcpServers`` file.
        auth: As for ``McpHttp``; for http and https only.
        **options: The fields of ``ClientOptions``.

    Raises:
        ConfigurationError: It is none of these, or takes no *auth*; the message says what is missing.
    """
    if isinstance(target, Mapping):
        return _from_entry(target, "the server", os.environ, auth, options)
    if not isinstance(target, str):
        raise ConfigurationError(f"connect takes an address or a mapping, got {target!r}")
    scheme = target.partition(":")[0].lower()
    if scheme == "stdio":
        words = _split(target.partition(":")[2])
        return _stdio({"command": words[0], "args": words[1:]}, auth, options)
    if scheme in ("http", "https"):
        return _http({"url": target}, auth, options)
    if scheme in ("nats", "tls"):
        return _nats(target, auth, options)
    raise ConfigurationError(
        f"{target!r} is no address of an MCP server; write 'stdio:command args', 'http://...', "
        "'https://...' or 'nats://host/topic'"
    )


def load_servers(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    auth: Mapping[str, Auth] | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Unpack[ClientKeywords],
) -> dict[str, McpClient]:
    """Clients for the servers of an ``mcpServers`` file, by name, in its order; none connects yet.

    ``${NAME}``, ``${env:NAME}`` and ``${NAME:-default}`` in its texts are replaced. Entries with
    ``"disabled": true`` are left out. Each client's ``name`` is its key.

    Args:
        source: Path of the JSON file, or what is in one; ``{"mcpServers": {...}}``, ``{"servers":
            {...}}``, or the entries themselves.
        auth: By the name of the server, what ``McpHttp`` takes: ``{"web": OAuth(...)}``. It goes before
            an ``Authorization`` among the entry's ``headers``.
        environ: Where the variables come from; ``os.environ`` by default.
        **options: The fields of ``ClientOptions``, for all of them.

    Raises:
        ConfigurationError: The file cannot be read, an entry cannot be used, a variable is not set,
            or *auth* is for a server that is not there or takes none; the message names the entry.
    """
    data = source if isinstance(source, Mapping) else _read(source)
    entries = data.get("mcpServers", data.get("servers", data))
    if not isinstance(entries, Mapping):
        raise ConfigurationError(f"mcpServers must be an object, got {type(entries).__name__}")
    if auth is not None and not isinstance(auth, Mapping):  # It may be a secret: not shown.
        kind = type(auth).__name__
        raise ConfigurationError(f'auth must be a mapping such as {{"name": OAuth(...)}}, got a {kind}')
    given = dict(auth or {})
    for name in given:
        if name not in entries:
            known = ", ".join(map(repr, entries)) or "none"
            raise ConfigurationError(f"auth is for a server {name!r}, which is not there; there are {known}")
    variables = os.environ if environ is None else environ
    clients = {}
    for name, entry in entries.items():
        if not isinstance(entry, Mapping):
            raise ConfigurationError(f"the entry {name!r} of mcpServers must be an object, got {entry!r}")
        if entry.get("disabled") is not True:
            own: ClientKeywords = {**options, "name": name}
            what = f"the entry {name!r} of mcpServers"
            clients[name] = _from_entry(entry, what, variables, given.get(name), own)
    return clients


def _read(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    try:
        data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"cannot read the MCP servers in {os.fspath(path)!r}: {exc}") from exc
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{os.fspath(path)!r} holds no JSON object")
    return data


def _from_entry(
    entry: Mapping[str, Any],
    what: str,
    variables: Mapping[str, str],
    auth: Auth | None,
    options: ClientKeywords,
) -> McpClient:
    unknown = sorted(set(entry) - _KNOWN_KEYS)
    if unknown:
        logger.warning("%s | ignored the keys %s", what, ", ".join(unknown))
    filled = {key: _filled(value, variables, what) for key, value in entry.items()}
    if "era" in filled:
        options = {**options, "era": filled["era"]}
    try:
        if "command" in filled:
            return _stdio(filled, auth, options)
        if isinstance(filled.get("url"), str):
            if urlsplit(filled["url"]).scheme in ("nats", "tls"):
                return _nats(filled["url"], auth, options)
            return _http(filled, auth, options)
    except ConfigurationError as exc:
        raise ConfigurationError(f"{what} cannot be used: {exc}") from exc
    raise ConfigurationError(f"{what} needs a 'command' or a 'url', got the keys {sorted(entry)}")


def _filled(value: Any, variables: Mapping[str, str], what: str) -> Any:
    if isinstance(value, str):

        def replace(match: re.Match[str]) -> str:
            name, default = match.groups()
            found = variables.get(name, default)
            if found is None:
                raise ConfigurationError(f"{what} wants the variable {name}, which is not set")
            return found

        return _VARIABLE.sub(replace, value)
    if isinstance(value, Mapping):
        return {key: _filled(member, variables, what) for key, member in value.items()}
    return [_filled(member, variables, what) for member in value] if isinstance(value, list) else value


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as exc:
        raise ConfigurationError(f"the command {command!r} cannot be split: {exc}") from None
    if not words:
        raise ConfigurationError("'stdio:' needs a command, such as 'stdio:npx -y some-server'")
    return words


def _stdio(entry: Mapping[str, Any], auth: Auth | None, options: ClientKeywords) -> McpClient:
    if auth is not None:
        raise ConfigurationError(
            "auth= is for servers at http and https URLs; one over stdio finds its secrets in env="
        )
    from yiemagent.mcp.stdio import McpStdio

    return McpStdio(
        entry["command"], entry.get("args") or (), env=entry.get("env"), cwd=entry.get("cwd"), **options
    )


def _http(entry: Mapping[str, Any], auth: Auth | None, options: ClientKeywords) -> McpClient:
    from yiemagent.mcp.http import McpHttp

    kind = entry.get("type", entry.get("transport", "http"))
    if kind not in _WIRES:
        raise ConfigurationError(f"the server type {kind!r} is none of stdio, {', '.join(_WIRES)}")
    wire: Any = _WIRES[kind]
    return McpHttp(entry["url"], headers=entry.get("headers"), auth=auth, wire=wire, **options)


def _nats(address: str, auth: Auth | None, options: ClientKeywords) -> McpClient:
    if auth is not None:
        raise ConfigurationError(
            "auth= is for servers at http and https URLs; over NATS write nats://user:password@host/topic, "
            "or use McpNats(...) with its token=, credentials= or nkey_seed="
        )
    from yiemagent.mcp.nats import McpNats

    parts = urlsplit(address)
    topic = unquote(parts.path.lstrip("/"))
    if not topic:
        raise ConfigurationError(f"{address!r} lacks the topic; write nats://host:4222/topic")
    return McpNats(f"{parts.scheme}://{parts.netloc}", topic, **options)
