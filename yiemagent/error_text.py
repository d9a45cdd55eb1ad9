"""What an error of somebody else's code says: hooks, tools and models may raise anything."""

from __future__ import annotations

__all__ = ["error_text", "message_of"]


def message_of(error: BaseException) -> str:
    """``str(error)``, or an empty text when that raises: the error of someone else's code may."""
    try:
        return str(error)
    except Exception:
        return ""


def error_text(error: BaseException) -> str:
    """Its kind and what it says, such as ``ValueError: no such wine``; never raises."""
    name, message = type(error).__name__, message_of(error)
    return f"{name}: {message}" if message else name
