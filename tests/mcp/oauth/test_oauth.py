"""The whole authorization, against an authorization server in memory."""

from __future__ import annotations

import os
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpAuthorizationError, McpConnectionError, McpTimeout, RunAborted
from yiemagent.mcp.http_auth import HttpAnswer
from yiemagent.mcp.oauth import (
    AuthorizationCode,
    FileTokenStore,
    MemoryTokenStore,
    OAuth,
    OAuthClient,
    StoreKey,
)
from yiemagent.testing import WAIT, Gate, run_in_thread

URL = "https://mcp.example/mcp"
AS = "https://as.example"


@pytest.fixture
def oauth(person: Any, clock: Any) -> OAuth:
    """An OAuth whose person agrees at once."""
    return OAuth(AuthorizationCode(person), clock=clock)


def bearer(number: int, issuer: str = AS) -> dict[str, str]:
    return {"Authorization": f"Bearer {issuer}#token-{number}"}


def scopes(page: str) -> str | None:
    values = parse_qs(urlsplit(page).query).get("scope")
    return values[0] if values else None


# --- the first token


def test_nothing_happens_before_the_server_asks(oauth: OAuth, call: Any, web: Any) -> None:
    """A server that wants no authorization costs nothing."""
    assert oauth.headers("POST", URL, call) == {}
    assert web.requests == []


def test_a_challenge_leads_to_a_token(oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any) -> None:
    """Specification 2026-07-28, Authorization Flow Steps."""
    assert oauth.challenged(mcp.refuse(), call)

    assert oauth.headers("POST", URL, call) == bearer(1)
    (form,) = server.forms
    assert form["grant_type"] == "authorization_code"
    assert form["code"] == "c0de"
    assert form["redirect_uri"] == person.redirect_uri
    assert form["resource"] == server.authorizations[0]["resource"] == URL
    assert person.closed == 1


def test_the_resource_is_sent_as_it_was_published(oauth: OAuth, call: Any, mcp: Any, server: Any) -> None:
    """RFC 8707: no slash is added or taken away."""
    mcp.document["resource"] = "https://mcp.example"

    oauth.challenged(mcp.refuse(), call)

    assert server.authorizations[0]["resource"] == "https://mcp.example"
    assert server.forms[0]["resource"] == "https://mcp.example"


def test_a_server_without_metadata_is_its_own_authorization_server(
    oauth: OAuth, call: Any, mcp: Any, make_as: Any, web: Any
) -> None:
    """MCP 2025-03-26."""
    web.routes.clear()
    make_as("https://mcp.example", more={"issuer": "https://mcp.example"})

    oauth.challenged(mcp.refuse(), call)

    assert oauth.headers("POST", URL, call) == bearer(1, "https://mcp.example")


@pytest.mark.parametrize(
    ("challenged", "supported", "offered", "expected"),
    [
        ("a", ["a", "b"], None, "a"),
        (None, ["a", "b"], None, "a b"),
        (None, None, None, None),
        (None, None, ["offline_access"], None),
        ("a", None, ["a", "offline_access"], "a offline_access"),
        ("a", None, ["a"], "a"),
    ],
)
def test_which_scopes_are_asked_for(
    oauth: OAuth,
    call: Any,
    mcp: Any,
    server: Any,
    person: Any,
    challenged: str | None,
    supported: list[str] | None,
    offered: list[str] | None,
    expected: str | None,
) -> None:
    """Specification 2026-07-28, Scope Selection Strategy and Refresh Tokens."""
    if supported is not None:
        mcp.document["scopes_supported"] = supported
    server.more["scopes_supported"] = offered

    oauth.challenged(mcp.refuse(**({} if challenged is None else {"scope": challenged})), call)

    assert scopes(person.pages[0]) == expected


def test_the_users_own_scopes_are_added(person: Any, call: Any, mcp: Any, server: Any) -> None:
    """``OAuth(scopes=...)``."""
    oauth = OAuth(AuthorizationCode(person), scopes=["z"])

    oauth.challenged(mcp.refuse(scope="a"), call)

    assert scopes(person.pages[0]) == "a z"


def test_offline_access_can_be_declined(person: Any, call: Any, mcp: Any, server: Any) -> None:
    """``AuthorizationCode(offline=False)`` wants no refresh token."""
    server.more["scopes_supported"] = ["a", "offline_access"]
    oauth = OAuth(AuthorizationCode(person, offline=False))

    oauth.challenged(mcp.refuse(scope="a"), call)

    assert scopes(person.pages[0]) == "a"


def test_the_registration_is_used_again(oauth: OAuth, call: Any, mcp: Any, server: Any) -> None:
    """One registration for each authorization server, not for each login."""
    oauth.challenged(mcp.refuse(), call)
    oauth.challenged(mcp.refuse(bearer(1)), call)

    assert len(server.authorizations) == 2
    assert len(server.registrations) == 1


def test_a_client_of_several_servers_goes_where_it_is_registered(
    person: Any, call: Any, mcp: Any, make_as: Any
) -> None:
    """RFC 9728 section 7.6: the client chooses."""
    make_as("https://one.example")
    make_as("https://two.example")
    mcp.document["authorization_servers"] = ["https://one.example", "https://two.example"]
    client = OAuthClient(client_id="me", issuer="https://two.example")
    oauth = OAuth(AuthorizationCode(person, client=client))

    oauth.challenged(mcp.refuse(), call)

    assert oauth.headers("POST", URL, call) == bearer(1, "https://two.example")


def test_what_is_no_insufficient_scope_stays_a_refusal(oauth: OAuth, call: Any, mcp: Any, web: Any) -> None:
    """A 403 may mean that this person may not, whatever the scopes."""
    assert oauth.challenged(mcp.refuse(status=403), call) is False
    assert web.requests == []


def test_a_token_that_is_refused_at_once_ends_it(
    oauth: OAuth, call: Any, mcp: Any, person: Any, server: Any
) -> None:
    """No loop of logins when server and authorization server disagree."""
    oauth.challenged(mcp.refuse(), call)

    with pytest.raises(McpAuthorizationError, match="refuses the token"):
        oauth.challenged(mcp.refuse(bearer(1), attempt=1), call)
    assert len(person.pages) == 1


def test_the_token_endpoints_reason_is_told(oauth: OAuth, call: Any, mcp: Any, server: Any) -> None:
    """RFC 6749 section 5.2: code and description."""
    server.refuse["authorization_code"] = "invalid_grant"

    with pytest.raises(McpAuthorizationError, match="invalid_grant: as the test wants") as caught:
        oauth.challenged(mcp.refuse(), call)
    assert (caught.value.error, caught.value.status) == ("invalid_grant", 400)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"<html>", "HTTP 200"),
        (b"{}", "no access_token"),
        (b'{"access_token": "x", "token_type": "mac"}', "unknown type 'mac'"),
        (b'{"error": "server_error"}', "server_error"),
    ],
)
def test_unusable_token_answers_are_errors(
    oauth: OAuth, call: Any, mcp: Any, server: Any, web: Any, body: bytes, match: str
) -> None:
    """Some servers answer errors with 200."""
    web.routes[f"{AS}/token"] = HttpAnswer(200, body)

    with pytest.raises(McpAuthorizationError, match=match):
        oauth.challenged(mcp.refuse(), call)


# --- renewing


def log_in(oauth: OAuth, call: Any, mcp: Any, server: Any, **token: Any) -> None:
    server.token.update({"refresh_token": "r-1", "expires_in": 3600, **token})
    oauth.challenged(mcp.refuse(), call)


def test_a_token_is_renewed_before_it_ends(
    oauth: OAuth, call: Any, mcp: Any, server: Any, clock: Any, person: Any
) -> None:
    """RFC 6749 section 6: nobody is asked, and no request fails."""
    log_in(oauth, call, mcp, server)
    clock.pass_time(3600 - 29)

    assert oauth.headers("POST", URL, call) == bearer(2)
    assert server.forms[-1] == {
        "grant_type": "refresh_token",
        "refresh_token": "r-1",
        "resource": URL,
        "client_id": f"{AS}#client-1",
    }
    assert len(person.pages) == 1


def test_seconds_as_a_text_are_read_too(oauth: OAuth, call: Any, mcp: Any, server: Any, clock: Any) -> None:
    """Some servers write ``"expires_in": "3600"``."""
    log_in(oauth, call, mcp, server, expires_in="3600")
    clock.pass_time(3600)

    assert oauth.headers("POST", URL, call) == bearer(2)


def test_a_refused_token_is_renewed(oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any) -> None:
    """Tokens may be revoked before their time."""
    log_in(oauth, call, mcp, server)

    assert oauth.challenged(mcp.refuse(bearer(1)), call)

    assert oauth.headers("POST", URL, call) == bearer(2)
    assert len(person.pages) == 1


def test_a_rotated_refresh_token_replaces_the_old_one(oauth: OAuth, call: Any, mcp: Any, server: Any) -> None:
    """OAuth 2.1 section 4.3.1."""
    log_in(oauth, call, mcp, server)
    server.token["refresh_token"] = "r-2"
    oauth.challenged(mcp.refuse(bearer(1)), call)
    oauth.challenged(mcp.refuse(bearer(2)), call)

    assert [form.get("refresh_token") for form in server.forms] == [None, "r-1", "r-2"]


def test_a_refresh_token_that_is_not_sent_anew_is_kept(
    oauth: OAuth, call: Any, mcp: Any, server: Any
) -> None:
    """RFC 6749 section 6: the server may leave it out."""
    log_in(oauth, call, mcp, server)
    del server.token["refresh_token"]
    oauth.challenged(mcp.refuse(bearer(1)), call)
    oauth.challenged(mcp.refuse(bearer(2)), call)

    assert [form.get("refresh_token") for form in server.forms] == [None, "r-1", "r-1"]


def test_a_used_up_refresh_token_leads_to_the_login_page(
    oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """``invalid_grant``: the person is asked once, and the token is not tried again."""
    log_in(oauth, call, mcp, server)
    server.refuse["refresh_token"] = "invalid_grant"

    assert oauth.challenged(mcp.refuse(bearer(1)), call)

    assert [form["grant_type"] for form in server.forms] == [
        "authorization_code",
        "refresh_token",
        "authorization_code",
    ]
    assert len(person.pages) == 2


def test_a_renewed_token_that_is_refused_leads_to_the_login_page(
    oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """Renewing again would give the same."""
    log_in(oauth, call, mcp, server)
    oauth.challenged(mcp.refuse(bearer(1)), call)

    oauth.challenged(mcp.refuse(bearer(2), attempt=1), call)

    assert [form["grant_type"] for form in server.forms][-2:] == ["refresh_token", "authorization_code"]


def test_a_failing_renewal_does_not_cost_a_token_that_is_still_good(
    oauth: OAuth, call: Any, mcp: Any, server: Any, clock: Any, web: Any
) -> None:
    """An authorization server that is down is no reason to fail before the token's end."""
    log_in(oauth, call, mcp, server)
    web.routes[f"{AS}/token"] = HttpAnswer(503)
    clock.pass_time(3590)
    assert oauth.headers("POST", URL, call) == bearer(1)

    clock.pass_time(10)
    with pytest.raises(McpAuthorizationError, match="503"):
        oauth.headers("POST", URL, call)


def test_without_a_refresh_token_the_old_one_is_sent_until_it_is_refused(
    oauth: OAuth, call: Any, mcp: Any, server: Any, clock: Any, person: Any
) -> None:
    """A person is not asked before it must be."""
    log_in(oauth, call, mcp, server, refresh_token=None)
    clock.pass_time(4000)

    assert oauth.headers("POST", URL, call) == bearer(1)
    assert len(person.pages) == 1


def test_a_registration_that_the_server_forgot_is_made_again(
    oauth: OAuth, call: Any, mcp: Any, server: Any
) -> None:
    """``invalid_client``: the stored registration is of no use any more."""
    log_in(oauth, call, mcp, server)
    server.refuse["refresh_token"] = "invalid_client"

    oauth.challenged(mcp.refuse(bearer(1)), call)

    assert len(server.registrations) == 2


# --- more scopes


def test_a_step_up_asks_for_old_and_new_scopes(
    oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """Specification 2026-07-28, Step-Up Authorization Flow: the union."""
    oauth.challenged(mcp.refuse(scope="read"), call)

    assert oauth.challenged(
        mcp.refuse(bearer(1), status=403, error="insufficient_scope", scope="write"), call
    )

    assert [scopes(page) for page in person.pages] == ["read", "read write"]
    assert oauth.headers("POST", URL, call) == bearer(2)


def test_a_step_up_that_does_not_help_is_not_repeated(
    oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """Retry limit: neither for this request nor for the next one of the kind."""
    oauth.challenged(mcp.refuse(scope="read"), call)
    oauth.challenged(mcp.refuse(bearer(1), status=403, error="insufficient_scope", scope="admin"), call)

    for attempt in (1, 0, 0):
        refusal = mcp.refuse(
            bearer(2), status=403, error="insufficient_scope", scope="admin", attempt=attempt
        )
        with pytest.raises(McpAuthorizationError, match="needs the scopes 'admin'") as caught:
            oauth.challenged(refusal, call)
        assert caught.value.error == "insufficient_scope"
    assert len(person.pages) == 2


def test_scopes_that_the_person_withheld_may_be_asked_for_once_more(
    oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """The token says what was granted: less than what was asked for is the person's choice."""
    server.token["scope"] = "read"
    oauth.challenged(mcp.refuse(scope="read write"), call)

    assert oauth.challenged(
        mcp.refuse(bearer(1), status=403, error="insufficient_scope", scope="write"), call
    )
    with pytest.raises(McpAuthorizationError):
        oauth.challenged(
            mcp.refuse(bearer(2), status=403, error="insufficient_scope", scope="write", attempt=1), call
        )
    with pytest.raises(McpAuthorizationError):
        oauth.challenged(mcp.refuse(bearer(2), status=403, error="insufficient_scope", scope="write"), call)
    assert len(person.pages) == 2


def test_a_challenge_without_scopes_cannot_be_met(oauth: OAuth, call: Any, mcp: Any, server: Any) -> None:
    """There is nothing more to ask for."""
    oauth.challenged(mcp.refuse(), call)

    with pytest.raises(McpAuthorizationError, match="does not grant"):
        oauth.challenged(mcp.refuse(bearer(1), status=403, error="insufficient_scope"), call)


def test_one_request_is_not_challenged_for_ever(oauth: OAuth, call: Any, mcp: Any, server: Any) -> None:
    """A server that wants another scope each time is left."""
    oauth.challenged(mcp.refuse(scope="s0"), call)
    outcomes = [
        oauth.challenged(
            mcp.refuse(
                bearer(number + 1),
                status=403,
                error="insufficient_scope",
                scope=f"s{number + 1}",
                attempt=number,
            ),
            call,
        )
        for number in range(4)
    ]

    assert outcomes == [True, True, True, False]


# --- another authorization server


def test_a_new_authorization_server_sees_nothing_of_the_old_one(
    oauth: OAuth, call: Any, mcp: Any, server: Any, make_as: Any
) -> None:
    """SEP-2352: new registration, new token; neither client id nor refresh token is carried over."""
    log_in(oauth, call, mcp, server)
    second = make_as("https://new.example")
    mcp.document["authorization_servers"] = ["https://new.example"]
    oauth.challenged(mcp.refuse(bearer(1)), call)  # the old refresh token still works there

    oauth.challenged(mcp.refuse(bearer(2), attempt=1), call)

    assert oauth.headers("POST", URL, call) == bearer(1, "https://new.example")
    assert second.authorizations[0]["client_id"] == "https://new.example#client-1"
    assert [form["grant_type"] for form in second.forms] == ["authorization_code"]


def test_a_refresh_token_is_not_shown_to_a_new_authorization_server(
    person: Any, call: Any, mcp: Any, server: Any, make_as: Any
) -> None:
    """A client id that is a URL is good everywhere; what one server gave is not."""
    oauth = OAuth(AuthorizationCode(person, client_metadata_url="https://me.example/client.json"))
    server.more["client_id_metadata_document_supported"] = True
    log_in(oauth, call, mcp, server)
    second = make_as("https://new.example", more={"client_id_metadata_document_supported": True})
    mcp.document["authorization_servers"] = ["https://new.example"]
    oauth.challenged(mcp.refuse(bearer(1)), call)

    oauth.challenged(mcp.refuse(bearer(2), attempt=1), call)

    assert [form["grant_type"] for form in second.forms] == ["authorization_code"]


def test_a_given_client_is_not_shown_to_a_new_authorization_server(
    person: Any, call: Any, mcp: Any, server: Any, make_as: Any
) -> None:
    """Pre-registered credentials belong to one server: an error, not silence."""
    oauth = OAuth(AuthorizationCode(person, client=OAuthClient(client_id="me", client_secret="s3")))
    oauth.challenged(mcp.refuse(), call)
    second = make_as("https://new.example")
    mcp.document["authorization_servers"] = ["https://new.example"]

    with pytest.raises(McpAuthorizationError, match=r"belongs to 'https://as\.example'"):
        oauth.challenged(mcp.refuse(bearer(1)), call)
    assert (second.forms, second.authorizations) == ([], [])


# --- the store


def test_a_store_that_is_falsy_while_it_is_empty_is_used(
    person: Any, call: Any, mcp: Any, server: Any
) -> None:
    """Any object with the three methods may be one; a dict of one's own, too."""

    class Store(dict[Any, Any]):
        def load(self, key: Any) -> Any:
            return self.get(key)

        def save(self, key: Any, record: Any) -> None:
            self[key] = record

        def delete(self, key: Any) -> None:
            self.pop(key, None)

    store = Store()

    log_in(OAuth(AuthorizationCode(person), store=store), call, mcp, server)

    assert store


def test_a_stored_token_saves_the_login(person: Any, call: Any, mcp: Any, server: Any, tmp_path: Any) -> None:
    """A new process finds the token, after it has found out whose it would be."""
    store = FileTokenStore(tmp_path)
    log_in(OAuth(AuthorizationCode(person), store=store), call, mcp, server)
    second = OAuth(AuthorizationCode(person), store=store)

    assert second.headers("POST", URL, call) == {}
    assert second.challenged(mcp.refuse(), call)

    assert second.headers("POST", URL, call) == bearer(1)
    assert len(person.pages) == 1


def test_an_old_stored_token_is_renewed(person: Any, call: Any, mcp: Any, server: Any, clock: Any) -> None:
    """The refresh token outlives the access token."""
    store = MemoryTokenStore()
    log_in(OAuth(AuthorizationCode(person), store=store, clock=clock), call, mcp, server)
    clock.pass_time(10_000)
    second = OAuth(AuthorizationCode(person), store=store, clock=clock)

    second.challenged(mcp.refuse(), call)

    assert second.headers("POST", URL, call) == bearer(2)
    assert len(person.pages) == 1


def test_a_token_that_another_process_has_renewed_is_taken(
    person: Any, call: Any, mcp: Any, server: Any
) -> None:
    """Several workers share a store: a rotated refresh token must not be used twice."""
    store = MemoryTokenStore()
    first = OAuth(AuthorizationCode(person), store=store)
    log_in(first, call, mcp, server)
    second = OAuth(AuthorizationCode(person), store=store)
    second.challenged(mcp.refuse(), call)
    server.token["refresh_token"] = "r-2"
    first.challenged(mcp.refuse(bearer(1)), call)

    second.challenged(mcp.refuse(bearer(1)), call)

    assert second.headers("POST", URL, call) == bearer(2)
    assert [form["grant_type"] for form in server.forms] == ["authorization_code", "refresh_token"]


def test_scopes_of_an_earlier_process_are_not_lost(person: Any, call: Any, mcp: Any, server: Any) -> None:
    """The union of a step-up counts what was asked for before the restart."""
    store = MemoryTokenStore()
    OAuth(AuthorizationCode(person), store=store).challenged(mcp.refuse(scope="read"), call)
    second = OAuth(AuthorizationCode(person), store=store)
    second.challenged(mcp.refuse(), call)

    second.challenged(mcp.refuse(bearer(1), status=403, error="insufficient_scope", scope="write"), call)

    assert scopes(person.pages[-1]) == "read write"


def test_accounts_do_not_share_tokens(person: Any, call: Any, mcp: Any, server: Any) -> None:
    """A web application keeps the tokens of several people in one store."""
    store = MemoryTokenStore()
    ann = OAuth(AuthorizationCode(person, account="ann"), store=store)
    bob = OAuth(AuthorizationCode(person, account="bob"), store=store)
    ann.challenged(mcp.refuse(), call)

    bob.challenged(mcp.refuse(), call)

    assert len(person.pages) == 2
    assert ann.headers("POST", URL, call) == bearer(1)
    assert bob.headers("POST", URL, call) == bearer(2)


def test_a_store_that_cannot_be_written_does_not_cost_the_token(
    person: Any, call: Any, mcp: Any, server: Any, tmp_path: Any, caplog: Any
) -> None:
    """A full disk is a warning."""
    (tmp_path / "file").write_text("")
    client = OAuthClient(client_id="me")
    oauth = OAuth(AuthorizationCode(person, client=client), store=FileTokenStore(tmp_path / "file"))

    assert oauth.challenged(mcp.refuse(), call)

    assert oauth.headers("POST", URL, call) == bearer(1)
    assert "cannot be stored" in caplog.text


def test_logging_out_forgets_the_token_here_and_in_the_store(
    person: Any, call: Any, mcp: Any, server: Any
) -> None:
    """The next request is unauthorized again."""
    store = MemoryTokenStore()
    oauth = OAuth(AuthorizationCode(person), store=store)
    oauth.challenged(mcp.refuse(), call)

    oauth.logout(URL)

    assert oauth.headers("POST", URL, call) == {}
    assert store.load(StoreKey(AS, URL)) is None


# --- threads


def test_one_person_is_asked_once_for_many_threads(
    oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """Parallel tool calls must not open four login pages."""
    gate = Gate()

    def on_page(url: str, _: Any) -> str:
        gate.block()
        return server.log_in(url)

    person.on_page = on_page
    first = run_in_thread(oauth.challenged, mcp.refuse(), call)
    gate.wait_entered()
    others = [run_in_thread(oauth.challenged, mcp.refuse(), call) for _ in range(3)]
    gate.open()

    assert [one.get() for one in (first, *others)] == [True] * 4
    assert len(person.pages) == 1


def test_a_refusal_is_the_answer_for_all_who_waited(
    oauth: OAuth, call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """Nobody wants one login page after the other."""
    gate = Gate()

    def on_page(url: str, _: Any) -> str:
        gate.block()
        raise McpAuthorizationError("no", error="access_denied")

    person.on_page = on_page
    first = run_in_thread(oauth.challenged, mcp.refuse(), call)
    gate.wait_entered()
    second = run_in_thread(oauth.challenged, mcp.refuse(), call)
    _until_waiting(second)
    gate.open()

    for one in (first, second):
        with pytest.raises(McpAuthorizationError) as caught:
            one.get()
        assert caught.value.error == "access_denied"
    assert len(person.pages) == 1


def _until_waiting(outcome: Any) -> None:
    """The other thread has nothing to do but to wait: give it the chance to get there."""
    import sys

    deadline = threading.Event()
    for _ in range(100):
        frames = sys._current_frames()
        frame = frames.get(outcome._thread.ident)
        while frame is not None:
            if frame.f_code.co_name == "wait_for":
                return
            frame = frame.f_back
        deadline.wait(0.01)
    raise AssertionError("the second thread does not wait")


def test_a_waiter_goes_on_when_the_first_one_was_aborted(
    oauth: OAuth, make_call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """The abort of one call must not fail another one."""
    gate, signal = Gate(), AbortSignal()

    def on_page(url: str, call: Any) -> str:
        if call.signal is signal:
            gate.block()
            call.signal.raise_if_aborted()
        return server.log_in(url)

    person.on_page = on_page
    first = run_in_thread(oauth.challenged, mcp.refuse(), make_call(signal=signal))
    gate.wait_entered()
    second = run_in_thread(oauth.challenged, mcp.refuse(), make_call())
    _until_waiting(second)
    signal.abort()
    gate.open()

    with pytest.raises(RunAborted):
        first.get()
    assert second.get() is True
    assert len(person.pages) == 2


def test_a_waiter_has_its_own_deadline(
    oauth: OAuth, make_call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """Somebody else's login may take longer than this call may."""
    gate = Gate()

    def on_page(url: str, call: Any) -> str:
        gate.block()
        return server.log_in(url)

    person.on_page = on_page
    first = run_in_thread(oauth.challenged, mcp.refuse(), make_call())
    gate.wait_entered()

    with pytest.raises(McpTimeout, match="another thread"):
        oauth.challenged(mcp.refuse(), make_call(0.05))
    gate.open()
    assert first.get() is True


def test_a_token_that_was_renewed_meanwhile_is_used(oauth: OAuth, call: Any, mcp: Any, server: Any) -> None:
    """A challenge to an older token asks for nothing."""
    oauth.challenged(mcp.refuse(), call)

    assert oauth.challenged(mcp.refuse({}), call)

    assert len(server.forms) == 1


def test_the_persons_time_does_not_count(person: Any, make_call: Any, mcp: Any, server: Any) -> None:
    """A login takes longer than a call may: the clock stands still, and then goes on."""
    seen: list[float | None] = []
    the_call = make_call(30)
    before = the_call.deadline.at

    def on_page(url: str, call: Any) -> str:
        seen.append(call.deadline.remaining())
        seen.append(the_call.deadline.at)
        return server.log_in(url)

    person.on_page = on_page

    OAuth(AuthorizationCode(person, login_timeout=300)).challenged(mcp.refuse(), the_call)

    own, held = seen
    assert own is not None
    assert 290 < own <= 300
    assert held is not None
    assert held > before + 200
    assert the_call.deadline.at - before < 30


def test_a_login_page_that_nobody_answers_costs_the_stored_registration(
    person: Any, call: Any, mcp: Any, server: Any
) -> None:
    """A page that no longer knows us never redirects: the next login registers anew."""
    store = MemoryTokenStore()

    def on_page(url: str, call: Any) -> str:
        raise McpTimeout("nobody came")

    person.on_page = on_page
    with pytest.raises(McpTimeout):
        OAuth(AuthorizationCode(person), store=store).challenged(mcp.refuse(), call)

    assert store.load(StoreKey(AS)) is None
    assert person.closed == 1


@pytest.mark.servers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_can_log_in(oauth: OAuth, make_call: Any, mcp: Any, server: Any, person: Any) -> None:
    """gunicorn: a login that was going on in the parent is not waited for in the child."""
    gate = Gate()

    def on_page(url: str, call: Any) -> str:
        if os.getpid() == parent:
            gate.block()
        return server.log_in(url)

    parent = os.getpid()
    person.on_page = on_page
    first = run_in_thread(oauth.challenged, mcp.refuse(), make_call())
    gate.wait_entered()

    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            ok = oauth.challenged(mcp.refuse(), make_call(WAIT)) and bool(
                oauth.headers("POST", URL, make_call())
            )
        finally:
            os._exit(0 if ok else 1)
    _, status = os.waitpid(pid, 0)
    gate.open()

    assert os.waitstatus_to_exitcode(status) == 0
    assert first.get() is True


def test_a_server_that_cannot_be_reached_is_a_connection_error(
    oauth: OAuth, call: Any, mcp: Any, server: Any, web: Any
) -> None:
    """What goes wrong on the way stays what it is."""

    def down(request: Any) -> Any:
        raise McpConnectionError("as.example: no connection")

    web.routes[f"{AS}/token"] = down

    with pytest.raises(McpConnectionError, match="no connection"):
        oauth.challenged(mcp.refuse(), call)
