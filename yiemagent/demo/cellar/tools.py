"""The tools of the cellar: plain typed functions, which is all that an agent needs.

Each one opens its own connection, so any thread may call it. Wrong input raises ``ValueError``
with the way out; the model reads it as an error result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from yiemagent.demo.cellar.database import Wine, all_wines
from yiemagent.demo.cellar.pairing import REASONS, kinds_of_food
from yiemagent.demo.cellar.search import (
    Colour,
    Filters,
    Sort,
    exclude_words,
    fitting,
    lead_with_grape,
    rank,
    sort_wines,
)

__all__ = [
    "cellar_tools",
    "compare_wines",
    "list_grapes",
    "list_regions",
    "pair_with_food",
    "price_range",
    "search_wines",
    "stock_value",
    "wine_details",
]

_MOST_RESULTS = 20


def search_wines(
    query: str = "",
    colour: Colour | None = None,
    grape: str | None = None,
    region: str | None = None,
    country: str | None = None,
    min_price: float | None = None,
    max_price: float | None = None,
    from_vintage: int | None = None,
    to_vintage: int | None = None,
    exclude: str = "",
    sort: Sort = "best match",
    max_results: int = 5,
) -> dict[str, Any]:
    """Search the wine cellar.

    Args:
        query: Words that should fit: tasting notes ("oak vanilla"), a name, a grape, a place, a body.
        colour: Colour or kind of wine.
        grape: Grape variety, under any of its names.
        region: Region or appellation, such as "Burgundy" or "Barolo".
        country: Country, or a larger place such as "Europe" or "South America".
        min_price: Lowest price in euros.
        max_price: Highest price in euros.
        from_vintage: Oldest vintage.
        to_vintage: Youngest vintage.
        exclude: Words that must not fit, such as "oak".
        sort: Order of the wines.
        max_results: How many wines to return at most, 1 to 20.
    """
    filters = Filters(
        colour=colour,
        grape=grape,
        region=region,
        country=country,
        min_price=min_price,
        max_price=max_price,
        from_vintage=from_vintage,
        to_vintage=to_vintage,
    )
    ranking = rank(fitting(filters), query)
    wines = ranking.wines if query or grape is None else lead_with_grape(ranking.wines, grape)
    wines = sort_wines(exclude_words(wines, exclude), sort)
    shown = wines[: _between(1, max_results, _MOST_RESULTS)]
    answer: dict[str, Any] = {"count": len(wines), "wines": [wine.summary() for wine in shown]}
    if ranking.fitted < ranking.words:
        answer["words_asked"] = ranking.words
        answer["words_fitted"] = ranking.fitted
        answer["words_not_found"] = list(ranking.not_found)
    return answer


def wine_details(wine: str) -> dict[str, Any]:
    """Everything about one wine: grapes, body, price, stock, tasting notes, food.

    Args:
        wine: Its id, or its name as far as it is known.
    """
    return _find(wine).details()


def compare_wines(wines: list[str]) -> dict[str, Any]:
    """Compare two to four wines: everything about each, and what they share.

    Args:
        wines: Their ids or names.
    """
    if not 2 <= len(wines) <= 4:
        raise ValueError(f"compare_wines takes two to four wines, got {len(wines)}")
    found = [_find(name) for name in wines]
    shared = [food for food in found[0].pairs_with if all(food in other.pairs_with for other in found[1:])]
    return {
        "wines": [wine.details() for wine in found],
        "cheapest": min(found, key=lambda wine: wine.price).title,
        "price_difference_eur": max(wine.price for wine in found) - min(wine.price for wine in found),
        "shared_food": shared,
    }


def list_regions(country: str | None = None, colour: Colour | None = None) -> dict[str, Any]:
    """The regions in the cellar with their number of wines and price span, most wines first.

    Args:
        country: Only this country, or a larger place such as "Europe".
        colour: Only wines of this colour or kind.
    """
    wines = fitting(Filters(country=country, colour=colour))
    regions = Counter((wine.region, wine.country) for wine in wines)
    spans = [_span(wines, region, land) for (region, land), _ in regions.most_common()]
    countries = Counter(wine.country for wine in wines)
    return {"wines": len(wines), "countries": dict(countries.most_common()), "regions": spans}


def list_grapes(
    colour: Colour | None = None, region: str | None = None, country: str | None = None
) -> dict[str, Any]:
    """The grape varieties in the cellar with the number of wines they are in, most first.

    Args:
        colour: Only wines of this colour or kind.
        region: Only this region or appellation.
        country: Only this country, or a larger place such as "Europe".
    """
    wines = fitting(Filters(colour=colour, region=region, country=country))
    grapes = Counter(grape for wine in wines for grape in wine.grapes)
    return {"wines": len(wines), "grapes": dict(grapes.most_common())}


def price_range(
    colour: Colour | None = None,
    grape: str | None = None,
    region: str | None = None,
    country: str | None = None,
) -> dict[str, Any]:
    """Cheapest, dearest and average price of the wines of a kind, in euros.

    Args:
        colour: Only wines of this colour or kind.
        grape: Only this grape variety.
        region: Only this region or appellation.
        country: Only this country, or a larger place such as "Europe".
    """
    wines = fitting(Filters(colour=colour, grape=grape, region=region, country=country))
    if not wines:
        return {"count": 0}
    by_price = sort_wines(wines, "cheapest first")
    return {
        "count": len(wines),
        "average_eur": round(sum(wine.price for wine in wines) / len(wines), 2),
        "cheapest": by_price[0].summary(),
        "dearest": by_price[-1].summary(),
    }


def pair_with_food(
    dish: str,
    colour: Colour | None = None,
    country: str | None = None,
    min_price: float | None = None,
    max_price: float | None = None,
    max_results: int = 3,
) -> dict[str, Any]:
    """Wines that go with a dish, and why.

    Args:
        dish: What is on the table, such as "roast duck" or "blue cheese".
        colour: Only wines of this colour or kind.
        country: Only this country, or a larger place such as "Europe".
        min_price: Lowest price in euros.
        max_price: Highest price in euros.
        max_results: How many wines to return at most, 1 to 20.
    """
    kinds = kinds_of_food(dish)
    if not kinds:
        raise ValueError(f"the cellar book says nothing of {dish!r}; it knows {', '.join(REASONS)}")
    wines = [
        wine
        for wine in fitting(Filters(colour=colour, country=country, min_price=min_price, max_price=max_price))
        if any(kind in wine.pairs_with for kind in kinds)
    ]
    wines.sort(key=lambda wine: (*_fit(wine, kinds), wine.price))
    shown = wines[: _between(1, max_results, _MOST_RESULTS)]
    return {
        "count": len(wines),
        "food": kinds,
        "why": [REASONS[kind] for kind in kinds],
        "wines": [wine.summary() for wine in shown],
    }


def stock_value(
    colour: Colour | None = None, region: str | None = None, country: str | None = None
) -> dict[str, Any]:
    """How many bottles are in the cellar and what they are worth in euros.

    Args:
        colour: Only wines of this colour or kind.
        region: Only this region or appellation.
        country: Only this country, or a larger place such as "Europe".
    """
    wines = fitting(Filters(colour=colour, region=region, country=country))
    bottles: Counter[str] = Counter()
    for wine in wines:
        bottles[wine.colour] += wine.stock
    return {
        "wines": len(wines),
        "bottles": bottles.total(),
        "value_eur": sum(wine.stock * wine.price for wine in wines),
        "bottles_by_colour": dict(bottles.most_common()),
    }


def cellar_tools() -> list[Callable[..., Any]]:
    """All tools of the cellar, ready for ``Agent(tools=...)``."""
    return [
        search_wines,
        wine_details,
        compare_wines,
        pair_with_food,
        price_range,
        list_regions,
        list_grapes,
        stock_value,
    ]


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))


def _fit(wine: Wine, kinds: list[str]) -> tuple[int, int]:
    """How well *wine* goes with *kinds*, lower is better: most kinds first, then its best-loved one."""
    places = [wine.pairs_with.index(kind) for kind in kinds if kind in wine.pairs_with]
    return -len(places), min(places)


def _span(wines: list[Wine], region: str, country: str) -> dict[str, Any]:
    prices = [wine.price for wine in wines if (wine.region, wine.country) == (region, country)]
    return {
        "region": region,
        "country": country,
        "wines": len(prices),
        "from_eur": min(prices),
        "to_eur": max(prices),
    }


def _find(wanted: str) -> Wine:
    name = wanted.strip()
    if name.isdecimal():
        by_id = {wine.id: wine for wine in all_wines()}
        if int(name) not in by_id:
            raise ValueError(f"there is no wine with id {name}; ids go from 1 to {max(by_id)}")
        return by_id[int(name)]
    ranking = rank(all_wines(), name)
    if not ranking.wines:
        raise ValueError(f"there is no wine called {wanted!r}; search_wines finds names and ids")
    if ranking.not_found:
        near = ", ".join(f"{wine.title} (id {wine.id})" for wine in ranking.wines[:3])
        raise ValueError(f"there is no wine called {wanted!r}; the nearest are {near}")
    return ranking.wines[0]
