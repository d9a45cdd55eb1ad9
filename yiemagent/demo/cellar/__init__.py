"""A wine cellar: 185 real wines as facts and tasting notes of our own, in SQLite, behind tools."""

from __future__ import annotations

from yiemagent.demo.cellar.tools import cellar_tools

__all__ = ["cellar_tools"]
