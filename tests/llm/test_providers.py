"""Models by a string, and what their servers want."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.llm.providers import PROVIDERS, model_from_string
from yiemagent.llm.quirks import Quirks, learned, named_quirks, quirks_for
from yiemagent.llm.replay import legal_id
from yiemagent.llm.usage import known_model, openai_usage
from yiemagent.messages import Usage

CHAT = [name for name, row in PROVIDERS.items() if row.model_class.endswith("OpenAIChat")]


@pytest.fixture(autouse=True)
def _no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in PROVIDERS.values():
        for variable in row.base_url_envs:
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("name", CHAT)
def test_each_provider_makes_a_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is the provider of its answers."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://us.openai.azure.com")
    llm = model_from_string(f"{name}:some/model:7b")

    assert isinstance(llm, OpenAIChat)
    assert (llm.info.provider, llm.info.id) == (name, "some/model:7b")


@pytest.mark.parametrize("name", CHAT)
def test_the_host_of_a_provider_says_what_its_name_says(name: str) -> None:
    """``OpenAIChat(base_url=...)`` and ``"provider:model"`` behave alike."""
    base_url = PROVIDERS[name].base_url
    if base_url is None or "127.0.0.1" in base_url:
        pytest.skip("a local server cannot be told by its host")

    assert quirks_for(base_url, "m") == named_quirks(name, "m")


@pytest.mark.parametrize(
    ("variables", "text", "url"),
    [
        ({}, "ollama:m", "http://127.0.0.1:11434/v1"),
        ({"OLLAMA_HOST": "box:11434"}, "ollama:m", "http://box:11434/v1"),
        ({"OLLAMA_HOST": "https://box/"}, "ollama:m", "https://box/v1"),
        ({"OLLAMA_BASE_URL": "http://box/api/v1"}, "ollama:m", "http://box/api/v1"),
        ({"VLLM_BASE_URL": "http://gpu:8000/v1"}, "vllm:m", "http://gpu:8000/v1"),
        (
            {"AZURE_OPENAI_ENDPOINT": "https://us.openai.azure.com/"},
            "azure:m",
            "https://us.openai.azure.com/openai/v1",
        ),
    ],
)
def test_an_address_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], text: str, url: str
) -> None:
    """With or without scheme and path."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert model_from_string(text).base_url == url  # type: ignore[attr-defined]


def test_options_go_to_the_model() -> None:
    """An address that is given wins, quirks are added."""
    llm: Any = model_from_string(
        "vllm:m", base_url="http://box/v1", quirks={"think_tags": True}, max_retries=0
    )

    assert llm.base_url == "http://box/v1"
    assert llm.quirks == named_quirks("vllm").__class__(
        **{**_fields(named_quirks("vllm")), "think_tags": True}
    )


def _fields(quirks: Quirks) -> dict[str, Any]:
    return {name: getattr(quirks, name) for name in Quirks.__slots__}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opnai:gpt-5", 'did you mean "openai:gpt-5"'),
        ("gpt-5-mini", 'did you mean "openai:gpt-5-mini"'),
        ("claude-sonnet-4-5", 'did you mean "anthropic:claude-sonnet-4-5"'),
        ("gemini-2.5-pro", 'did you mean "gemini:gemini-2.5-pro"'),
        ("openai:", 'write "openai:<model>"'),
        ("openai", 'write "openai:<model>"'),
        ("", 'write "provider:model"'),
        ("qqq:m", "known: openai"),
        ("azure:m", "set AZURE_OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT"),
    ],
)
def test_a_string_that_names_no_model_says_the_way_out(text: str, words: str) -> None:
    """With a guess where one is near."""
    with pytest.raises(ConfigurationError) as caught:
        model_from_string(text)

    assert words in str(caught.value)


# -- quirks ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("complaint", "field", "value"),
    [
        ("Use 'max_completion_tokens' instead.", "max_tokens_field", "max_completion_tokens"),
        ("Unknown field: max_completion_tokens", "max_tokens_field", "max_tokens"),
        ("stream_options is not allowed", "stream_usage", False),
        ("'developer' is not one of ['system', 'user']", "system_role", "system"),
        ("Unrecognized request argument: prompt_cache_key", "cache_key_field", None),
        ("reasoning_content must be passed back", "empty_reasoning", True),
        ("Extra inputs: reasoning_content", "replay_reasoning", "never"),
        ("property 'reasoning' is unsupported", "replay_reasoning", "never"),
        ("Conversation roles must alternate user/assistant", "merge_users", True),
        (
            "Unexpected role 'user' after role 'tool'",
            "line_after_results",
            "I have processed the tool results.",
        ),
        ("Tool call id must be a-z, A-Z, 0-9, with a length of 9.", "call_ids", "mistral"),
    ],
)
def test_a_complaint_changes_what_it_is_about(complaint: str, field: str, value: Any) -> None:
    """And the same complaint teaches nothing the second time."""
    before = Quirks(
        system_role="developer",
        cache_key_field="prompt_cache_key",
        merge_users=False,
        max_tokens_field="max_tokens" if "instead" in complaint else "max_completion_tokens",
    )
    after = learned(before, complaint)

    assert after is not None
    assert getattr(after, field) == value
    assert learned(after, complaint) is None
    assert learned(before, "something else is wrong") is None


@pytest.mark.parametrize(
    "call_id", ["call_abc", "toolu_01", "functions.f:0", "a|b", "x" * 100, "é", "", "abcdefghi"]
)
def test_ids_are_mapped_alike_every_time_and_apart(call_id: str) -> None:
    """C-33, PI-92."""
    mistral, openai, anthropic = (legal_id(call_id, rule) for rule in ("mistral", "openai", "anthropic"))  # type: ignore[arg-type]

    assert len(mistral) == 9
    assert mistral.isalnum()
    assert len(openai) <= 40
    assert "|" not in openai
    assert len(anthropic) <= 64
    assert all(char.isascii() and (char.isalnum() or char in "_-") for char in anthropic)
    assert legal_id(call_id, "any") == call_id
    assert legal_id(call_id + "x", "mistral") != mistral
    assert legal_id("call_abc", "openai") == "call_abc"
    assert legal_id("abcdefghi", "mistral") == "abcdefghi"


# -- prices and usage --------------------------------------------------------------------


def test_known_models_are_found_by_their_usual_names() -> None:
    """Dated, latest, behind a router's prefix; a longer name is another model."""
    assert known_model("gpt-5-mini")["output_price"] == 2.0
    assert known_model("gpt-5-mini-2025-08-07") == known_model("gpt-5-mini")
    assert known_model("openai/gpt-5-mini") == known_model("gpt-5-mini")
    assert known_model("mistral-large-latest") == known_model("mistral-large")
    assert known_model("claude-sonnet-4-5-20250929")["input_price"] == 3.0
    assert known_model("gpt-5-miniature") == {}
    assert known_model("gpt-5-2025-08-07") == known_model("gpt-5")


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        (None, None),
        ("many", None),
        ({}, None),
        ({"prompt_tokens": None, "completion_tokens": "x"}, None),
        ({"prompt_tokens": 5, "completion_tokens": 2}, Usage(input_tokens=5, output_tokens=2)),
        (
            {"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
            Usage(input_tokens=1, output_tokens=2, cache_read_tokens=4),
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 3, "prompt_tokens_details": []},
            Usage(input_tokens=2, output_tokens=2, cache_read_tokens=3),
        ),
        ({"prompt_tokens": 1, "cached_tokens": 9}, Usage(input_tokens=0, cache_read_tokens=9)),
    ],
)
def test_usage_is_read_from_where_servers_put_it(raw: Any, usage: Usage | None) -> None:
    """A-56, PI-2.2; what is not said is None, not 0."""
    assert openai_usage(raw) == usage
