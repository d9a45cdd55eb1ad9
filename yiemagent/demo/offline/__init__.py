"""A stand-in for a language model: rules instead of weights, over the real wire.

It speaks the Chat Completions dialect on a loopback port, so that the demonstration, the
documentation's examples and tests run without a key and without a network. It knows wine words,
answers by calling the tools it is offered, and never claims to be more than it is.
"""

from __future__ import annotations

from yiemagent.demo.offline.server import OfflineModel

__all__ = ["OfflineModel"]
