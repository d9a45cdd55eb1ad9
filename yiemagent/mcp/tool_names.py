"""Names of a server's tools as names that model providers take, and back.

Source: case C-15; E-04.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

__all__ = ["legal_tool_names"]

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_LENGTH = 64
_HASH_LENGTH = 8


def legal_tool_names(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """A legal and unique name for each of *names*: keys are the server's names, values ours.

    A legal name stays as it is. Other characters become ``_``. A name that is too long, or that
    two tools would then share, ends in a hash of the original; so the same name always gives the
    same result in the same list.

    Args:
        names: As the server has them, each once.
        prefix: Put before every name; counts for the length.
    """
    originals = list(names)
    replaced = {name: _ILLEGAL.sub("_", prefix + name) for name in originals}
    # A name that needs no change keeps it, whatever others turn into.
    taken = {prefix + name for name in originals if replaced[name] == prefix + name}
    wanted = list(replaced.values())
    result = {}
    for name in originals:
        legal = replaced[name]
        changed = legal != prefix + name
        if len(legal) > _MAX_LENGTH or (changed and (legal in taken or wanted.count(legal) > 1)) or not legal:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
            legal = f"{legal[: _MAX_LENGTH - _HASH_LENGTH - 1]}_{digest}"
        result[name] = legal
    return result
