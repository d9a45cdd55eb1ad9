"""What is said to each kind of question: the table of answers, and the small ones.

Every answer may stop with ``Waiting`` at any ``desk.ask``; see ``desk``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from yiemagent.demo.offline.compare_answer import answer_compare, answer_prices
from yiemagent.demo.offline.conversation import Scene
from yiemagent.demo.offline.desk import Desk
from yiemagent.demo.offline.list_answer import (
    answer_count,
    answer_countries,
    answer_grapes,
    answer_overview,
    answer_regions,
    answer_stock,
)
from yiemagent.demo.offline.prose import listing, money
from yiemagent.demo.offline.search_answer import answer_search
from yiemagent.demo.offline.wine_answer import (
    answer_details,
    answer_food_for,
    answer_pair,
    answer_similar,
    answer_suits,
)

__all__ = ["GREETING", "THANKS", "answer"]

GREETING = "Hello. What would you like to drink? Ask me about a wine, a taste, a dish or a price."
THANKS = "You are welcome."
_HELP = (
    "I am a rule-based stand-in for a language model, made for this demonstration. I answer questions about "
    "the wine cellar by calling its tools: by taste (notes of oak and vanilla), grape, region, country, "
    "colour, price, vintage or food; and I compare, count and list. Try: Which red goes with lamb below "
    "30 euros? Compare Barolo and Barbaresco. Tell me about Sassicaia. Then: And from Spain? Tell me more "
    "about the second."
)
_UNKNOWN = (
    "I cannot answer that: I am a rule-based stand-in for a language model and know only this wine cellar. "
    "Ask me about its wines, for example by taste, grape, region, price, vintage or food. "
    "With a real model (OPENAI_API_KEY or OPENAI_BASE_URL) the same program answers freely."
)


def answer(scene: Scene, desk: Desk) -> str:
    """The answer to the last question of *scene*.

    Raises:
        Waiting: More tools have to be called first.
        CannotLookUp: A tool is missing or failed; the text can be said as it is.
    """
    return _ANSWERS[scene.wish.kind](scene, desk)


def _small_talk(text: str) -> Callable[[Scene, Desk], str]:
    return lambda scene, desk: text


def _surprise(scene: Scene, desk: Desk) -> str:
    kinds = ("red", "white", "sparkling")
    budget = scene.wish.max_price or 25
    found = desk.ask_all(
        [
            ("search_wines", {"colour": kind, "max_price": budget, "sort": "dearest first", "max_results": 1})
            for kind in kinds
        ]
    )
    wines = [wine for result in found for wine in result["wines"]]
    if not wines:
        return f"There is nothing up to {money(budget)} in the cellar."
    unknown = " or ".join(f'"{word}"' for word in scene.wish.unknown[:3])
    nothing = f"The cellar book says nothing of {unknown}. " if unknown else ""
    return (
        f"{nothing}Without more to go on, one of each colour up to {money(budget)}:\n{listing(wines)}\n"
        "Tell me a taste, a dish, a place or a price and I will look again."
    )


_ANSWERS: Mapping[str, Callable[[Scene, Desk], str]] = {
    "help": _small_talk(_HELP),
    "greeting": _small_talk(GREETING),
    "thanks": _small_talk(THANKS),
    "unknown": _small_talk(_UNKNOWN),
    "search": answer_search,
    "more": answer_search,
    "count": answer_count,
    "details": answer_details,
    "compare": answer_compare,
    "similar": answer_similar,
    "pair": answer_pair,
    "suits": answer_suits,
    "food_for": answer_food_for,
    "prices": answer_prices,
    "stock": answer_stock,
    "countries": answer_countries,
    "regions": answer_regions,
    "grapes": answer_grapes,
    "overview": answer_overview,
    "surprise": _surprise,
}
