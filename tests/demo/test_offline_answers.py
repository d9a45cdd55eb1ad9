"""What the offline model understands: questions, the calls they lead to, and what is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("question", "tool", "arguments"),
    [
        ("Which wines have notes of oak and vanilla?", "search_wines", {"query": "oak vanilla"}),
        ("I want a wine that smells like roses", "search_wines", {"query": "roses"}),
        ("an unoaked Chardonnay", "search_wines", {"grape": "Chardonnay", "exclude": "oak"}),
        ("pinot noir from outside France", "search_wines", {"grape": "Pinot Noir", "exclude": "france"}),
        ("I don't like oak, what white would you suggest?", "search_wines", {"exclude": "oak"}),
        ("any Rieslings that aren't sweet?", "search_wines", {"grape": "Riesling", "exclude": "sweet"}),
        ("How expensive is the cheapest Burgundy?", "search_wines", {"sort": "cheapest first"}),
        ("What pairs with blue cheese above 40 euros?", "pair_with_food", {"min_price": 40.0}),
        ("white wine without oak below 25 euros", "search_wines", {"exclude": "oak", "max_price": 25.0}),
        ("a spicy red from Australia under 50", "search_wines", {"query": "spicy", "country": "Australia"}),
        (
            "Find me a Pinot Noir between 25 and 40 euros",
            "search_wines",
            {"min_price": 25.0, "max_price": 40.0},
        ),
        (
            "something around twenty euros from Portugal",
            "search_wines",
            {"min_price": 16.0, "max_price": 24.0},
        ),
        ("wines older than 2010 from Bordeaux", "search_wines", {"region": "Bordeaux", "to_vintage": 2009}),
        ("wines from the 2010s", "search_wines", {"from_vintage": 2010, "to_vintage": 2019}),
        ("Do you have a Zweigelt?", "search_wines", {"grape": "Zweigelt"}),
        ("rosé from Provence", "search_wines", {"colour": "rosé", "region": "Provence"}),
        ("show me all European reds", "search_wines", {"country": "Europe", "max_results": 20}),
        ("three cheapest reds from Italy", "search_wines", {"sort": "cheapest first", "max_results": 3}),
        ("Tell me about Château Musar", "wine_details", {"wine": "chateau musar"}),
        ("How much does Dom Pérignon cost?", "wine_details", {"wine": "dom perignon"}),
        ("How many bottles of Sassicaia are left?", "wine_details", {"wine": "sassicaia"}),
        ("Compare Tignanello and Sassicaia", "compare_wines", {"wines": ["tignanello", "sassicaia"]}),
        ("What goes with roast duck?", "pair_with_food", {"dish": "duck"}),
        ("Which red goes with lamb below 30 euros?", "pair_with_food", {"colour": "red", "max_price": 30.0}),
        ("average price of Champagne", "price_range", {"region": "Champagne"}),
        ("Which regions do you have in France?", "list_regions", {"country": "France"}),
        ("Which country has the most wines?", "list_regions", {}),
        ("What grapes are grown in Rioja?", "list_grapes", {"region": "Rioja"}),
        ("What is the stock worth?", "stock_value", {}),
    ],
)
def test_a_question_leads_to_the_call_that_answers_it(
    talk: Any, question: str, tool: str, arguments: dict[str, Any]
) -> None:
    """Taste, grape, place, colour, price, vintage, food, comparison, count, list."""
    answer = talk.ask(question)

    name, made = talk.calls[0]
    assert name == tool
    assert made.items() >= arguments.items()
    assert answer


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("How many Italian reds are there?", "22 red wines from Italy"),
        ("What is the most expensive wine?", "Penfolds Grange 2016"),
        ("the cheapest Barolo", "Vietti Barolo Castiglione 2018"),
        ("Which is cheaper, Tignanello or Sassicaia?", "Antinori Tignanello 2019 is the cheaper one"),
        ("What food goes with Barolo?", "truffle"),
        ("Compare Barolo and Barbaresco", "Two wines from Barbaresco, from 38 to 218 euros"),
        ("What's in your cellar?", "185 wines"),
        ("Recommend something for tonight", "one of each colour"),
        ("wines like Sassicaia", "In the manner of Tenuta San Guido Sassicaia"),
        ("what can you do?", "rule-based stand-in"),
        ("hello", "Hello."),
        ("thank you!", "You are welcome."),
    ],
)
def test_an_answer_says_what_was_asked_for(talk: Any, question: str, words: str) -> None:
    """The tools' facts, in a sentence."""
    assert words in talk.ask(question)


@pytest.mark.parametrize(
    "question", ["What's the weather in Tokyo?", "Who won the world cup?", "Tell me a joke"]
)
def test_a_question_about_something_else_is_declined_politely(talk: Any, question: str) -> None:
    """It says what it is and what it can do, and calls nothing."""
    answer = talk.ask(question)

    assert talk.calls == []
    assert "rule-based stand-in" in answer
    assert "Ask me about its wines" in answer


def test_a_superlative_is_looked_up_in_two_steps(talk: Any) -> None:
    """First which wine it is, then everything about it."""
    answer = talk.ask("What is the most expensive wine?")

    assert [name for name, _ in talk.calls] == ["search_wines", "wine_details"]
    assert talk.turns == 3
    assert "two left" in answer


def test_nothing_within_a_limit_leads_to_a_second_look_without_it(talk: Any) -> None:
    """It says that nothing fits, and what comes nearest."""
    answer = talk.ask("red wine below 3 euros")

    assert talk.turns == 3
    assert answer.startswith("There are no red wines up to 3 euros in the cellar. The nearest, at any price:")


def test_a_meal_of_several_courses_gets_a_wine_for_each(talk: Any) -> None:
    """One call for each, in one turn; the occasion is no course."""
    answer = talk.ask("3 wines for a dinner party: fish, lamb and chocolate dessert")

    assert [arguments["dish"] for _, arguments in talk.calls] == ["fish", "lamb", "chocolate dessert"]
    assert talk.turns == 2
    assert answer.startswith("One wine for each:")


def test_a_partial_fit_is_not_called_a_fit(talk: Any) -> None:
    """No wine has all three notes, and the answer says so."""
    answer = talk.ask("wines with notes of leather, tobacco or cedar")
    assert answer.startswith("No wine has all of that; 17 have one of the three.")


def test_a_word_that_means_nothing_is_named(talk: Any) -> None:
    """A suggestion is not passed off as an answer to something else."""
    assert talk.ask("a bottle of organic wine").startswith('The cellar book says nothing of "organic".')


def test_a_name_the_cellar_does_not_know_is_not_glossed_over(talk: Any) -> None:
    """Nothing is claimed that the tools did not say."""
    assert 'that mention "latvia"' in talk.ask("Do you have a Zweigelt from Latvia?")
    assert "There are no wines" in talk.ask("Do you have any vermouth?")


def test_a_follow_up_keeps_what_was_said_before(talk: Any) -> None:
    """The runbook's conversation."""
    talk.ask("Which wines have notes of oak and vanilla?")
    talk.ask("Also check European wines")
    answer = talk.ask("And below 30 euros?")

    assert (
        talk.calls[0][1].items() >= {"query": "oak vanilla", "country": "Europe", "max_price": 30.0}.items()
    )
    assert answer.startswith("Three wines from Europe up to 30 euros with notes of oak and vanilla")
    talk.ask("Pair one with duck")
    assert talk.calls == [("pair_with_food", {"dish": "duck", "country": "Europe", "max_price": 30.0})]


def test_a_new_question_does_not_inherit(talk: Any) -> None:
    """Only what builds on the question before takes from it."""
    talk.ask("Which Italian reds are below 30 euros?")
    talk.ask("Which white wines come from Germany?")

    assert talk.calls == [("search_wines", {"colour": "white", "country": "Germany", "max_results": 5})]


def test_places_in_the_list_can_be_pointed_at(talk: Any) -> None:
    """The second one, it, the first two."""
    talk.ask("three cheapest reds from Italy")
    assert "Planeta Cerasuolo di Vittoria 2020 is" in talk.ask("Tell me more about the second one")
    assert "Planeta Cerasuolo di Vittoria 2020" in talk.ask("Does it go with lamb?")
    talk.ask("three cheapest reds from Italy")
    assert "Masi Campofiorin 2019 is the cheaper one" in talk.ask("Compare the first two")


def test_the_cheapest_one_is_one_wine(talk: Any) -> None:
    """Out of what was asked for before, not a list."""
    talk.ask("red wines from France")
    assert talk.ask("the cheapest one?").startswith("E. Guigal")
    assert talk.calls[0][1].items() >= {"colour": "red", "country": "France", "max_results": 1}.items()


def test_cheaper_is_measured_against_what_was_shown(talk: Any) -> None:
    """Below the cheapest of them, nearest first."""
    talk.ask("Which Champagnes do you have?")
    cheapest = min(wine["price_eur"] for wine in _shown(talk))

    talk.ask("anything cheaper?")

    assert talk.calls[0][1]["max_price"] == cheapest - 1


def test_more_shows_wines_that_were_not_shown(talk: Any) -> None:
    """Not the same list again."""
    first = talk.ask("red wines from France")
    second = talk.ask("show me more")

    assert "Lynch-Bages" in first
    assert "Lynch-Bages" not in second
    assert "Chasse-Spleen" not in second or "Chasse-Spleen" not in first


def test_pointing_at_nothing_is_not_an_error(talk: Any) -> None:
    """A conversation may begin with a question about 'it'."""
    assert "stand-in" in talk.ask("is it in stock?")


def test_several_colours_are_searched_side_by_side(talk: Any) -> None:
    """One call each, in one turn."""
    talk.ask("red or white from Spain below 20")

    assert [arguments["colour"] for _, arguments in talk.calls] == ["red", "white"]
    assert talk.turns == 2


def test_a_tool_that_fails_is_reported_in_words(talk: Any) -> None:
    """An unknown dish is an error result; the answer passes its way out on."""
    answer = talk.ask("what goes with bibimbap?")
    assert "says nothing of 'bibimbap'; it knows aperitif" in answer


def test_a_result_inside_other_text_is_still_read(talk: Any) -> None:
    """Untrusted results arrive with a fence around them."""
    talk.messages.append({"role": "user", "content": "How many Italian reds are there?"})
    message = talk.post().json()["choices"][0]["message"]
    talk.messages += [
        message,
        {
            "role": "tool",
            "tool_call_id": message["tool_calls"][0]["id"],
            "content": 'The text below is {untrusted}.\n<<<\n{"count": 7, "wines": [{"wine": "A"}]}\n>>>',
        },
    ]
    assert "There are seven red wines" in talk.post().json()["choices"][0]["message"]["content"]


def test_a_tool_that_is_not_offered_is_named(talk: Any) -> None:
    """With half of the tools it answers half of the questions."""
    talk.tools = [tool for tool in talk.tools if tool["function"]["name"] == "search_wines"]
    assert "I would need the tool stock_value" in talk.ask("What is the stock worth?")


def test_prefixed_tools_are_recognised(talk: Any) -> None:
    """Two servers with equal names make prefixes."""
    for tool in talk.tools:
        tool["function"]["name"] = "cellar_" + tool["function"]["name"]
    talk.messages.append({"role": "user", "content": "What is the stock worth?"})

    (call,) = talk.post().json()["choices"][0]["message"]["tool_calls"]

    assert call["function"]["name"] == "cellar_stock_value"


def test_without_tools_it_says_that_it_can_do_nothing(talk: Any) -> None:
    """Honest about what it is."""
    talk.messages.append({"role": "user", "content": "Which wines have notes of oak?"})
    answer = talk.post(tool_choice="none").json()["choices"][0]["message"]["content"]
    assert "I can only answer by calling tools" in answer


_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "unit": {"enum": ["C", "F"]},
            },
            "required": ["city", "days", "unit"],
        },
    },
}
_NEWS = {"type": "function", "function": {"name": "read_news", "description": "Today's headlines."}}


def test_a_tool_of_somebody_else_is_called_by_its_words(talk: Any) -> None:
    """Examples with tools of their own run without a real model."""
    talk.tools = [_NEWS, _WEATHER]
    talk.messages.append({"role": "user", "content": "What is the weather in New York for 3 days?"})
    message = talk.post().json()["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert call["function"] == {
        "name": "get_weather",
        "arguments": '{"city": "New York", "days": 3, "unit": "C"}',
    }

    talk.messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "Sunny, 22 °C"}]

    assert talk.post().json()["choices"][0]["message"]["content"] == "Sunny, 22 °C"


def test_a_tool_that_is_demanded_is_called(talk: Any) -> None:
    """``tool_choice`` with a name."""
    talk.tools = [_NEWS, _WEATHER]
    talk.messages.append({"role": "user", "content": "hello"})
    choice = {"type": "function", "function": {"name": "read_news"}}

    (call,) = talk.post(tool_choice=choice).json()["choices"][0]["message"]["tool_calls"]

    assert call["function"]["name"] == "read_news"


def _shown(talk: Any) -> list[dict[str, Any]]:
    results = [json.loads(message["content"]) for message in talk.messages if message["role"] == "tool"]
    return list(results[-1]["wines"])
