"""What statuses, codes and words of providers' errors mean: kind, and whether to try again.

Data only; ``errors`` says in which order they are looked at. Source: PI-93 and PI-94.
"""

from __future__ import annotations

__all__ = ["CODES", "PASSING", "QUOTA", "STATUSES"]

STATUSES: dict[int, tuple[str, bool]] = {
    400: ("bad_request", False),
    401: ("authentication", False),
    402: ("quota", False),
    403: ("authentication", False),
    404: ("not_found", False),
    407: ("connection_failed", False),
    408: ("timeout", True),
    409: ("server_error", True),
    410: ("not_found", False),
    413: ("context_overflow", False),
    422: ("bad_request", False),
    425: ("server_error", True),
    429: ("rate_limit", True),
    501: ("server_error", False),
    505: ("server_error", False),
}
"""Kind and whether it is worth another try; other 5xx are, other 4xx are not."""

CODES: dict[str, tuple[str, bool]] = {
    "insufficient_quota": ("quota", False),
    "insufficient_balance": ("quota", False),
    "billing_not_active": ("quota", False),
    "billing_hard_limit_reached": ("quota", False),
    "1113": ("quota", False),
    "1308": ("quota", False),
    "rate_limit_exceeded": ("rate_limit", True),
    "rate_limit_error": ("rate_limit", True),
    "rate_limit_reached_error": ("rate_limit", True),
    "too_many_requests": ("rate_limit", True),
    "resource_exhausted": ("rate_limit", True),
    "authentication_error": ("authentication", False),
    "invalid_api_key": ("authentication", False),
    "permission_error": ("authentication", False),
    "permission_denied": ("authentication", False),
    "unauthenticated": ("authentication", False),
    "context_length_exceeded": ("context_overflow", False),
    "content_filter": ("content_filter", False),
    "content_policy_violation": ("content_filter", False),
    "model_not_found": ("not_found", False),
    "not_found_error": ("not_found", False),
    "server_error": ("provider_error", True),
    "internal_server_error": ("provider_error", True),
    "internal_error": ("provider_error", True),
    "internal": ("provider_error", True),
    "api_error": ("provider_error", True),
    "overloaded_error": ("server_error", True),
    "engine_overloaded_error": ("server_error", True),
    "server_overloaded": ("server_error", True),
    "service_unavailable": ("server_error", True),
    "unavailable": ("server_error", True),
    "timeout_error": ("timeout", True),
    "deadline_exceeded": ("timeout", True),
}
"""``code``, ``type`` or ``status`` of an error object, in lower case."""

QUOTA = (
    r"exceeded your current quota|insufficient (?:quota|balance|credits?|funds)|credit balance is too low"
    r"|out of credits|not enough credits|available balance|payment required|billing hard limit"
    r"|(?:monthly|weekly|plan|subscription) (?:usage )?limit"
)

PASSING = (
    r"overloaded|rate.?limit|too many requests|temporarily unavailable|try again|retry your request"
    r"|retry delay|please retry|disconnected|connection (?:was |is )?(?:closed|lost|reset|refused|error)"
    r"|socket|timed? ?out|timeout|upstream (?:connect|provider|error)|terminated|unavailable"
    r"|internal (?:server )?error|ended (?:prematurely|without)|premature|cut short"
    r"|network (?:error|connection)|loading"
    r"|econnreset|econnrefused|epipe|etimedout|enotfound|eai_again|\b(?:429|500|502|503|504|520|524|529)\b"
)
"""Words of trouble that passes, for errors that say neither status nor a known code."""
