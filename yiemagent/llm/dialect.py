"""What the form of a message depends on, where a provider has no quirks to be told apart by."""

from __future__ import annotations

from dataclasses import dataclass

from yiemagent.messages import AssistantMessage

__all__ = ["ModelDialect"]


@dataclass(frozen=True, slots=True)
class ModelDialect:
    """Everything that the form of a message depends on; equal ones share encoded messages."""

    api: str
    provider: str
    model: str
    images: bool
    """Whether the model can see; images are replaced by a line of text otherwise."""

    def owns(self, message: AssistantMessage) -> bool:
        """Whether *message* came from this very model, so that it gets back what is private."""
        return message.api == self.api and (message.provider, message.model) == (self.provider, self.model)
