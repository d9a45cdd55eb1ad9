"""What a stdio server is started with: program, environment, group, and how messages call it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from yiemagent.errors import McpConnectionError

__all__ = ["SAFE_VARIABLES", "child_environment", "command_label", "own_group", "resolve_command"]

SAFE_VARIABLES = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a server inherits unless it is given more: enough to run, no keys, no proxies (field problem 40)."""

_SECRET_NAME = re.compile(r"(?i)(key|token|secret|passw|auth|credential|bearer)")
_SECRET_VALUE = re.compile(r"^(sk-|ghp_|xox[bp]-|Bearer )")


def child_environment(
    env: Mapping[str, str] | None, inherit_env: bool | Iterable[str], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a server: the safe variables of ours, what is inherited, and *env* on top.

    Args:
        env: Added last; wins.
        inherit_env: True for everything of ours, False for ``SAFE_VARIABLES`` only, or the names
            of more variables; a name may end in ``*`` (``UV_*``).
        base: Ours; ``os.environ`` by default.

    Source: field problems 39, 40.
    """
    ours = os.environ if base is None else base
    names = () if isinstance(inherit_env, bool) else tuple(inherit_env)
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    exact = {*SAFE_VARIABLES, *names}
    kept = {
        name: value
        for name, value in ours.items()
        if inherit_env is True or name in exact or (prefixes and name.startswith(prefixes))
    }
    # A value that begins so is a shell function, never a value that a server wants.
    kept = {name: value for name, value in kept.items() if not value.startswith("()")}
    return {**kept, **(env or {})}


def resolve_command(command: str, env: Mapping[str, str], label: str) -> str:
    """The path of the program, looked for in the PATH that the server itself will have.

    Raises:
        McpConnectionError: There is no such program; the message names the PATH.

    Source: E-28; field problems 39, 48.
    """
    path = env.get("PATH", os.defpath)
    found = shutil.which(command, path=path)
    if found is None:
        where = "" if os.path.dirname(command) else f" in PATH={path}"
        raise McpConnectionError(
            f"cannot start {label}: there is no program {command!r}{where}; "
            "install it, give its full path, or pass env={'PATH': ...}"
        )
    return found


class Group(TypedDict, total=False):
    """Keywords of ``subprocess.Popen``."""

    process_group: int
    start_new_session: bool


def own_group() -> Group:
    """What makes a program the leader of a process group that no terminal can stop.

    A session of its own always would, but costs: Linux shares the processors out between sessions,
    and with a server of another session each call takes some 30 µs more. So it gets one only where
    there is a terminal, from which a program of another group cannot read without being stopped.

    Source: E-27.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return {"process_group": 0}
    return {"start_new_session": True}


def command_label(command: str, args: Sequence[str]) -> str:
    """The command line for messages and logs, with everything that looks like a secret masked."""
    words = [command]
    hide_next = False
    for arg in args:
        name, equals, value = arg.partition("=")
        if hide_next or _SECRET_VALUE.match(arg):
            words.append("***")
            hide_next = False
        elif equals and value and _SECRET_NAME.search(name):
            words.append(f"{name}=***")
        else:
            hide_next = arg.startswith("-") and not equals and _SECRET_NAME.search(arg) is not None
            words.append(arg)
    return shlex.join(words)
