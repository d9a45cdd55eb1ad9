"""SubagentPool: start, find and stop agents together. They are never restarted.

Source: SB-1 to SB-4, T223 to T226.
"""

from __future__ import annotations

import threading
from time import monotonic
from types import TracebackType
from typing import Any

from yiemagent.agent.agent import Agent
from yiemagent.agent.registry import AgentKey, AgentRegistry
from yiemagent.value_checks import check_type

__all__ = ["SubagentPool"]

_STOP_SECONDS = 5.0


class SubagentPool:
    """Owns the agents it started; one that fails does not touch the others.

    Args:
        registry: Where agents with a ``registry_key`` are found; its own by default.
    """

    def __init__(self, registry: AgentRegistry | None = None) -> None:
        check_type("registry", registry, AgentRegistry)
        self.registry = AgentRegistry() if registry is None else registry
        self._lock = threading.Lock()
        self._agents: list[Agent] = []

    def start(
        self, model: Any, *, registry_key: AgentKey | None = None, metadata: Any = None, **options: Any
    ) -> Agent:
        """Make an agent and own it.

        Args:
            model: As for ``Agent``.
            registry_key: Registers it as ``(session_id, role, index)``.
            metadata: Kept beside it in the registry.
            **options: Every keyword of ``Agent``.

        Raises:
            ConfigurationError: The key is taken, or an option cannot work; nothing was started.
        """
        agent = Agent(model, **options)
        if registry_key is not None:
            self.registry.register(registry_key, agent, metadata)
        with self._lock:
            self._agents.append(agent)
        return agent

    def stop(self, agent: Agent, timeout: float = _STOP_SECONDS) -> bool:
        """Stop *agent* and let go of it; False when this pool does not own it (any more)."""
        with self._lock:
            if agent not in self._agents:
                return False
            self._agents.remove(agent)
        agent.stop(timeout)
        return True

    def stop_by_key(self, key: AgentKey, timeout: float = _STOP_SECONDS) -> bool:
        """Stop the agent registered as *key*; False when there is none."""
        agent = self.registry.lookup(key)
        return agent is not None and self.stop(agent, timeout)

    def stop_all(self, timeout: float = _STOP_SECONDS) -> bool:
        """Stop every agent, all at once and with one deadline; the pool stays usable.

        Returns:
            Whether every agent's thread ended within *timeout* seconds.
        """
        deadline = monotonic() + timeout
        with self._lock:
            agents, self._agents = self._agents, []
        for agent in agents:
            agent.stop(0)
        ended = [agent.stop(max(0.0, deadline - monotonic())) for agent in agents]
        return all(ended)

    def agents(self) -> tuple[Agent, ...]:
        """The agents that are owned now, oldest first."""
        with self._lock:
            return tuple(self._agents)

    def count(self) -> int:
        """How many agents are owned now."""
        return len(self.agents())

    def __enter__(self) -> SubagentPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_all()
