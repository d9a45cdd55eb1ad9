"""``OAuth``: the authorization that ``McpHttp(url, auth=OAuth())`` stands for.

It finds the authorization server, gets tokens through its grant, keeps them, renews them, and
asks for more scopes when the MCP server wants them. What is sent where is decided in the other
modules of this room; here is only the order, and that one thread at a time does it.

Source: issue 5 part 3, specification 2026-07-28 "Authorization".
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from yiemagent.errors import ConfigurationError, McpAuthorizationError, McpConnectionError
from yiemagent.forking import forget_parent_on_fork
from yiemagent.mcp.http_auth import AuthCall, Challenge
from yiemagent.mcp.oauth.discovery import discover_resource, discover_server
from yiemagent.mcp.oauth.dpop import DPoP
from yiemagent.mcp.oauth.grants import AuthorizationCode, Grant, Wanted
from yiemagent.mcp.oauth.metadata import AuthorizationServer, canonical_resource
from yiemagent.mcp.oauth.scopes import select_scopes
from yiemagent.mcp.oauth.store import MemoryTokenStore, StoreKey, TokenStore
from yiemagent.mcp.oauth.token import Token
from yiemagent.mcp.origin import origin_of
from yiemagent.mcp.waiting import Outcome, wait_for
from yiemagent.value_checks import check_callable, check_names, check_switch

__all__ = ["OAuth"]

logger = logging.getLogger(__name__)

_EARLY = 30.0
"""Seconds before its end that a token is renewed."""
_MOST_ATTEMPTS = 3
"""Challenges of one request that are followed."""

_Origin: TypeAlias = Literal["none", "stored", "renewed", "granted"]


@dataclass(slots=True)
class _State:
    """What is known for one MCP server; written by the thread whose turn it is."""

    token: Token | None = None
    origin: _Origin = "none"
    """How we came to the token."""
    wanted: Wanted | None = None
    """What it was asked for with."""
    proof: DPoP | None = None
    """Proves that we hold the key that the token is bound to."""
    asked: tuple[str, ...] = ()
    """All scopes asked for so far."""
    turn: Outcome[None] | None = None
    """Done when the thread whose turn it is has ended, well or not."""
    hopeless: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    """Step-ups that did not help: operation and scopes."""

    def authorization(self) -> str | None:
        return f"{self.token.token_type} {self.token.access_token}" if self.token is not None else None


class OAuth:
    """Authorizes requests to MCP servers by OAuth 2.1; share one object among servers and threads.

    Nothing happens before a server asks for an authorization: with the first call, or with
    ``McpHttp.connect()``. Then the first thread gets it, and the others wait for it, each within
    its own deadline.

    Args:
        grant: How tokens are got: ``AuthorizationCode()`` (a person in a browser; the default),
            ``ClientCredentials(id, secret)``, or another ``Grant``.
        store: Where tokens outlive the process, such as ``FileTokenStore()``; by default they do not.
        scopes: To ask for in addition to those that the server names.
        dpop: Bind tokens to a key of ours where the authorization server offers it (needs
            ``yiemagent[jwt]``), so that a stolen token is useless.
        allow_insecure: Let tokens travel over http to other machines; for test networks.
        clock: Unix time; for tests.
    """

    def __init__(
        self,
        grant: Grant | None = None,
        *,
        store: TokenStore | None = None,
        scopes: Iterable[str] = (),
        dpop: bool = False,
        allow_insecure: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if grant is not None and not hasattr(grant, "obtain"):
            raise ConfigurationError(f"grant must be one such as AuthorizationCode(...), got {grant!r}")
        if store is not None and not hasattr(store, "load"):
            raise ConfigurationError(f"store must be one such as FileTokenStore(...), got {store!r}")
        check_switch("dpop", dpop)
        check_switch("allow_insecure", allow_insecure)
        check_callable("clock", clock)
        self._grant: Grant = AuthorizationCode() if grant is None else grant
        # An empty store may well be falsy.
        self._store = MemoryTokenStore() if store is None else store
        self._scopes = check_names("scopes", scopes)
        self._dpop = dpop
        self._insecure = allow_insecure
        self._clock = clock
        # Guards _states and the fields of each state as seen by other threads; nothing blocks under it.
        self._lock = threading.Lock()
        self._states: dict[str, _State] = {}
        forget_parent_on_fork(self)

    def headers(self, method: str, url: str, call: AuthCall) -> Mapping[str, str]:
        """The token for *url*, renewed when it is about to end; nothing when there is none yet."""
        state = self._state(url)
        token = state.token
        if token is None:
            return {}
        if token.expires_within(_EARLY, self._clock()):
            self._renew_early(state, token, call)
        with self._lock:
            now, proof, authorization = state.token, state.proof, state.authorization()
        if now is None or authorization is None:
            return {}
        bound = proof is not None and now.token_type == "DPoP"
        extra = proof.headers(method, url, now.access_token) if proof is not None and bound else {}
        return {"Authorization": authorization, **extra}

    def challenged(self, challenge: Challenge, call: AuthCall) -> bool:
        """Get a token, a new one, or one with more scopes; see ``HttpAuth``."""
        state = self._state(challenge.url)
        if challenge.attempt >= _MOST_ATTEMPTS:
            return False
        proof = state.proof
        news = proof is not None and proof.learn(challenge.url, challenge.headers)
        if news and challenge.parameter("error") == "use_dpop_nonce":
            return True
        more_scopes = challenge.status == 403
        if more_scopes and challenge.parameter("error") != "insufficient_scope":
            return False

        def work() -> None:
            if more_scopes and state.token is not None:
                self._step_up(state, challenge, call)
            else:
                self._authorize(state, challenge, call)

        self._in_turn(state, challenge.sent.get("Authorization"), work, call)
        return True

    def logout(self, url: str) -> None:
        """Forget the token for the MCP server at *url*, here and in the store."""
        state = self._state(url)
        with self._lock:
            wanted = state.wanted
            state.token, state.origin, state.asked, state.wanted, state.proof = None, "none", (), None, None
            state.hopeless.clear()
        if wanted is not None:
            self._store.delete(self._key(wanted))

    # One thread at a time

    def _state(self, url: str) -> _State:
        with self._lock:
            return self._states.setdefault(url, _State())

    def _in_turn(self, state: _State, sent: str | None, work: Callable[[], None], call: AuthCall) -> None:
        """Do *work* unless the token is no longer the one that was sent; wait while another does.

        When the other one fails to be authorized, so do those who wait: nobody wants one login
        page after the other. When it gave up for reasons of its own, one of them goes on.
        """
        mine: Outcome[None] = Outcome()
        # The block begins before the turn is taken: Ctrl-C must not come in between.
        try:
            if self._take_turn(state, sent, mine, call):
                work()
        except McpAuthorizationError as exc:
            mine.fail(exc)
            raise
        finally:
            with self._lock:
                if state.turn is mine:
                    state.turn = None
            mine.settle(None)

    def _take_turn(self, state: _State, sent: str | None, mine: Outcome[None], call: AuthCall) -> bool:
        """Wait for the turn and mark it with *mine*; False when there is another token meanwhile."""
        while True:
            with self._lock:
                if state.authorization() != sent:
                    return False
                others = state.turn
                if others is None:
                    state.turn = mine
                    return True
            try:
                wait_for(others, call.deadline, call.signal, "the login that another thread has begun")
            except McpAuthorizationError as exc:
                raise McpAuthorizationError(str(exc), error=exc.error, status=exc.status) from exc

    # The order of things

    def _renew_early(self, state: _State, token: Token, call: AuthCall) -> None:
        def work() -> None:
            wanted = state.wanted
            if wanted is None or self._reuse(state, wanted, call):
                return
            if not self._grant.interactive:
                self._obtain(state, wanted, call)

        try:
            self._in_turn(state, state.authorization(), work, call)
        except (McpAuthorizationError, McpConnectionError) as exc:
            # The old token may still do; if it does not, the server says so.
            if token.expires_within(0, self._clock()):
                raise
            logger.info("error=%s | a token could not be renewed before its end", exc)

    def _authorize(self, state: _State, challenge: Challenge, call: AuthCall) -> None:
        """After a 401: another process's token, the refresh token, or all anew; in this order."""
        if state.origin == "granted" and challenge.attempt > 0:
            raise McpAuthorizationError(
                f"the MCP server {challenge.url!r} refuses the token that its authorization server just gave",
                error=challenge.parameter("error") or "",
                status=challenge.status,
            )
        known = state.wanted
        just_renewed = state.origin == "renewed" and challenge.attempt > 0
        if known is not None and not just_renewed and self._reuse(state, known, call):
            return
        wanted = self._discover(state, challenge, call)
        moved = known is None or known.server.issuer != wanted.server.issuer
        if moved and self._reuse(state, wanted, call):
            return
        self._obtain(state, wanted, call)

    def _reuse(self, state: _State, wanted: Wanted, call: AuthCall) -> bool:
        """Come to a token without any person; whether that worked."""
        return self._adopt_stored(state, wanted) or self._renew(state, wanted, call)

    def _step_up(self, state: _State, challenge: Challenge, call: AuthCall) -> None:
        """After a 403: the union of all scopes so far, unless that has been tried."""
        scope = challenge.parameter("scope") or ""
        needed = frozenset(scope.split())
        step = (challenge.operation, needed)
        granted = state.token.scopes if state.token is not None else None
        news = needed - set(state.asked)
        withheld = granted is not None and not needed <= set(granted)
        if step in state.hopeless or not (news or (withheld and challenge.attempt == 0)):
            state.hopeless.add(step)
            raise McpAuthorizationError(
                f"{challenge.operation} on {challenge.url!r} needs the scopes {scope!r}, "
                "which the authorization server does not grant",
                error="insufficient_scope",
                status=challenge.status,
            )
        self._obtain(state, self._discover(state, challenge, call), call)

    def _discover(self, state: _State, challenge: Challenge, call: AuthCall) -> Wanted:
        url, insecure = challenge.url, self._insecure
        advertised = challenge.parameter("resource_metadata")
        resource = discover_resource(url, advertised, call, insecure=insecure)
        if resource is None:
            # MCP 2025-03-26: the server is its own authorization server.
            server = discover_server(origin_of(url), call, insecure=insecure, guess=True)
        else:
            issuers = resource.authorization_servers
            issuer = self._grant.issuer if self._grant.issuer in issuers else issuers[0]
            server = discover_server(issuer or issuers[0], call, insecure=insecure)
        scopes = select_scopes(
            challenged=challenge.parameter("scope"),
            supported=resource.scopes_supported if resource is not None else None,
            before=state.asked,
            always=self._scopes,
            offered=server.scopes_supported,
            offline=self._grant.offline,
        )
        return Wanted(
            server=server,
            resource=resource.resource if resource is not None else canonical_resource(url),
            scopes=scopes,
            store=self._store,
            proof=self._proof(state, server),
            insecure=insecure,
            now=self._clock,
        )

    def _proof(self, state: _State, server: AuthorizationServer) -> DPoP | None:
        if not self._dpop or "ES256" not in server.dpop_algorithms:
            return None
        return state.proof or DPoP(clock=self._clock)

    def _obtain(self, state: _State, wanted: Wanted, call: AuthCall) -> None:
        self._keep(state, wanted, self._grant.obtain(wanted, call), "granted")

    def _renew(self, state: _State, wanted: Wanted, call: AuthCall) -> bool:
        token, known = state.token, state.wanted
        if token is None or known is None or known.server.issuer != wanted.server.issuer:
            return False
        fresh = self._grant.renew(token, wanted, call)
        if fresh is None:
            # Not tried again: a server may take a second use for theft (OAuth 2.1 section 4.3.1).
            self._set(state, known, replace(token, refresh_token=None), state.origin, state.asked)
            return False
        self._keep(state, replace(wanted, scopes=known.scopes), fresh, "renewed")
        return True

    # Keeping

    def _key(self, wanted: Wanted) -> StoreKey:
        return StoreKey(wanted.server.issuer, wanted.resource, self._grant.account)

    def _keep(self, state: _State, wanted: Wanted, token: Token, origin: _Origin) -> None:
        asked = tuple(dict.fromkeys([*state.asked, *(wanted.scopes or ())]))
        self._set(state, wanted, token, origin, asked)
        try:
            key = {"dpop_key": wanted.proof.pem} if isinstance(wanted.proof, DPoP) else {}
            self._store.save(self._key(wanted), {**token.to_record(), **key, "asked": list(asked)})
        except Exception as exc:
            logger.warning("error=%s | a token cannot be stored; it is kept in memory only", exc)

    def _adopt_stored(self, state: _State, wanted: Wanted) -> bool:
        """Take a token from the store if it is another one than ours; whether it is still good."""
        record = self._store.load(self._key(wanted))
        if record is None:
            return False
        try:
            token, pem = Token.from_record(record), record.get("dpop_key")
            proof = DPoP(pem, clock=self._clock) if pem else None
        except (KeyError, TypeError, ValueError) as exc:
            logger.warning("url=%s error=%r | a stored token cannot be used", wanted.resource, exc)
            return False
        wanted = replace(wanted, proof=proof)
        if state.token is not None and state.token.access_token == token.access_token:
            return False
        self._set(state, wanted, token, "stored", _asked(record) or state.asked)
        return not token.expires_within(_EARLY, self._clock())

    def _set(
        self, state: _State, wanted: Wanted, token: Token, origin: _Origin, asked: tuple[str, ...]
    ) -> None:
        with self._lock:
            state.token, state.origin, state.wanted, state.asked = token, origin, wanted, asked
            state.proof = wanted.proof if isinstance(wanted.proof, DPoP) else None

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()
        for state in self._states.values():
            state.turn = None


def _asked(record: Mapping[str, Any]) -> tuple[str, ...]:
    asked = record.get("asked")
    return tuple(str(one) for one in asked) if isinstance(asked, list) else ()
