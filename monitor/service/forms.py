"""The form of the dashboard: turning automation off or on from its page, and how that is kept safe.

The form carries a token in a field of its own, so a browser that is logged in changes nothing by
itself: a page of another site does not know the token. Besides, only a form from a page of this service is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from monitor.operations.change_switch import SwitchChange
from monitor.service.backend import Service
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.service.tokens import Scope

FORM_TYPE = "application/x-www-form-urlencoded"
FIELDS = frozenset({"source", "label", "switch", "reason", "until", "token"})
MOST_FIELDS, LONGEST = 20, 1_000
_R = ProblemReason


Fields = Mapping[str, str]


def refuse_other_site(headers: Mapping[str, str]) -> None:
    """Raise RequestRefused for a form that was not sent from a page of this service, as far as the browser says."""
    fetched, origin = headers.get("sec-fetch-site"), headers.get("origin")
    same = fetched == "same-origin" if fetched is not None else urlsplit(origin or "").netloc == headers.get("host")
    if not same:
        raise RequestRefused(_R.REQUEST_INVALID, "the form was not sent from a page of this service")


def fields_of(content_type: str, body: bytes) -> dict[str, str]:
    """The fields as they were sent. Raises RequestRefused for a body that does not fit the form."""
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise RequestRefused(_R.REQUEST_INVALID, f"a form is sent as {FORM_TYPE}")
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise RequestRefused(_R.REQUEST_INVALID, "the form cannot be read") from None
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names) or not set(names) <= FIELDS:
        raise RequestRefused(_R.REQUEST_INVALID, "a field of the form is unknown or is given twice")
    return dict(pairs)


def scope_of(fields: Fields) -> Scope:
    """The scope that its token needs: off needs another one than on. Raises RequestRefused."""
    found = fields.get("switch")
    if found not in ("disable", "enable"):
        raise RequestRefused(_R.REQUEST_INVALID, "say whether to turn off or on")
    return "enable" if found == "enable" else "disable"


def turn(service: Service, fields: Fields, by: str) -> str:
    """Turn automation off or on; returns the address, relative to the root, of the page that shows it.

    ``by`` is the token's name. Raises RequestRefused.
    """
    source, label, reason = fields.get("source", ""), fields.get("label", ""), fields.get("reason", "").strip()
    if not reason or len(reason) > LONGEST or not reason.isprintable():
        raise RequestRefused(_R.REQUEST_INVALID, f"a reason of up to {LONGEST:,} characters is needed, in one line")
    until = service.local_time(fields["until"]) if fields.get("until") else None
    service.change(SwitchChange(source, label or None, scope_of(fields) == "enable", by, reason, until))
    return "automation?" + urlencode({"source": source, "label": label}) + "#switch"
