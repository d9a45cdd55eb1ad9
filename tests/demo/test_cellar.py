"""The cellar behind its tools (issue 2, part 7)."""

from __future__ import annotations

import inspect
import os
import threading
from typing import get_args

import pytest

from yiemagent.demo.cellar import cellar_tools
from yiemagent.demo.cellar.database import all_wines
from yiemagent.demo.cellar.pairing import REASONS
from yiemagent.demo.cellar.search import Colour
from yiemagent.demo.cellar.tools import (
    compare_wines,
    list_grapes,
    list_regions,
    pair_with_food,
    price_range,
    search_wines,
    stock_value,
    wine_details,
)
from yiemagent.testing import run_in_thread
from yiemagent.tools.registry import ToolRegistry


def test_the_cellar_holds_at_least_a_hundred_and_ten_wines() -> None:
    """Issue 2, part 7: at least 100 real wines."""
    assert len(all_wines()) >= 110


def test_every_wine_is_complete_and_within_the_tables() -> None:
    """Facts that a typing error in the data file would break."""
    for wine in all_wines():
        assert wine.producer
        assert wine.region
        assert wine.country
        assert wine.notes.endswith(".")
        assert wine.colour in get_args(Colour)
        assert wine.body in ("light", "medium", "full")
        assert wine.sweetness in ("dry", "off-dry", "sweet")
        assert 5 <= wine.price <= 1000
        assert wine.stock > 0
        assert wine.vintage is None or 1990 <= wine.vintage <= 2024
        assert set(wine.pairs_with) <= set(REASONS), wine.title


def test_no_wine_is_there_twice() -> None:
    """Names are how people and models point at a wine."""
    titles = [wine.title for wine in all_wines()]
    assert len(set(titles)) == len(titles)


def test_every_tool_is_a_plain_function_that_describes_all_its_parameters() -> None:
    """Issue 2, part 2: the schema comes from the signature and the docstring."""
    for tool in ToolRegistry(cellar_tools()).specs:
        assert tool.function is not None
        properties = tool.input_schema["properties"]
        assert list(properties) == list(inspect.signature(tool.function).parameters)
        assert all(schema.get("description") for schema in properties.values()), tool.name


def test_a_search_by_taste_puts_wines_that_fit_every_word_first() -> None:
    """The runbook's question: notes of oak and vanilla."""
    found = search_wines("oak vanilla", max_results=20)

    assert found["count"] >= 10
    for wine in found["wines"]:
        assert "oak" in wine["notes"].lower()
        assert "vanilla" in wine["notes"].lower()


def test_limits_are_all_kept() -> None:
    """Colour, country, price and vintage narrow a search together."""
    found = search_wines(colour="red", country="Italy", max_price=30, from_vintage=2019, max_results=20)

    assert found["count"] == len(found["wines"]) > 0
    for wine in found["wines"]:
        assert wine["colour"] == "red"
        assert wine["origin"].endswith("Italy")
        assert wine["price_eur"] <= 30
        assert wine["vintage"] >= 2019


@pytest.mark.parametrize(
    ("grape", "other"), [("Shiraz", "Syrah"), ("Pinot Grigio", "Pinot Gris"), ("garnacha", "Grenache")]
)
def test_a_grape_is_found_under_its_other_name(grape: str, other: str) -> None:
    """People and labels do not agree on names."""
    assert search_wines(grape=grape)["count"] == search_wines(grape=other)["count"] > 0


def test_accents_and_case_do_not_matter() -> None:
    """Nobody types them."""
    assert search_wines(region="RHONE")["count"] == search_wines(region="Rhône")["count"] > 0


def test_a_larger_place_stands_for_its_countries() -> None:
    """The runbook's follow-up: also check European wines."""
    countries = set(list_regions(country="European")["countries"])

    assert {"France", "Italy", "Spain"} <= countries
    assert not countries & {"USA", "Chile", "Australia"}


def test_excluded_words_are_kept_out() -> None:
    """White without oak."""
    found = search_wines(colour="white", exclude="oak", max_results=20)

    assert found["count"] > 0
    assert not any("oak" in wine["notes"] for wine in found["wines"])


def test_a_search_says_which_words_it_did_not_find() -> None:
    """A model must not claim what the cellar does not say."""
    found = search_wines("vanilla zebra")

    assert found["words_not_found"] == ["zebra"]
    assert (found["words_fitted"], found["words_asked"]) == (1, 2)
    assert found["count"] > 0


def test_wines_of_one_grape_come_before_blends_of_it() -> None:
    """Who asks for Riesling does not mean a blend of five."""
    first, *_, last = search_wines(grape="Riesling", max_results=20)["wines"]
    assert first["grapes"] == ["Riesling"]
    assert len(last["grapes"]) > 1


def test_a_lower_limit_above_the_upper_one_is_refused_in_words() -> None:
    """Bad input names the values and the way out."""
    with pytest.raises(ValueError, match="min_price=50 is above max_price=20; swap them"):
        search_wines(min_price=50, max_price=20)


def test_the_number_of_results_stays_within_its_bounds() -> None:
    """A model that asks for a thousand wines gets twenty."""
    assert len(search_wines(max_results=1000)["wines"]) == 20
    assert len(search_wines(max_results=0)["wines"]) == 1


@pytest.mark.parametrize(
    ("sort", "key"),
    [("cheapest first", lambda wine: wine["price_eur"]), ("dearest first", lambda wine: -wine["price_eur"])],
)
def test_a_sort_order_holds(sort: str, key: object) -> None:
    """Cheapest and dearest are asked for all the time."""
    wines = search_wines(sort=sort, max_results=20)["wines"]  # type: ignore[arg-type]
    assert wines == sorted(wines, key=key)  # type: ignore[arg-type]


def test_wines_without_a_vintage_come_last_by_age() -> None:
    """A Champagne without a year is neither the oldest nor the youngest."""
    assert search_wines(sort="oldest first")["wines"][0]["vintage"] is not None
    assert search_wines(sort="youngest first")["wines"][0]["vintage"] is not None


def test_details_are_found_by_name_and_by_id() -> None:
    """Both are what a search shows."""
    by_name = wine_details("sassicaia")
    assert by_name["wine"].startswith("Tenuta San Guido Sassicaia")
    assert wine_details(str(by_name["id"])) == by_name


def test_an_unknown_wine_is_an_error_that_names_the_nearest() -> None:
    """The model can try again."""
    with pytest.raises(ValueError, match=r"no wine called 'Ridge Nowhere'; the nearest are Ridge"):
        wine_details("Ridge Nowhere")
    with pytest.raises(ValueError, match="no wine with id 9999; ids go from 1 to"):
        wine_details("9999")


def test_a_comparison_says_what_differs_and_what_is_shared() -> None:
    """Issue 2, part 7."""
    found = compare_wines(["Tignanello", "Sassicaia"])

    assert found["price_difference_eur"] == found["wines"][1]["price_eur"] - found["wines"][0]["price_eur"]
    assert found["shared_food"] == ["beef", "lamb"]


def test_a_comparison_of_one_wine_is_refused() -> None:
    """Bad input."""
    with pytest.raises(ValueError, match="two to four wines, got 1"):
        compare_wines(["Tignanello"])


def test_a_dish_gets_wines_that_name_its_kind_of_food_and_a_reason() -> None:
    """Roast duck is duck."""
    found = pair_with_food("roast duck", max_price=40)

    assert found["food"] == ["duck"]
    assert found["why"] == [REASONS["duck"]]
    assert all("duck" in wine["pairs_with"] and wine["price_eur"] <= 40 for wine in found["wines"])


def test_the_longest_dish_wins() -> None:
    """A goat cheese salad is not served with a wine for hard cheese."""
    assert pair_with_food("goat cheese salad")["food"] == ["goat cheese", "salad"]


def test_an_unknown_dish_is_an_error_that_lists_what_is_known() -> None:
    """Bad input."""
    with pytest.raises(ValueError, match=r"nothing of 'gravel'; it knows aperitif, barbecue"):
        pair_with_food("gravel")


def test_prices_span_from_the_cheapest_to_the_dearest() -> None:
    """The average lies between."""
    found = price_range(region="Champagne")

    low, high = found["cheapest"]["price_eur"], found["dearest"]["price_eur"]
    assert low < found["average_eur"] < high
    assert price_range(grape="Nonesuch") == {"count": 0}


def test_lists_count_every_wine_once() -> None:
    """The regions' wines add up to the cellar."""
    found = list_regions()

    assert sum(region["wines"] for region in found["regions"]) == found["wines"] == len(all_wines())
    assert list_grapes(region="Barolo") == {"wines": 2, "grapes": {"Nebbiolo": 2}}


def test_the_stock_is_the_sum_of_its_bottles() -> None:
    """Bottles and worth."""
    found = stock_value()

    assert found["bottles"] == sum(wine.stock for wine in all_wines())
    assert found["value_eur"] == sum(wine.stock * wine.price for wine in all_wines())
    assert sum(found["bottles_by_colour"].values()) == found["bottles"]


def test_any_thread_may_ask_at_the_same_time() -> None:
    """sqlite3 connections belong to one thread; the tools may run in a pool (decision 19)."""
    together = threading.Barrier(4)

    def search() -> int:
        together.wait(5)
        return int(search_wines("oak")["count"])

    outcomes = [run_in_thread(search) for _ in range(4)]

    assert {outcome.get() for outcome in outcomes} == {search_wines("oak")["count"]}


@pytest.mark.servers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_can_ask_too() -> None:
    """No connection of the parent is used in a child."""
    search_wines("oak")
    child = os.fork()
    if child == 0:
        os._exit(0 if search_wines("oak")["count"] > 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
