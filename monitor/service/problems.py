"""The answers of the HTTP service to refused requests: one shape (RFC 9457), one named reason each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

MEDIA_TYPE = "application/problem+json"
SCHEMA_NAME = "Problem"


class ProblemReason(StrEnum):
    """Why a request was refused; each has its row in docs/http.md and is in the OpenAPI document."""

    TOKEN_MISSING = "token_missing"  # noqa: S105 - a reason, not a token
    TOKEN_UNKNOWN = "token_unknown"  # noqa: S105 - a reason, not a token
    SCOPE_MISSING = "scope_missing"
    NO_TOKENS = "no_tokens"
    NOT_LOCAL = "not_local"
    TOKENS_UNREADABLE = "tokens_unreadable"
    PATH_INVALID = "path_invalid"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNKNOWN_SOURCE = "unknown_source"
    UNKNOWN_LABEL = "unknown_label"
    UNKNOWN_WEEK = "unknown_week"
    BODY_TOO_SLOW = "body_too_slow"
    BODY_TOO_LARGE = "body_too_large"
    NOT_JSON = "not_json"
    REQUEST_INVALID = "request_invalid"
    UNTIL_PAST = "until_past"
    KEY_REUSED = "idempotency_key_reused"
    INTERNAL_ERROR = "internal_error"
    STORE_UNREADABLE = "store_unreadable"
    CONFIG_UNREADABLE = "config_unreadable"
    TOO_BUSY = "too_busy"


_R = ProblemReason
#: Reason -> (status, title). The title never changes from one occurrence to the next.
PROBLEMS: Mapping[ProblemReason, tuple[int, str]] = {
    _R.TOKEN_MISSING: (401, "A token is needed"),
    _R.TOKEN_UNKNOWN: (401, "The token is not known"),
    _R.SCOPE_MISSING: (403, "The token has not the scope for this"),
    _R.NO_TOKENS: (403, "Nothing can be changed: the service has no tokens file"),
    _R.NOT_LOCAL: (403, "Without tokens, the service can be read from its own machine only"),
    _R.TOKENS_UNREADABLE: (503, "The tokens file cannot be used"),
    _R.PATH_INVALID: (400, "The path is no text"),
    _R.NOT_FOUND: (404, "There is nothing at this address"),
    _R.METHOD_NOT_ALLOWED: (405, "This address has no such method"),
    _R.UNKNOWN_SOURCE: (404, "No such source is known"),
    _R.UNKNOWN_LABEL: (404, "No such label is known"),
    _R.UNKNOWN_WEEK: (404, "That week has not been evaluated"),
    _R.BODY_TOO_SLOW: (408, "The body did not arrive in time"),
    _R.BODY_TOO_LARGE: (413, "The body is too large"),
    _R.NOT_JSON: (415, "The body must be JSON"),
    _R.REQUEST_INVALID: (422, "The request is not as it must be"),
    _R.UNTIL_PAST: (422, "The time until which the change holds is over"),
    _R.KEY_REUSED: (422, "The idempotency key belongs to another request"),
    _R.INTERNAL_ERROR: (500, "The service failed"),
    _R.STORE_UNREADABLE: (503, "The history cannot be read"),
    _R.CONFIG_UNREADABLE: (503, "alerts.yaml cannot be used"),
    _R.TOO_BUSY: (503, "Too many requests at once"),
}

DETAILS: Mapping[ProblemReason, str] = {
    _R.TOKEN_MISSING: "send Authorization: Bearer TOKEN",
    _R.TOKEN_UNKNOWN: "the tokens file has no entry for this token",
    _R.NO_TOKENS: "set CALMON_API_TOKENS_FILE and start the service again",
    _R.NOT_LOCAL: "ask http://127.0.0.1:PORT, or give the service a tokens file",
    _R.TOKENS_UNREADABLE: "the log of the service says which line is wrong; until it is fixed, everything is refused",
    _R.PATH_INVALID: "write the path in UTF-8, percent-encoded, without control characters",
    _R.UNKNOWN_SOURCE: "neither alerts.yaml nor the history knows it",
    _R.UNKNOWN_LABEL: "neither alerts.yaml nor the history knows it; it is off, and `calmon automation` can set it",
    _R.NOT_JSON: "send Content-Type: application/json",
    _R.KEY_REUSED: "a key is for one request and its repetitions; take a new one",
    _R.INTERNAL_ERROR: "the log of the service says more",
    _R.STORE_UNREADABLE: "take it for a no, and ask again; the log of the service says more",
    _R.CONFIG_UNREADABLE: "turning off still works; fix alerts.yaml (`calmon check`) to turn on",
    _R.TOO_BUSY: "ask again in a second",
}

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
        self.reason = reason
        self.detail = detail or DETAILS.get(reason, "")
        self.headers = {"Cache-Control": "no-store", **(headers or {})}

    @property
    def status(self) -> int:
        """The HTTP status of the reason."""
        return PROBLEMS[self.reason][0]

    def body(self, docs: str | None) -> dict[str, Any]:
        """The problem as JSON; ``docs`` is the address of docs/http.md, if there is one.

        >>> RequestRefused(ProblemReason.UNKNOWN_SOURCE).body(None)["title"]
        'No such source is known'
        """
        address = f"{docs}#{self.reason.value}" if docs else "about:blank"
        problem = {"type": address, "title": PROBLEMS[self.reason][1], "status": self.status}
        return problem | {"detail": self.detail, "reason": self.reason.value}


def documented(reasons: Iterable[ProblemReason]) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an OpenAPI operation that may refuse for these reasons."""
    by_status: dict[int, list[ProblemReason]] = {}
    for reason in reasons:
        by_status.setdefault(PROBLEMS[reason][0], []).append(reason)
    return {
        status: {
            "description": "; ".join(f"`{reason.value}`: {PROBLEMS[reason][1]}" for reason in found),
            "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{SCHEMA_NAME}"}}},
        }
        for status, found in sorted(by_status.items())
    }
