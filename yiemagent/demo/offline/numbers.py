"""Prices, vintages and counts in a question: read them, and take them out of its text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

__all__ = ["Numbers", "read_numbers"]

_UNITS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_TEENS = {"twelve": 12, "fifteen": 15, "a dozen": 12}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80}
_SPELLED = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)}|ninety)(?:[ -](?P<unit>{'|'.join(_UNITS)}|one))?"
    rf"|(?P<teen>{'|'.join(_TEENS)})|(?:(?P<times>a|one|{'|'.join(_UNITS)}) )hundred"
    rf"|(?P<alone>{'|'.join(_UNITS)}))\b"
)

_CURRENCY = r"(?:euros?\b|eur\b|€|\$|£|bucks\b|dollars?\b|pounds?\b|quid\b)"
_MONEY = (
    r"(?:[€$£]\s*)?(?P<{0}>\d+(?:[.,]\d{{1,2}})?)(?!\d)\s*(?P<{0}unit>" + _CURRENCY + r")?"
    r"(?!\s*(?:years?|bottles?|wines?|reds?|whites?|%|percent))"
)
_LOW, _HIGH = _MONEY.format("low"), _MONEY.format("high")
_AT_MOST = (
    r"(?:below|under|beneath|less than|cheaper than|up to|at most|max(?:imum)?(?: of)?|no more than"
    r"|not more than|within|not (?:over|above)|before|older than|until|budget (?:is|of)|spend|<=?"
    r"|for less than)"
)
_AT_LEAST = (
    r"(?:above|over|more than|at least|min(?:imum)?(?: of)?|starting (?:at|from)|dearer than|no less than"
    r"|more expensive than|upwards of|after|since|younger than|newer than|>=?)"
)
_EXCLUSIVE_YEARS = re.compile(
    r"before|older than|below|under|less than|<$|after|younger than|newer than|above|over|>$"
)
_RANGE = re.compile(rf"(?:between|from)?\s*{_LOW}\s*(?:and|to|-|–)\s*{_HIGH}")
_CAP = re.compile(
    rf"\b(?P<how>{_AT_MOST})\s+(?:about\s+|around\s+)?{_HIGH}|(?P<sign><=?)\s*{_MONEY.format('other')}"
)
_FLOOR = re.compile(
    rf"\b(?P<how>{_AT_LEAST})\s+(?:about\s+|around\s+)?{_LOW}|(?P<sign>>=?)\s*{_MONEY.format('other')}"
)
_AROUND = re.compile(
    rf"\b(?:around|about|roughly|approximately|circa|some)\s+{_LOW}|~\s*{_MONEY.format('other')}"
)
_SUM = re.compile(
    rf"(?:[€$£]\s*)(?P<other>\d+(?:[.,]\d{{1,2}})?)|(?P<low>\d+(?:[.,]\d{{1,2}})?)\s*{_CURRENCY}"
)
_DECADE = re.compile(r"\b(?:the )?(?P<decade>(?:19|20)\d0)s\b")
_YEAR = re.compile(r"\b(?P<year>19[4-9]\d|20[0-4]\d)\b")
_HOW_MANY = re.compile(
    r"\b(?:top|first|best|show(?: me)?|give me|list|name|recommend|suggest|find(?: me)?)\s+(?:the\s+)?"
    r"(?P<n>\d{1,2})\b"
    r"|\b(?P<m>\d{1,2})\s+(?:\w+\s+){0,3}?"
    r"(?:wines?|bottles?|reds?|whites?|suggestions?|recommendations?|options?|cheapest|dearest|oldest|youngest|best)\b"
)
_NEAR = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What the numbers of a question say, and the question without them."""

    rest: str
    min_price: float | None = None
    max_price: float | None = None
    from_vintage: int | None = None
    to_vintage: int | None = None
    limit: int | None = None


def read_numbers(question: str) -> Numbers:
    """Read prices in euros (any currency is taken for euros), vintages and how many wines are wanted."""
    found = Numbers(rest=_SPELLED.sub(_digits, question.lower()))
    for step in (
        _read_decade,
        _read_range,
        _read_limits,
        _read_around,
        _read_how_many,
        _read_sum,
        _read_year,
    ):
        found = step(found)
    return found


def _digits(match: re.Match[str]) -> str:
    if match["tens"]:
        units = {**_UNITS, "one": 1}
        return str({**_TENS, "ninety": 90}[match["tens"]] + units.get(match["unit"] or "", 0))
    if match["teen"]:
        return str(_TEENS[match["teen"]])
    if match["times"]:
        return str(100 * _UNITS.get(match["times"], 1))
    return str(_UNITS[match["alone"]])


def _is_year(text: str, unit: str | None) -> bool:
    return not unit and bool(_YEAR.fullmatch(text))


def _amount(text: str) -> float:
    return float(text.replace(",", "."))


def _without(found: Numbers, match: re.Match[str]) -> str:
    return f"{found.rest[: match.start()]} {found.rest[match.end() :]}"


def _read_decade(found: Numbers) -> Numbers:
    match = _DECADE.search(found.rest)
    if match is None:
        return found
    first = int(match["decade"])
    return replace(found, rest=_without(found, match), from_vintage=first, to_vintage=first + 9)


def _read_range(found: Numbers) -> Numbers:
    match = _RANGE.search(found.rest)
    if match is None:
        return found
    rest = _without(found, match)
    if _is_year(match["low"], match["lowunit"]) and _is_year(match["high"], match["highunit"]):
        first, last = sorted((int(match["low"]), int(match["high"])))
        return replace(found, rest=rest, from_vintage=first, to_vintage=last)
    low, high = sorted((_amount(match["low"]), _amount(match["high"])))
    return replace(found, rest=rest, min_price=low, max_price=high)


def _read_limits(found: Numbers) -> Numbers:
    for pattern, group in ((_CAP, "high"), (_FLOOR, "low")):
        match = pattern.search(found.rest)
        if match is None:
            continue
        text = match[group] or match["other"]
        is_year = _is_year(text, match[f"{group}unit"] or match["otherunit"])
        beyond = 1 if is_year and _EXCLUSIVE_YEARS.match(match["how"] or match["sign"]) else 0
        found = replace(found, rest=_without(found, match))
        if pattern is _CAP and is_year:
            found = replace(found, to_vintage=int(text) - beyond)
        elif pattern is _CAP:
            found = replace(found, max_price=_amount(text))
        elif is_year:
            found = replace(found, from_vintage=int(text) + beyond)
        else:
            found = replace(found, min_price=_amount(text))
    return found


def _read_around(found: Numbers) -> Numbers:
    match = _AROUND.search(found.rest)
    if match is None or found.max_price is not None:
        return found
    text, unit = match["low"] or match["other"], match["lowunit"] or match["otherunit"]
    rest = _without(found, match)
    if _is_year(text, unit):
        return replace(found, rest=rest, from_vintage=int(text) - 1, to_vintage=int(text) + 1)
    amount = _amount(text)
    low, high = round(amount * (1 - _NEAR)), round(amount * (1 + _NEAR))
    return replace(found, rest=rest, min_price=float(low), max_price=float(high))


def _read_how_many(found: Numbers) -> Numbers:
    match = _HOW_MANY.search(found.rest)
    if match is None:
        return found
    digits = match["n"] or match["m"]
    return replace(found, rest=found.rest.replace(digits, " ", 1), limit=int(digits) or None)


def _read_sum(found: Numbers) -> Numbers:
    match = _SUM.search(found.rest)
    if match is None or found.max_price is not None or found.min_price is not None:
        return found
    return replace(found, rest=_without(found, match), max_price=_amount(match["low"] or match["other"]))


def _read_year(found: Numbers) -> Numbers:
    match = _YEAR.search(found.rest)
    if match is None or found.from_vintage is not None or found.to_vintage is not None:
        return found
    year = int(match["year"])
    return replace(found, rest=_without(found, match), from_vintage=year, to_vintage=year)
