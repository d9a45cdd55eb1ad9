"""What goes with what: dishes, the kinds of food they are, and why a wine suits them."""

from __future__ import annotations

from collections.abc import Mapping

from yiemagent.demo.cellar.wording import stem, words

__all__ = ["DISHES", "REASONS", "kinds_of_food"]

REASONS: Mapping[str, str] = {
    "aperitif": "before a meal, something brisk and low in tannin wakes the appetite",
    "barbecue": "smoke and char like ripe fruit and spice",
    "beef": "tannin binds to the meat's fat and protein, and both turn softer",
    "blue cheese": "sweetness answers the salt and the sting",
    "charcuterie": "juicy, fresh wines cut through the fat and leave the salt alone",
    "chicken": "its mild meat takes a round white as gladly as a light red",
    "chocolate": "the wine has to be sweeter than the dessert",
    "cured ham": "salt and nutty fat ask for freshness or gentle oak",
    "curry": "aromatic wines stand up to spice, and little tannin means no burning",
    "dessert": "the wine has to be sweeter than the dessert",
    "duck": "rich meat, so bright acidity and red fruit",
    "fish": "crisp acidity does what a squeeze of lemon does",
    "foie gras": "fat and sweetness carry each other, acidity keeps them awake",
    "fruit tart": "fruit with fruit: a sweet wine with enough acidity",
    "game": "deep flavour needs a wine with depth, earth and spice",
    "goat cheese": "sharp cheese and a sharp, grassy white are old friends",
    "hard cheese": "salt and crystals soften a structured or a nutty wine",
    "lamb": "its sweet fat loves firm reds with a herbal side",
    "lobster": "sweet, rich flesh wants a full white or fine bubbles",
    "mushrooms": "earthy flavours meet earthy wines",
    "oysters": "salt and iodine call for lean, saline wines",
    "paella": "rice, saffron and grilled edges suit a dry rosé",
    "pasta": "tomato's acidity needs a wine with acidity of its own",
    "pizza": "tomato, cheese and crust want a juicy, unpretentious wine",
    "pork": "sweet, mild meat welcomes fruit and freshness",
    "risotto": "creamy rice likes a white that refreshes without shouting",
    "salad": "dressing is sour, so the wine must be crisp",
    "salmon": "oily fish carries a light red or a rosé",
    "shellfish": "delicate and salty: keep the wine dry and mineral",
    "soft cheese": "creamy rinds prefer aromatic whites and gentle reds",
    "spicy food": "a little sweetness and little alcohol cool the heat",
    "stew": "slow-cooked depth asks for warm, generous reds",
    "sushi": "clean flavours, so a clean, precise wine",
    "tapas": "many small flavours, so something dry and adaptable",
    "truffle": "only perfumed, mature-tasting wines keep up",
    "vegetables": "green and herbal flavours like herbal, fresh wines",
}
"""Every kind of food in the cellar book, and one sentence on what it asks of a wine."""

DISHES: Mapping[str, str] = {
    **{kind: kind for kind in REASONS},
    "steak": "beef",
    "burger": "barbecue",
    "hamburger": "barbecue",
    "roast beef": "beef",
    "bbq": "barbecue",
    "ribs": "barbecue",
    "grilled meat": "barbecue",
    "sausage": "charcuterie",
    "salami": "charcuterie",
    "pate": "charcuterie",
    "cold cuts": "charcuterie",
    "ham": "cured ham",
    "jamon": "cured ham",
    "prosciutto": "cured ham",
    "venison": "game",
    "wild boar": "game",
    "boar": "game",
    "pheasant": "game",
    "hare": "game",
    "rabbit": "chicken",
    "turkey": "chicken",
    "coq au vin": "stew",
    "boeuf bourguignon": "stew",
    "goulash": "stew",
    "chili": "spicy food",
    "casserole": "stew",
    "goose": "duck",
    "quail": "duck",
    "veal": "pork",
    "schnitzel": "pork",
    "trout": "fish",
    "tuna": "salmon",
    "cod": "fish",
    "sole": "fish",
    "halibut": "fish",
    "sea bass": "fish",
    "seafood": "shellfish",
    "prawn": "shellfish",
    "shrimp": "shellfish",
    "mussel": "shellfish",
    "clam": "shellfish",
    "scallop": "shellfish",
    "crab": "lobster",
    "sashimi": "sushi",
    "ceviche": "fish",
    "spaghetti": "pasta",
    "lasagne": "pasta",
    "lasagna": "pasta",
    "ragu": "pasta",
    "bolognese": "pasta",
    "carbonara": "pasta",
    "noodles": "spicy food",
    "thai": "spicy food",
    "indian": "curry",
    "mexican": "spicy food",
    "tacos": "spicy food",
    "szechuan": "spicy food",
    "spicy": "spicy food",
    "vegetarian": "vegetables",
    "vegan": "vegetables",
    "asparagus": "vegetables",
    "ratatouille": "vegetables",
    "aubergine": "vegetables",
    "tofu": "vegetables",
    "vegetable": "vegetables",
    "salads": "salad",
    "mushroom": "mushrooms",
    "porcini": "mushrooms",
    "truffles": "truffle",
    "cheddar": "hard cheese",
    "parmesan": "hard cheese",
    "comte": "hard cheese",
    "gouda": "hard cheese",
    "manchego": "hard cheese",
    "cheese": "hard cheese",
    "cheeseboard": "hard cheese",
    "brie": "soft cheese",
    "camembert": "soft cheese",
    "epoisses": "soft cheese",
    "munster": "soft cheese",
    "fondue": "hard cheese",
    "raclette": "hard cheese",
    "roquefort": "blue cheese",
    "stilton": "blue cheese",
    "gorgonzola": "blue cheese",
    "goats cheese": "goat cheese",
    "goat s cheese": "goat cheese",
    "feta": "goat cheese",
    "apple pie": "fruit tart",
    "tarte tatin": "fruit tart",
    "tart": "fruit tart",
    "cake": "dessert",
    "pudding": "dessert",
    "tiramisu": "dessert",
    "creme brulee": "dessert",
    "ice cream": "dessert",
    "christmas cake": "dessert",
    "brownie": "chocolate",
    "mousse au chocolat": "chocolate",
    "oyster": "oysters",
    "snacks": "aperitif",
    "olives": "tapas",
    "nuts": "tapas",
    "starter": "aperitif",
    "party": "aperitif",
    "celebration": "aperitif",
    "toast the couple": "aperitif",
    "picnic": "salad",
}
"""Dishes and occasions (folded), and the kind of food each one is."""

_LONGEST_PHRASE = 3


def kinds_of_food(dish: str) -> list[str]:
    """The kinds of food named in *dish*, each once; empty when none is known.

    The longest phrase wins: ``goat cheese salad`` is goat cheese and salad, not hard cheese.
    """
    tokens = words(dish)
    kinds: dict[str, None] = {}
    at = 0
    while at < len(tokens):
        for length in range(min(_LONGEST_PHRASE, len(tokens) - at), 0, -1):
            kind = _BY_STEMS.get(_stems(tokens[at : at + length]))
            if kind is not None:
                kinds[kind] = None
                at += length - 1
                break
        at += 1
    return list(kinds)


def _stems(tokens: list[str]) -> str:
    return " ".join(stem(token) for token in tokens)


_BY_STEMS: Mapping[str, str] = {_stems(words(dish)): kind for dish, kind in reversed(tuple(DISHES.items()))}
