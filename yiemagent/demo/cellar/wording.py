"""How two spellings of the same word are made equal: accents, case, plural and adjective endings."""

from __future__ import annotations

import functools
import re
import unicodedata

__all__ = ["fold", "stem", "words"]

_NOT_WORD = re.compile(r"[^a-z0-9]+")
_SPELLED_OUT = str.maketrans({"ß": "ss", "œ": "oe", "æ": "ae", "ø": "o"})
_ENDINGS = ("ity", "ies", "ied", "ing", "es", "ed", "al", "y", "e", "s")
_SHORTEST_STEM = 3


def fold(text: str) -> str:
    """Lower case, no accents, single spaces between runs of letters and digits."""
    decomposed = unicodedata.normalize("NFKD", text.lower().translate(_SPELLED_OUT))
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _NOT_WORD.sub(" ", plain).strip()


def words(text: str) -> list[str]:
    """The folded words of *text*, in order."""
    return fold(text).split()


@functools.cache
def stem(word: str) -> str:
    """What ``oaky`` and ``oak``, ``spicy`` and ``spice``, ``cherries`` and ``cherry`` have in common.

    Args:
        word: One folded word. The result is meant for comparing, not for reading.
    """
    shorter = word
    while True:
        ending = next((end for end in _ENDINGS if _can_lose(shorter, end)), None)
        if ending is None:
            break
        shorter = shorter[: -len(ending)]
    if len(shorter) > _SHORTEST_STEM and shorter[-1] == shorter[-2]:
        shorter = shorter[:-1]
    return shorter


def _can_lose(word: str, ending: str) -> bool:
    return word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM
