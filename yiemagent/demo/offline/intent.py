"""What a question asks for, read by rules: a kind, limits, names and words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from yiemagent.demo.cellar.wording import fold
from yiemagent.demo.offline import phrasing
from yiemagent.demo.offline.numbers import Numbers, read_numbers
from yiemagent.demo.offline.vocabulary import Spot, spot

__all__ = ["WineName", "Wish", "read_wish"]

_FOLLOWS = re.compile(
    r"^(and|also|but|only|just|or|then|ok|okay|now|what about|how about|what if|make (it|that)|instead|rather"
    r"|same|maybe|please|from those|of those|which of (these|those|them)|cheaper"
    r"|dearer|older|younger|more|another|others?)\b"
)
_COMPARES = re.compile(r"\b(compar\w*|like|similar|differ\w*|alternatives?)\b")
_REPLACES = re.compile(r"^(and )?(what|how) about\b|\binstead\b|\brather\b")
_POINTS_AT_ONE = re.compile(r"\b(it|that one|this one|that wine|this wine|its)\b")
_POINTS_AT_SEVERAL = re.compile(r"\b(them|those|these|they|both|ones|the two)\b")
_POINTS_AT_ANY = re.compile(r"\bone\b")
_ORDINALS = (
    re.compile(r"\b(first|1st|(number|no|wine|the) 1)\b"),
    re.compile(r"\b(second|2nd|(number|no|wine|the) 2)\b"),
    re.compile(r"\b(third|3rd|(number|no|wine|the) 3)\b"),
    re.compile(r"\b(fourth|4th|(number|no|wine|the) 4)\b"),
    re.compile(r"\b(fifth|5th|(number|no|wine|the) 5)\b"),
)
_LAST = re.compile(r"\b(the last( one)?|last one)\b")
_STEP = re.compile(r"\b(cheaper|less expensive|dearer|pricier|more expensive|older|younger|newer)\b")
_STEPS = {
    "cheaper": "cheaper",
    "less expensive": "cheaper",
    "dearer": "dearer",
    "pricier": "dearer",
    "more expensive": "dearer",
    "older": "older",
    "younger": "younger",
    "newer": "younger",
}
_MORE = re.compile(
    r"^((show|give|tell|any|are there|have you|do you have)\b.{0,12})?\b(more|others?|another)\b"
)
_ALL = re.compile(r"\b(all|every)\b")
_BEFORE_NAMES = frozenset({"from", "by", "called", "named"})
_ASKS_FOR = re.compile(
    r"\b(do you|have you|you) (have|got|sell|stock)\b|\b(is|are) there\b|\b(find|search|look\w* for)\b"
)
_AFTER_NOT = frozenset(
    {"too", "very", "so", "any", "much", "from", "the", "notes", "of", "a", "an", "t", "like", "want", "be"}
)
_COLOURS = frozenset({"red", "reds", "white", "whites"})
_CUISINES = frozenset({"vegan", "vegetarian", "thai", "indian", "mexican", "szechuan", "spicy"})
_NOUN = re.compile(r"\bwines?\b")
_FIRST_FEW = re.compile(r"\bfirst (\d|two|three|four)\b")
_UNLESS = re.compile(r"^(not|no|without)\b")
_PAUSE = re.compile(r"[,;:]\s")
_EVERYTHING = 20
_SHORT = 3


@dataclass(frozen=True, slots=True)
class WineName:
    """A wine's name as it stands in a question, and the ids it may mean."""

    phrase: str
    ids: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One question, understood as far as rules can."""

    kind: str = "unknown"
    colours: tuple[str, ...] = ()
    grapes: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    wines: tuple[WineName, ...] = ()
    dish: str | None = None
    terms: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    min_price: float | None = None
    max_price: float | None = None
    from_vintage: int | None = None
    to_vintage: int | None = None
    sort: str | None = None
    limit: int | None = None
    picks: tuple[int, ...] = ()
    """Places in the list shown last, from 0; -1 is the last one."""
    step: str | None = None
    """cheaper, dearer, older or younger than what was shown."""
    unknown: tuple[str, ...] = ()
    """Words that mean nothing to the stand-in and that it did not search for."""
    points: str | None = None
    """``one``, ``any`` or ``several`` of what was shown: ``is it dry``, ``pair one``, ``compare them``."""
    follows: bool = False
    """It builds on the question before it."""
    replaces: bool = False
    """It replaces words of the question before it instead of adding to them."""

    @property
    def has_limits(self) -> bool:
        """Whether it names anything to search by."""
        numbers = (self.min_price, self.max_price, self.from_vintage, self.to_vintage)
        return self.has_subject or bool(self.terms or self.exclude) or any(n is not None for n in numbers)

    @property
    def has_subject(self) -> bool:
        """Whether it names a colour, grape or place."""
        return bool(self.colours or self.grapes or self.regions or self.countries)


def read_wish(question: str) -> Wish:
    """Read one question by itself; ``conversation`` puts it together with those before it."""
    numbers = read_numbers(question)
    text = fold(_PAUSE.sub(" and ", numbers.rest))
    folded = fold(question)
    tokens = text.split()
    notes_at = _notes_segment(text, tokens)
    exclude, negated = _excluded(tokens)
    spots = [found for found in spot(tokens) if not _is_about_taste(found, tokens, notes_at, text)]
    spots = [found for found in spots if found.start not in negated]
    covered = {at for found in spots for at in range(found.start, found.end)} | negated
    terms, unknown = _words_left(tokens, covered, notes_at)
    wish = _assemble(folded, tokens, numbers, spots, terms, exclude)
    return _with_unknown_words(wish, unknown, folded)


def _with_unknown_words(wish: Wish, unknown: list[str], folded: str) -> Wish:
    """Look even for words that mean nothing here, when there is nothing else to go by."""
    if not unknown or wish.kind not in ("surprise", "unknown"):
        return wish
    if phrasing.FOOD_TRIGGER.search(folded):
        return replace(wish, kind="pair", dish=" ".join(unknown))
    if _ASKS_FOR.search(folded):
        return replace(wish, kind="search", terms=_unique(unknown))
    return replace(wish, unknown=_unique(unknown))


def _assemble(
    folded: str, tokens: list[str], numbers: Numbers, spots: list[Spot], terms: list[str], exclude: list[str]
) -> Wish:
    by: dict[str, list[str]] = {}
    for found in spots:
        by.setdefault(found.category, []).append(found.value)
    colours, sweet_term = _colours(by.get("colour", []))
    step = _STEP.search(" ".join(tokens))
    wish = Wish(
        colours=colours,
        grapes=_unique(by.get("grape", [])),
        regions=_unique(by.get("region", [])),
        countries=_unique(by.get("country", [])),
        wines=_wine_names(spots),
        dish=_dish(spots, tokens),
        terms=_unique([*terms, *by.get("taste", []), *sweet_term]),
        exclude=_unique(exclude),
        min_price=numbers.min_price,
        max_price=numbers.max_price,
        from_vintage=numbers.from_vintage,
        to_vintage=numbers.to_vintage,
        sort=_order(spots, tokens),
        limit=numbers.limit or (_EVERYTHING if _ALL.search(folded) else None),
        picks=_picks(folded),
        step=_STEPS[step.group()] if step else None,
        points=_points(folded),
        follows=_builds_on(folded, by),
        replaces=bool(_REPLACES.search(folded)),
    )
    return replace(wish, kind=_kind(wish, folded))


def _kind(wish: Wish, folded: str) -> str:
    if _is_about_shown(wish, folded):
        return "details"
    asked = [kind for kind, pattern in phrasing.KINDS if pattern.search(folded)]
    for kind in asked:
        if _allows(kind, wish):
            return kind
    wants_food = bool(phrasing.FOOD_TRIGGER.search(folded))
    if wish.wines:
        return "compare" if len(wish.wines) > 1 and " or " in folded else "details"
    if wish.dish:
        return "suits" if wish.points == "one" or wish.picks else "pair"
    if wants_food and (wish.has_limits or wish.picks or wish.points == "one"):
        return "food_for"
    if wish.picks or (wish.points == "one" and phrasing.MORE_TRIGGER.search(folded)):
        return "details"
    if _MORE.search(folded) and not wish.has_limits:
        return "more"
    if wish.has_limits or wish.sort or wish.step:
        return "search"
    if phrasing.WINE_WORDS.search(folded) or phrasing.SURPRISE.search(folded):
        return "surprise"
    return "unknown"


def _is_about_shown(wish: Wish, folded: str) -> bool:
    """A question such as ``is it in stock?`` or ``how old is the second?``."""
    if wish.points != "one" and len(wish.picks) != 1:
        return False
    if wish.points == "several" or wish.step or wish.sort:
        return False
    other = phrasing.FOOD_TRIGGER.search(folded) or _COMPARES.search(folded)
    return not (other or wish.has_limits or wish.dish or wish.wines)


def _allows(kind: str, wish: Wish) -> bool:
    """Whether the rest of the question fits its first impression."""
    if kind in ("help", "thanks", "greeting"):
        return not (wish.has_limits or wish.wines or wish.dish)
    if kind == "grapes":
        return not wish.grapes and not wish.wines
    if kind in ("regions", "countries"):
        return not wish.regions and not wish.wines and not wish.grapes
    if kind == "compare":
        subjects = (wish.colours, wish.grapes, wish.regions, wish.countries, wish.wines, wish.picks)
        return any(len(values) > 1 for values in subjects) or wish.points == "several" or bool(wish.sort)
    if kind == "similar":
        return bool(wish.wines or wish.picks or wish.points)
    if kind in ("stock", "prices", "count"):
        return not wish.wines and not wish.dish and not wish.picks and wish.sort is None
    return True


def _notes_segment(text: str, tokens: list[str]) -> frozenset[int]:
    """Where tasting notes are named: the tokens after ``notes of`` up to a word that ends it."""
    match = phrasing.NOTE_TRIGGER.search(text)
    if match is None or not match.group(2):
        return frozenset()
    start = len(text[: match.end()].split())
    at = start
    while at < len(tokens) and tokens[at] not in phrasing.SEGMENT_ENDS:
        at += 1
    return frozenset(range(start, at))


def _is_about_taste(found: Spot, tokens: list[str], notes_at: frozenset[int], text: str) -> bool:
    """A word such as chocolate or rose that names a taste here, not a dish or a colour."""
    if found.start in notes_at:
        return True
    taste = all(phrasing.is_taste(token) for token in tokens[found.start : found.end])
    if found.category != "food" or not taste:
        return False
    says_notes = bool(phrasing.NOTE_TRIGGER.search(text)) and not phrasing.FOOD_TRIGGER.search(text)
    return says_notes or (found.start + 1 < len(tokens) and tokens[found.start] in ("spicy",))


def _excluded(tokens: list[str]) -> tuple[list[str], set[int]]:
    unwanted: list[str] = []
    at: set[int] = set()
    for index, token in enumerate(tokens):
        if token in ("unoaked", "unwooded"):
            unwanted.append("oak")
            at.add(index)
        if token not in phrasing.NEGATIONS:
            continue
        first = index + 1
        while first < len(tokens) and tokens[first] in _AFTER_NOT:
            first += 1
        for place in _listed(tokens, first):
            if tokens[place] not in phrasing.SMALL_WORDS or tokens[place] in _COLOURS:
                unwanted.append(tokens[place])
                at.add(place)
    return unwanted, at


def _listed(tokens: list[str], first: int) -> Iterator[int]:
    """The places of a list of tastes that begins with any word: ``oak or vanilla``."""
    place = first
    while place < len(tokens) and (place == first or phrasing.is_taste(tokens[place])):
        yield place
        place += 2 if tokens[place + 1 : place + 2] in (["or"], ["nor"]) else 1


def _words_left(
    tokens: list[str], covered: set[int], notes_at: frozenset[int]
) -> tuple[list[str], list[str]]:
    """The words to search for, and those that mean nothing to the stand-in."""
    terms: list[str] = []
    unknown: list[str] = []
    for at, token in enumerate(tokens):
        if (
            at in covered
            or token in phrasing.SMALL_WORDS | phrasing.NEGATIONS
            or (token.isdecimal() and len(token) < _SHORT)
        ):
            continue
        asked = at in notes_at or (at > 0 and tokens[at - 1] in _BEFORE_NAMES) or phrasing.is_taste(token)
        (terms if asked else unknown).append(token)
    return terms, unknown


def _order(spots: list[Spot], tokens: list[str]) -> str | None:
    """The order that is asked for; ``how expensive is the cheapest`` asks for the cheapest."""
    orders = [found for found in spots if found.category == "order"]
    superlatives = [
        found for found in orders if tokens[found.start] == "most" or tokens[found.end - 1].endswith("est")
    ]
    return next((found.value for found in [*superlatives, *orders]), None)


def _dish(spots: list[Spot], tokens: list[str]) -> str | None:
    """The food in the question's own words; neighbours are one dish, the rest is joined by ``and``."""
    dish = ""
    end = -1
    for found in spots:
        if found.category == "food":
            joint = (
                " " if found.start == end else " with " if "with" in tokens[end : found.start] else " and "
            )
            dish += (joint if dish else "") + " ".join(tokens[found.start : found.end])
            dish += " food" if tokens[found.end - 1] in _CUISINES else ""
            end = found.end
    return dish or None


def _colours(values: list[str]) -> tuple[tuple[str, ...], list[str]]:
    colours = _unique(values)
    if colours == ("sweet", "white"):
        return ("sweet",), []
    if "sweet" in colours and len(colours) > 1:
        return tuple(colour for colour in colours if colour != "sweet"), ["sweet"]
    return colours, []


def _builds_on(folded: str, by: Mapping[str, list[str]]) -> bool:
    if _FOLLOWS.search(folded):
        return True
    if _UNLESS.search(folded) and not (by.keys() & {"grape", "region", "country"}):
        return True
    return len(folded.split()) < _SHORT and not _NOUN.search(folded)


def _wine_names(spots: list[Spot]) -> tuple[WineName, ...]:
    """Names side by side that share wines are one name: a producer and its cuvée."""
    names: list[tuple[int, WineName]] = []
    for found in spots:
        if found.category != "wine":
            continue
        if names and names[-1][0] == found.start and names[-1][1].ids & found.wines:
            phrase = f"{names[-1][1].phrase} {found.value}"
            names[-1] = (found.end, WineName(phrase, names[-1][1].ids & found.wines))
        else:
            names.append((found.end, WineName(found.value, found.wines)))
    return tuple(name for _, name in names)


def _picks(folded: str) -> tuple[int, ...]:
    few = _FIRST_FEW.search(folded)
    if few:
        return tuple(range({"two": 2, "three": 3, "four": 4}.get(few.group(1)) or int(few.group(1))))
    places = [place for place, pattern in enumerate(_ORDINALS) if pattern.search(folded)]
    return (*places, -1) if _LAST.search(folded) else tuple(places)


def _points(folded: str) -> str | None:
    if _POINTS_AT_SEVERAL.search(folded):
        return "several"
    if _POINTS_AT_ONE.search(folded):
        return "one"
    return "any" if _POINTS_AT_ANY.search(folded) else None


def _unique(values: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
