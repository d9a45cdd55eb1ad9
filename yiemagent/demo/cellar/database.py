"""The cellar's SQLite database and the wines in it.

sqlite3 connections belong to one thread. The database is therefore built once, kept as an image of
bytes, and each question opens a connection of its own onto a copy (some 0.1 ms): nothing is
shared between threads or with a forked child, and no file has to be cleaned up.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from yiemagent.demo.cellar.wording import fold

__all__ = ["Wine", "all_wines", "connect", "select"]

_SCHEMA = """
CREATE TABLE wine (
    id INTEGER PRIMARY KEY, producer TEXT, name TEXT, vintage INTEGER, colour TEXT, country TEXT,
    region TEXT, appellation TEXT, grapes TEXT, body TEXT, sweetness TEXT, price INTEGER,
    stock INTEGER, notes TEXT, pairs_with TEXT,
    place TEXT  -- region and appellation, folded, with a space at both ends
);
CREATE TABLE grape (wine_id INTEGER REFERENCES wine, folded TEXT);
CREATE INDEX grape_folded ON grape (folded, wine_id);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wine:
    """One wine of the cellar; prices in whole euros for a bottle, ``vintage`` None without one."""

    id: int
    producer: str
    name: str
    vintage: int | None
    colour: str
    country: str
    region: str
    appellation: str
    grapes: tuple[str, ...]
    body: str
    sweetness: str
    price: int
    stock: int
    notes: str
    pairs_with: tuple[str, ...]

    @property
    def title(self) -> str:
        """Producer, name and vintage, as on a label."""
        name = "" if self.name == self.producer else f" {self.name}"
        return f"{self.producer}{name} {self.vintage or 'NV'}"

    @property
    def origin(self) -> str:
        """Appellation, region and country, each once."""
        parts = dict.fromkeys((self.appellation, self.region, self.country))
        return ", ".join(parts)

    def summary(self) -> dict[str, Any]:
        """What a list of wines shows of it."""
        return {
            "id": self.id,
            "wine": self.title,
            "vintage": self.vintage,
            "colour": self.colour,
            "origin": self.origin,
            "grapes": list(self.grapes),
            "price_eur": self.price,
            "notes": self.notes,
            "pairs_with": list(self.pairs_with),
        }

    def details(self) -> dict[str, Any]:
        """Everything that is known of it."""
        return {**self.summary(), "body": self.body, "sweetness": self.sweetness, "stock": self.stock}


@contextlib.contextmanager
def connect() -> Iterator[sqlite3.Connection]:
    """A connection to a copy of the cellar, for this thread and this block only."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(_image())
        connection.row_factory = sqlite3.Row
        yield connection
    finally:
        connection.close()


def select(where: str = "1", parameters: Sequence[Any] = ()) -> list[Wine]:
    """The wines for which the SQL condition *where* holds, in the order of the cellar book."""
    with connect() as connection:
        rows = connection.execute(f"SELECT * FROM wine WHERE {where} ORDER BY id", parameters)
        return [_wine(row) for row in rows]


@functools.cache
def all_wines() -> tuple[Wine, ...]:
    """Every wine, in the order of the cellar book."""
    return tuple(select())


@functools.cache
def _image() -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_SCHEMA)
        text = resources.files("yiemagent.demo.cellar").joinpath("wines.csv").read_text(encoding="utf-8")
        for row in csv.DictReader(text.splitlines()):
            _insert(connection, row)
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


def _insert(connection: sqlite3.Connection, row: dict[str, str]) -> None:
    values: dict[str, Any] = dict(row)
    values["vintage"] = int(row["vintage"]) if row["vintage"] else None
    values["place"] = f" {fold(row['region'])} {fold(row['appellation'])} "
    columns = ", ".join(values)
    marks = ", ".join(f":{column}" for column in values)
    connection.execute(f"INSERT INTO wine ({columns}) VALUES ({marks})", values)
    grapes = [(row["id"], fold(grape)) for grape in row["grapes"].split("; ")]
    connection.executemany("INSERT INTO grape VALUES (?, ?)", grapes)


def _wine(row: sqlite3.Row) -> Wine:
    values = {key: row[key] for key in row.keys() if key != "place"}  # noqa: SIM118 (a Row iterates values)
    values["grapes"] = tuple(values["grapes"].split("; "))
    values["pairs_with"] = tuple(values["pairs_with"].split("; "))
    return Wine(**values)
