"""AgentRegistry: find live agents by who they are, keyed ``(session_id, role, index)``.

Source: RG-1 to RG-4, T217 to T222.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from yiemagent.agent.agent import Agent
from yiemagent.errors import ConfigurationError

__all__ = ["AgentKey", "AgentRegistry", "Registration"]

AgentKey: TypeAlias = tuple[str, str, int]
"""Session id, role, and which of several with the same role."""


class Registration(NamedTuple):
    """A live agent and what was said of it."""

    key: AgentKey
    agent: Agent
    metadata: Any


class AgentRegistry:
    """Holds agents weakly: one that is stopped or dropped is no longer found, and its key is free.

    Any thread may call any method; of several registering one key at once, exactly one wins.
    """

    def __init__(self) -> None:
        # Reentrant: an agent may be collected, and so forgotten, while its thread holds the lock.
        self._lock = threading.RLock()
        self._entries: dict[AgentKey, tuple[weakref.ref[Agent], Any]] = {}

    def register(self, key: AgentKey, agent: Agent, metadata: Any = None) -> None:
        """Register *agent* under *key*.

        Raises:
            ConfigurationError: A live agent has that key already, the same one included.
        """
        _check(key)
        with self._lock:
            if self._live(key) is not None:
                raise ConfigurationError(
                    f"an agent is registered as {key!r} already; stop it, or use another index"
                )
            self._entries[key] = weakref.ref(agent), metadata

    def unregister(self, key: AgentKey, agent: Agent) -> bool:
        """Free *key* if *agent* holds it; whether it did. Harmless otherwise."""
        with self._lock:
            found = self._live(key)
            if found is None or found.agent is not agent:
                return False
            del self._entries[key]
            return True

    def lookup(self, key: AgentKey) -> Agent | None:
        """The live agent registered as *key*, or None."""
        found = self.lookup_with_metadata(key)
        return found.agent if found is not None else None

    def lookup_with_metadata(self, key: AgentKey) -> Registration | None:
        """The registration of *key*, or None."""
        with self._lock:
            return self._live(key)

    def registrations(self) -> list[Registration]:
        """Every live registration, oldest first."""
        with self._lock:
            return list(self._all())

    def list_by_session(self, session_id: str) -> list[tuple[str, int, Agent]]:
        """Role, index and agent of each in *session_id*."""
        return [(key[1], key[2], agent) for key, agent, _ in self.registrations() if key[0] == session_id]

    def list_by_role(self, role: str) -> list[tuple[str, int, Agent]]:
        """Session, index and agent of each with *role*."""
        return [(key[0], key[2], agent) for key, agent, _ in self.registrations() if key[1] == role]

    def count(self, session_id: str | None = None) -> int:
        """How many are registered, in all or in one session."""
        return sum(session_id is None or entry.key[0] == session_id for entry in self.registrations())

    def _all(self) -> Iterator[Registration]:
        for key in list(self._entries):
            found = self._live(key)
            if found is not None:
                yield found

    def _live(self, key: AgentKey) -> Registration | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        agent = entry[0]()
        if agent is None or agent.is_stopped:
            del self._entries[key]
            return None
        return Registration(key, agent, entry[1])


def _check(key: Any) -> None:
    good = (
        isinstance(key, tuple)
        and len(key) == 3
        and isinstance(key[0], str)
        and isinstance(key[1], str)
        and isinstance(key[2], int)
    )
    if not good:
        raise ConfigurationError(f"a registry key is (session_id: str, role: str, index: int), got {key!r}")
