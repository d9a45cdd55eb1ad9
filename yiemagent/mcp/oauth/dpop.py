"""Tokens that only the holder of a key can use: DPoP (the extra ``yiemagent[jwt]``).

Source: RFC 9449 sections 4 to 9, RFC 7638.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from yiemagent.mcp.oauth.jwt import base64url, load_private_key, new_key, private_pem, public_jwk, sign_jwt
from yiemagent.mcp.origin import origin_of

__all__ = ["DPoP"]


class DPoP:
    """Proofs that we hold a key; one for each request. Any thread.

    Args:
        pem: The private key (P-256) as PEM text; None makes a new one.
        clock: Unix time.

    Raises:
        ConfigurationError: ``cryptography`` is not installed, or the key cannot be read.
    """

    def __init__(self, pem: str | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._key: Any = new_key() if pem is None else load_private_key(pem)
        self._jwk = public_jwk(self._key)
        self._clock = clock
        # Guards _nonces.
        self._lock = threading.Lock()
        self._nonces: dict[str, str] = {}

    @property
    def pem(self) -> str:
        """The private key, for a token store."""
        return private_pem(self._key)

    def headers(self, method: str, url: str, access_token: str | None = None) -> dict[str, str]:
        """The proof for one request; with the token, for a request to the MCP server."""
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(24),
            "htm": method,
            "htu": urlunsplit((*urlsplit(url)[:3], "", "")),
            "iat": int(self._clock()),
        }
        with self._lock:
            nonce = self._nonces.get(origin_of(url))
        if nonce is not None:
            claims["nonce"] = nonce
        if access_token is not None:
            claims["ath"] = base64url(hashlib.sha256(access_token.encode()).digest())
        return {"DPoP": sign_jwt(claims, self._key, "ES256", {"typ": "dpop+jwt", "jwk": self._jwk})}

    def learn(self, url: str, answer_headers: Mapping[str, str]) -> bool:
        """Keep the nonce that the server of *url* wants from now on; whether it is a new one."""
        nonce = answer_headers.get("dpop-nonce")
        if not nonce:
            return False
        with self._lock:
            known = self._nonces.get(origin_of(url))
            self._nonces[origin_of(url)] = nonce
        return nonce != known
