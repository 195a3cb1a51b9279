"""The answers of the HTTP service to refused requests: one shape (RFC 9457), one named reason each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Self

MEDIA_TYPE = "application/problem+json"
SCHEMA_NAME = "Problem"


class ProblemReason(StrEnum):
    """Why a request was refused; each has its row in docs/http.md and is in the OpenAPI document."""

    status: int
    heading: str  # never changes from one occurrence to the next
    detail: str  # what is said where there is nothing special to say

    def __new__(cls, value: str, status: int = 500, heading: str = "", detail: str = "") -> Self:
        """The reason by its name, with the HTTP status of its answers and its words."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.status, made.heading, made.detail = status, heading, detail
        return made

    TOKEN_MISSING = (
        "token_missing", 401, "A token is needed",
        "send Authorization: Bearer TOKEN",
    )  # fmt: skip
    TOKEN_UNKNOWN = (
        "token_unknown", 401, "The token is not known",
        "the tokens file has no entry for this token",
    )  # fmt: skip
    SCOPE_MISSING = "scope_missing", 403, "The token has not the scope for this"
    NO_TOKENS = (
        "no_tokens", 403, "Nothing can be changed: the service has no tokens file",
        "set CALMON_API_TOKENS_FILE and start the service again",
    )  # fmt: skip
    NOT_LOCAL = (
        "not_local", 403, "Without tokens, the service can be read from its own machine only",
        "ask http://127.0.0.1:PORT, or give the service a tokens file",
    )  # fmt: skip
    TOKENS_UNREADABLE = (
        "tokens_unreadable", 503, "The tokens file cannot be used",
        "the log of the service says which line is wrong; until it is fixed, everything is refused",
    )  # fmt: skip
    PATH_INVALID = (
        "path_invalid", 400, "The path is no text",
        "write the path in UTF-8, percent-encoded, without control characters",
    )  # fmt: skip
    NOT_FOUND = "not_found", 404, "There is nothing at this address"
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "This address has no such method"
    UNKNOWN_SOURCE = "unknown_source", 404, "No such source is known", "neither alerts.yaml nor the history knows it"
    UNKNOWN_LABEL = (
        "unknown_label", 404, "No such label is known",
        "neither alerts.yaml nor the history knows it; it is off, and `calmon automation` can set it",
    )  # fmt: skip
    UNKNOWN_WEEK = "unknown_week", 404, "That week has not been evaluated"
    BODY_TOO_SLOW = "body_too_slow", 408, "The body did not arrive in time"
    BODY_TOO_LARGE = "body_too_large", 413, "The body is too large"
    NOT_JSON = "not_json", 415, "The body must be JSON", "send Content-Type: application/json"
    REQUEST_INVALID = "request_invalid", 422, "The request is not as it must be"
    UNTIL_PAST = "until_past", 422, "The time until which the change holds is over"
    KEY_REUSED = (
        "idempotency_key_reused", 422, "The idempotency key belongs to another request",
        "a key is for one request and its repetitions; take a new one",
    )  # fmt: skip
    INTERNAL_ERROR = "internal_error", 500, "The service failed", "the log of the service says more"
    STORE_UNREADABLE = (
        "store_unreadable", 503, "The history cannot be read",
        "take it for a no, and ask again; the log of the service says more",
    )  # fmt: skip
    CONFIG_UNREADABLE = (
        "config_unreadable", 503, "alerts.yaml cannot be used",
        "turning off still works; fix alerts.yaml (`calmon check`) to turn on",
    )  # fmt: skip
    TOO_BUSY = "too_busy", 503, "Too many requests at once", "ask again in a second"


_R = ProblemReason

# The reasons by which an address may refuse; an address lists its group in the OpenAPI document.
_SENT = (_R.PATH_INVALID, _R.METHOD_NOT_ALLOWED, _R.BODY_TOO_SLOW, _R.BODY_TOO_LARGE)
ALWAYS = (*_SENT, _R.INTERNAL_ERROR, _R.TOO_BUSY)
_MAY = (_R.TOKEN_MISSING, _R.TOKEN_UNKNOWN, _R.SCOPE_MISSING, _R.NOT_LOCAL, _R.TOKENS_UNREADABLE)
ON_PAGES = (*_MAY, *_SENT, _R.REQUEST_INVALID, _R.INTERNAL_ERROR, _R.STORE_UNREADABLE, _R.TOO_BUSY)
ON_QUESTIONS = (*ON_PAGES, _R.NOT_FOUND, _R.UNKNOWN_SOURCE)
_REFUSED = (_R.NO_TOKENS, _R.UNKNOWN_LABEL, _R.NOT_JSON, _R.UNTIL_PAST, _R.KEY_REUSED, _R.CONFIG_UNREADABLE)
ON_CHANGES = (*(r for r in ON_QUESTIONS if r is not _R.NOT_LOCAL), *_REFUSED)
ON_NOTES = tuple(r for r in ON_CHANGES if r not in (_R.UNTIL_PAST, _R.CONFIG_UNREADABLE))


class RequestRefused(Exception):
    """A refused request; ``detail`` is about this request, and never repeats a secret."""

    def __init__(self, reason: ProblemReason, detail: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason.value)
        self.reason, self.status = reason, reason.status
        self.detail = detail or reason.detail
        self.headers = {"Cache-Control": "no-store", **(headers or {})}

    def body(self, docs: str | None) -> dict[str, Any]:
        """The problem as JSON; ``docs`` is the address of docs/http.md, if there is one.

        >>> RequestRefused(ProblemReason.UNKNOWN_SOURCE).body(None)["title"]
        'No such source is known'
        """
        address = f"{docs}#{self.reason.value}" if docs else "about:blank"
        problem = {"type": address, "title": self.reason.heading, "status": self.status}
        return problem | {"detail": self.detail, "reason": self.reason.value}


def documented(reasons: Iterable[ProblemReason]) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an OpenAPI operation that may refuse for these reasons."""
    by_status: dict[int, list[ProblemReason]] = {}
    for reason in reasons:
        by_status.setdefault(reason.status, []).append(reason)
    return {
        status: {
            "description": "; ".join(f"`{reason.value}`: {reason.heading}" for reason in found),
            "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{SCHEMA_NAME}"}}},
        }
        for status, found in sorted(by_status.items())
    }
