"""Fakes and helpers for testing agents without network: the ones our own tests use."""

from yiemagent.testing.gates import WAIT, Gate, Outcome, run_in_thread
from yiemagent.testing.scripted import ScriptedLlm, Step, call, calls, cut, fail, say

__all__ = [
    "WAIT",
    "Gate",
    "Outcome",
    "ScriptedLlm",
    "Step",
    "call",
    "calls",
    "cut",
    "fail",
    "run_in_thread",
    "say",
]
