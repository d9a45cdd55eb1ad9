"""The words the stand-in knows beside the names in the cellar, as tables (folded)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from yiemagent.demo.cellar.synonyms import TASTE_FAMILIES
from yiemagent.demo.cellar.wording import stem, words

__all__ = [
    "ADJECTIVES",
    "COLOUR_WORDS",
    "KINDS",
    "NEGATIONS",
    "NOTE_TRIGGER",
    "ORDER_WORDS",
    "PLACE_ALIASES",
    "SEGMENT_ENDS",
    "SMALL_WORDS",
    "WINE_WORDS",
    "is_adjective",
    "is_taste",
]

COLOUR_WORDS: Mapping[str, str] = {
    "red": "red",
    "white": "white",
    "rose": "rosé",
    "rosado": "rosé",
    "rosato": "rosé",
    "pink": "rosé",
    "blush": "rosé",
    "sparkling": "sparkling",
    "sparkler": "sparkling",
    "fizzy": "sparkling",
    "bubbly": "sparkling",
    "bubble": "sparkling",
    "fizz": "sparkling",
    "sekt": "sparkling",
    "cava": "sparkling",
    "cremant": "sparkling",
    "sweet": "sweet",
    "dessert wine": "sweet",
    "sweet wine": "sweet",
    "sticky": "sweet",
    "fortified": "fortified",
}

PLACE_ALIASES: Mapping[str, str] = {
    "bourgogne": "Burgundy",
    "burgundian": "Burgundy",
    "tuscan": "Tuscany",
    "sicilian": "Sicily",
    "sardinian": "Sardinia",
    "corsican": "Corsica",
    "alsatian": "Alsace",
    "piedmontese": "Piedmont",
    "piemonte": "Piedmont",
    "sicilia": "Sicily",
    "sardegna": "Sardinia",
    "bordelais": "Bordeaux",
    "claret": "Bordeaux",
    "california": "California",
    "brunello": "Brunello di Montalcino",
    "chianti": "Chianti",
    "chateauneuf": "Châteauneuf-du-Pape",
    "sauterne": "Sauternes",
    "tokaji": "Tokaj",
    "napa": "Napa Valley",
    "sonoma": "Sonoma",
    "barossa valley": "Barossa",
    "willamette": "Willamette",
    "loire valley": "Loire",
    "rhone valley": "Rhône",
    "mosel valley": "Mosel",
    "douro valley": "Douro",
    "maipo valley": "Maipo",
    "oregon": "Oregon",
    "franken": "Franconia",
    "cotes du rhone": "Côtes du Rhône",
    "vino nobile": "Vino Nobile di Montepulciano",
    "saint estephe": "Saint-Estèphe",
    "st emilion": "Saint-Émilion",
    "st julien": "Saint-Julien",
    "st estephe": "Saint-Estèphe",
    "margaux": "Margaux",
    "bordeaux": "Bordeaux",
}
"""What people say for a place beside its name in the cellar book."""

ADJECTIVES: Mapping[str, str] = {
    "full": "full-bodied",
    "heavy": "full-bodied",
    "bold": "full-bodied",
    "big": "full-bodied",
    "powerful": "full-bodied",
    "rich": "full-bodied",
    "robust": "full-bodied",
    "medium": "medium-bodied",
    "light": "light-bodied",
    "lighter": "light-bodied",
    "delicate": "light-bodied",
    "dry": "dry",
    "off": "off-dry",
    "sweet": "sweet",
    "oaky": "oaky",
}
"""Words for body and sweetness, and how an answer says them."""

_SAID_AS_ADJECTIVES = frozenset(
    words(
        """
        acidic bitter crisp dense elegant floral fresh fruity herbal lean lush mineral perfumed polished ripe
        saline savoury silky smooth soft structured supple tannic tart tropical velvety warm
        """
    )
)
_NOUNS_IN_Y = frozenset(
    words("berry cherry honey strawberry raspberry blackberry blueberry cranberry mulberry")
)


ORDER_WORDS: Mapping[str, str] = {
    "cheapest": "cheapest first",
    "least expensive": "cheapest first",
    "lowest price": "cheapest first",
    "most affordable": "cheapest first",
    "inexpensive": "cheapest first",
    "affordable": "cheapest first",
    "cheap": "cheapest first",
    "budget": "cheapest first",
    "bargain": "cheapest first",
    "most expensive": "dearest first",
    "dearest": "dearest first",
    "priciest": "dearest first",
    "costliest": "dearest first",
    "highest price": "dearest first",
    "luxury": "dearest first",
    "expensive": "dearest first",
    "best value": "cheapest first",
    "good value": "cheapest first",
    "best": "dearest first",
    "finest": "dearest first",
    "greatest": "dearest first",
    "top": "dearest first",
    "oldest": "oldest first",
    "most mature": "oldest first",
    "youngest": "youngest first",
    "newest": "youngest first",
    "latest": "youngest first",
    "most recent": "youngest first",
}

_COMPARATIVE = r"(cheaper|dearer|pricier|older|younger|better|lighter|fuller|more \w+|less \w+)"

KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "help",
        re.compile(
            r"\b(what can you do|how do you work|who are you|what are you|are you (a|an|real)|^help$)"
        ),
    ),
    ("thanks", re.compile(r"^(many )?(thanks|thank you|cheers|great thanks|bye|goodbye)\b")),
    ("greeting", re.compile(r"^(hi|hello|hey|good (morning|afternoon|evening))( there| you)?$")),
    (
        "compare",
        re.compile(
            r"\b(compar\w*|versus|vs|differ\w*|which (one |of \w+ (two )?)?is (the )?" + _COMPARATIVE + r")\b"
        ),
    ),
    ("similar", re.compile(r"\b(similar to|wines? like|something like|alternatives? to|instead of)\b")),
    (
        "stock",
        re.compile(r"\b(how many bottles|stock value|bottles (are|do you)|worth|inventory|total value)\b"),
    ),
    ("countries", re.compile(r"\b(which|what|how many|list|all|show)\b.{0,20}\bcountr(y|ies)\b")),
    (
        "regions",
        re.compile(r"\b(which|what|how many|list|all|show)\b.{0,25}\b(regions?|appellations?|areas?)\b"),
    ),
    (
        "grapes",
        re.compile(r"\b(which|what|how many|list|all|show)\b.{0,20}\b(grapes?|varieties|varietals?)\b"),
    ),
    ("count", re.compile(r"\b(how many|number of|count)\b")),
    (
        "prices",
        re.compile(r"\b(average|mean|price range|price span|how much|what do(es)? .* cost|prices?)\b"),
    ),
    (
        "overview",
        re.compile(
            r"\b(what (do|have) you (have|got|sell)$|what s in (the|your) cellar|overview|whole cellar)"
        ),
    ),
)
"""What is asked for, by the first pattern that fits the folded question."""

FOOD_TRIGGER = re.compile(
    r"\b(pair\w*|goes|go with|serve\w*|eat\w*|cook\w*|dish|food|dinner|lunch|meal|supper|drink with"
    r"|match\w*)\b"
)
MORE_TRIGGER = re.compile(r"\b(tell me (more )?about|more about|details?|describe|know about|what about)\b")
WINE_WORDS = re.compile(
    r"\b(wines?|bottles?|cellar|vintages?|grapes?|drink|reds?|whites?|roses?|champagnes?|sommelier|glass|pour"
    r"|recommend\w*|suggest\w*|taste|stock|open)\b"
)
SURPRISE = re.compile(r"\b(recommend\w*|suggest\w*|surprise|something|tonight|gift|present|anything|drink)\b")

NOTE_TRIGGER = re.compile(
    r"\b(notes?|hints?|tastes?|tasting|aromas?|smells?|smelling|flavou?rs?|nose|scent|touch)( of| like)?\b"
)
NEGATIONS = frozenset(
    words("no not without except non outside hate hates dislike dislikes avoid don doesn aren isn never")
)
"""``don`` and its like are what is left of ``don't``."""
SEGMENT_ENDS = frozenset(
    words(
        """
        from below under over above between for in that which but at up around less more cheaper costing not
        without no made are is do does please i we you
        """
    )
)

SMALL_WORDS = frozenset(
    words(
        """
        cook cooking course dinner dish dishes drink drinking eat eating food lunch meal serve served supper
        afternoon anniversary aunt birthday boss boyfriend brother colleague couple dad day evening
        family father friend friends girlfriend grandfather grandma grandmother grandpa guest guests
        holiday husband left month mother mum neighbour parents person sell seller sister somebody summer
        uncle wedding week weekend wife winter year
        a about above again all also am an and another any anything are around as at available be been below
        better bodied both bottle bottles bring but by can cellar cheaper cheers choose could dearer did do
        does else euro euros ever find first for from get give glass go goes good got great had has have
        having he hello help here hi how i id if in instead interesting into is it its just kind know less
        let like list look looking ll lovely m made make many match matches maybe me more most much my name
        need nice nose note notes now of off ok on one ones only open or other others our out over pair
        pairs perhaps please possible pour price prices priced produce produced producer put re really
        recommend recommendation red reds s say second see serve she should show so some someone something
        sort sorts still style such suggest suggestion t taste tastes tasting tell than thank thanks that
        the their them then there these they thing third this those to today together tonight too touch try
        two type types under up us use ve very want was we well were what whats when where which while white
        whites who whose will wine wines winery wish with without would yes you your
        """
    )
)
"""Words that say nothing of a wine."""

_TASTES = frozenset(
    stem(word)
    for word in words(
        """
        acacia acid acidity almond amber apple apricot ash aniseed bacon balsam banana barrel beeswax
        bergamot biscuit bitter blackberry blackcurrant blood blossom blueberry bramble bread brioche
        bubbles butter butterscotch candied caramel cassis cedar chalk chamomile cherry chilli chocolate
        cigar cinders cinnamon clove cocoa coconut coffee cranberry cream creamy creme crisp currant custard
        dense dry dust earth elegant eucalyptus fennel fig flint floral flower forest fresh fruit full gamey
        garrigue ginger gingerbread gooseberry graphite grass grapefruit gravel grip hay hazelnut herbs
        honey honeysuckle incense iodine iris iron jam jammy jasmine juicy juniper lavender lean leather
        lees lemon lemongrass light lime linden liqueur liquorice lush lychee mandarin mango marmalade
        meadow medium mineral mint mocha mulberry mushroom myrtle nectarine nut oak oatmeal olive orange
        oregano oyster passion peach pear peony pepper perfumed petrol pine pineapple plum polished
        pomegranate quince raisin raspberry redcurrant resin rhubarb rich ripe rose rosemary saffron sage
        saline salt savoury seaweed silk silky slate smoke smooth soft spice steel stone straw strawberry
        structured supple sweet tangy tannin tar tart tea thyme toast tobacco toffee tomato treacle tropical
        truffle vanilla velvet violet walnut warm wax wood yeast yuzu zest spicy bold heavy big powerful
        robust delicate lighter
        """
    )
) | frozenset(stem(word) for word in TASTE_FAMILIES)


def is_taste(word: str) -> bool:
    """Whether the folded *word* is said of how a wine tastes."""
    return stem(word) in _TASTES


def is_adjective(word: str) -> bool:
    """Whether an answer says the folded *word* before its noun: ``spicy wines``."""
    return (
        word in ADJECTIVES or word in _SAID_AS_ADJECTIVES or (word.endswith("y") and word not in _NOUNS_IN_Y)
    )
