"""Signing JSON Web Tokens with ``cryptography`` (the extra ``yiemagent[jwt]``).

Source: RFC 7515, RFC 7518 section 3, RFC 7517 section 6.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from yiemagent.errors import ConfigurationError

__all__ = ["ALGORITHMS", "base64url", "load_private_key", "new_key", "private_pem", "public_jwk", "sign_jwt"]

ALGORITHMS = ("ES256", "ES384", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
"""What ``sign_jwt`` can do."""

_CURVES = {"ES256": ("secp256r1", "P-256"), "ES384": ("secp384r1", "P-384")}


def base64url(data: bytes) -> str:
    """Base64 for URLs without padding (RFC 7515 section 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as exc:
        raise ConfigurationError(
            "signing tokens needs the package cryptography: pip install 'yiemagent[jwt]'"
        ) from exc


def load_private_key(pem: str | bytes, password: str | None = None) -> Any:
    """The private key in a PEM text.

    Raises:
        ConfigurationError: It is none, its password is wrong, or ``cryptography`` is not installed.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(
            pem.encode() if isinstance(pem, str) else pem, password.encode() if password else None
        )
    except (ValueError, TypeError) as exc:
        raise ConfigurationError(f"private_key is not a PEM private key that can be read: {exc}") from exc


def new_key() -> Any:
    """A new P-256 key, as ES256 needs one.

    Raises:
        ConfigurationError: ``cryptography`` is not installed.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: Any) -> str:
    """A private key as unencrypted PEM text."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())).decode()


def public_jwk(key: Any) -> dict[str, str]:
    """The public half of a P-256 key as a JSON Web Key, members in the order of a thumbprint."""
    numbers = key.public_key().public_numbers()
    x, y = (base64url(value.to_bytes(32, "big")) for value in (numbers.x, numbers.y))
    return {"crv": "P-256", "kty": "EC", "x": x, "y": y}


def sign_jwt(claims: Mapping[str, Any], key: Any, algorithm: str, header: Mapping[str, Any]) -> str:
    """A compact JWT.

    Args:
        claims: The payload.
        key: A private key of ``cryptography`` that fits the algorithm.
        algorithm: One of ``ALGORITHMS``.
        header: Members beside ``alg``.

    Raises:
        ConfigurationError: The algorithm is unknown or the key is of another kind.
    """
    if algorithm not in ALGORITHMS:
        raise ConfigurationError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    parts = [_encoded({"alg": algorithm, **header}), _encoded(claims)]
    try:
        signature = _sign(".".join(parts).encode(), key, algorithm)
    except (AttributeError, TypeError, ValueError) as exc:
        raise ConfigurationError(
            f"a private key of the kind {type(key).__name__} cannot sign with {algorithm}: {exc}"
        ) from exc
    return ".".join([*parts, base64url(signature)])


def _encoded(value: Mapping[str, Any]) -> str:
    return base64url(json.dumps(value, separators=(",", ":")).encode())


def _sign(data: bytes, key: Any, algorithm: str) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    if algorithm == "EdDSA":
        return bytes(key.sign(data))
    digest: Any = getattr(hashes, f"SHA{algorithm[2:]}")()
    if algorithm in _CURVES:
        if key.curve.name != _CURVES[algorithm][0]:
            raise ValueError(f"it is on the curve {key.curve.name}, not on {_CURVES[algorithm][1]}")
        size = (key.curve.key_size + 7) // 8
        r, s = decode_dss_signature(key.sign(data, ec.ECDSA(digest)))
        return bytes(r.to_bytes(size, "big") + s.to_bytes(size, "big"))
    if algorithm.startswith("PS"):
        salted = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
        return bytes(key.sign(data, salted, digest))
    return bytes(key.sign(data, padding.PKCS1v15(), digest))
