"""Other names for the same thing, as tables: grapes, places and families of taste.

Keys and values are folded (see ``wording``), except the countries, which are names in the cellar.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "BODY_WORDS",
    "GRAPE_FAMILIES",
    "PLACE_COUNTRIES",
    "TASTE_FAMILIES",
    "countries_of",
    "grape_names",
    "place_name",
]

GRAPE_FAMILIES: tuple[frozenset[str], ...] = (
    frozenset({"tempranillo", "tinta roriz", "aragonez", "tinto fino", "tinta del pais", "cencibel"}),
    frozenset({"garnacha", "grenache", "cannonau"}),
    frozenset({"syrah", "shiraz"}),
    frozenset({"pinot gris", "pinot grigio", "grauburgunder", "rulander"}),
    frozenset({"pinot noir", "spatburgunder", "pinot nero", "blauburgunder"}),
    frozenset({"pinot bianco", "pinot blanc", "weissburgunder"}),
    frozenset({"monastrell", "mourvedre", "mataro"}),
    frozenset({"carinena", "carignan", "mazuelo", "carignano"}),
    frozenset({"zinfandel", "primitivo"}),
    frozenset({"albarino", "alvarinho"}),
    frozenset({"viura", "macabeo"}),
    frozenset({"vermentino", "rolle"}),
    frozenset({"sylvaner", "silvaner"}),
    frozenset({"malbec", "cot"}),
    frozenset({"blaufrankisch", "lemberger", "kekfrankos"}),
    frozenset({"pinot meunier", "meunier"}),
    frozenset({"gewurztraminer", "traminer"}),
    frozenset({"semillon"}),
    frozenset({"muscat", "moscato bianco", "moscato", "zibibbo", "muskat"}),
    frozenset({"sangiovese", "prugnolo gentile", "nielluccio"}),
    frozenset({"cabernet sauvignon", "cabernet", "cab"}),
    frozenset({"glera"}),
    frozenset({"touriga", "touriga nacional", "touriga franca"}),
)
"""Names of one grape (or of its closest family, where people mean the family)."""

_EUROPE = (
    "France",
    "Italy",
    "Spain",
    "Portugal",
    "Germany",
    "Austria",
    "Hungary",
    "Greece",
    "England",
    "Switzerland",
    "Croatia",
)
_SOUTH_AMERICA = ("Chile", "Argentina", "Uruguay")
_NORTH_AMERICA = ("USA", "Canada")
_OCEANIA = ("Australia", "New Zealand")

PLACE_COUNTRIES: Mapping[str, tuple[str, ...]] = {
    "french": ("France",),
    "italian": ("Italy",),
    "spanish": ("Spain",),
    "portuguese": ("Portugal",),
    "german": ("Germany",),
    "austrian": ("Austria",),
    "hungarian": ("Hungary",),
    "greek": ("Greece",),
    "georgian": ("Georgia",),
    "lebanese": ("Lebanon",),
    "english": ("England",),
    "british": ("England",),
    "uk": ("England",),
    "united kingdom": ("England",),
    "swiss": ("Switzerland",),
    "croatian": ("Croatia",),
    "american": ("USA",),
    "america": ("USA",),
    "united states": ("USA",),
    "californian": ("USA",),
    "canadian": ("Canada",),
    "chilean": ("Chile",),
    "argentinian": ("Argentina",),
    "argentine": ("Argentina",),
    "uruguayan": ("Uruguay",),
    "australian": ("Australia",),
    "aussie": ("Australia",),
    "new zealander": ("New Zealand",),
    "kiwi": ("New Zealand",),
    "nz": ("New Zealand",),
    "south african": ("South Africa",),
    "chinese": ("China",),
    "japanese": ("Japan",),
    "europe": _EUROPE,
    "european": _EUROPE,
    "old world": (*_EUROPE, "Georgia", "Lebanon"),
    "iberia": ("Spain", "Portugal"),
    "iberian": ("Spain", "Portugal"),
    "asia": ("China", "Japan", "Georgia", "Lebanon"),
    "asian": ("China", "Japan", "Georgia", "Lebanon"),
    "africa": ("South Africa",),
    "african": ("South Africa",),
    "south america": _SOUTH_AMERICA,
    "south american": _SOUTH_AMERICA,
    "north america": _NORTH_AMERICA,
    "north american": _NORTH_AMERICA,
    "oceania": _OCEANIA,
    "down under": _OCEANIA,
    "new world": (*_SOUTH_AMERICA, *_NORTH_AMERICA, *_OCEANIA, "South Africa"),
}
"""Adjectives and larger places, and the countries of the cellar they stand for."""

TASTE_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "citrus": ("lemon", "lime", "grapefruit", "orange", "mandarin", "yuzu"),
    "floral": ("flower", "violet", "rose", "jasmine", "blossom", "acacia", "honeysuckle", "peony", "iris"),
    "flowers": ("violet", "rose", "jasmine", "blossom", "acacia", "honeysuckle", "peony", "iris", "linden"),
    "berry": ("blackberry", "raspberry", "strawberry", "blueberry", "mulberry", "cranberry"),
    "berries": ("blackberry", "raspberry", "strawberry", "blueberry", "mulberry", "cranberry"),
    "nutty": ("hazelnut", "almond", "walnut", "cashew"),
    "nuts": ("hazelnut", "almond", "walnut", "cashew"),
    "tropical": ("mango", "pineapple", "passion", "lychee"),
    "spice": ("pepper", "clove", "cinnamon", "ginger", "saffron", "gingerbread"),
    "spicy": ("pepper", "clove", "cinnamon", "ginger", "saffron", "gingerbread"),
    "mineral": ("slate", "flint", "stone", "chalk", "granite", "graphite", "gravel", "limestone"),
    "herbal": ("thyme", "sage", "rosemary", "mint", "garrigue", "herbs", "fennel", "oregano"),
    "herbs": ("thyme", "sage", "rosemary", "mint", "garrigue", "fennel", "oregano"),
    "smoky": ("smoke", "cinders", "ash", "bacon"),
    "chocolate": ("cocoa", "mocha"),
    "coffee": ("mocha",),
    "caramel": ("toffee", "butterscotch", "treacle"),
    "bread": ("brioche", "biscuit", "toast", "dough"),
    "yeasty": ("brioche", "biscuit", "bread", "dough", "lees"),
    "tobacco": ("cigar",),
    "blackcurrant": ("cassis",),
    "cassis": ("blackcurrant",),
    "fruity": ("berry", "cherry", "plum", "peach", "apple", "fruit", "raspberry", "strawberry"),
    "salty": ("saline", "sea", "salt"),
    "crisp": ("fresh", "brisk", "zesty", "bright"),
    "fresh": ("crisp", "brisk", "zesty", "bright"),
    "earthy": ("forest", "damp", "clay", "mushroom"),
    "buttery": ("butter", "creamy"),
    "barrel": ("oak",),
    "wood": ("oak", "cedar"),
    "woody": ("oak", "cedar"),
    "orange wine": ("amber",),
}
"""A word for a kind of taste, and the tastes it covers; a direct hit counts for more."""

BODY_WORDS: Mapping[str, str] = {
    "full": "full",
    "heavy": "full",
    "bold": "full",
    "big": "full",
    "powerful": "full",
    "rich": "full",
    "robust": "full",
    "medium": "medium",
    "light": "light",
    "lighter": "light",
    "delicate": "light",
}


_NOUNS: Mapping[str, str] = {
    "european": "Europe",
    "iberian": "Iberia",
    "asian": "Asia",
    "african": "Africa",
    "south american": "South America",
    "north american": "North America",
    "down under": "Oceania",
}


def place_name(folded: str) -> str:
    """The place that an adjective or another name stands for, as one writes it."""
    countries = countries_of(folded)
    return countries[0] if len(countries) == 1 else _NOUNS.get(folded, folded.title())


def grape_names(folded: str) -> frozenset[str]:
    """Every name that the grape *folded* goes by, itself included."""
    for family in GRAPE_FAMILIES:
        if folded in family:
            return family
    return frozenset({folded})


def countries_of(folded: str) -> tuple[str, ...]:
    """The countries that an adjective or a larger place stands for; empty when it is neither."""
    return PLACE_COUNTRIES.get(folded, ())
