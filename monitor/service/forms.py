"""Forms of the dashboard: what a person may change from a page, and how that is kept safe.

A form that changes something carries a token in a field of its own, so a browser that is logged in changes nothing by
itself: a page of another site does not know the token. Besides, only a form from a page of this service is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from monitor.operations.annotate import NewAnnotation
from monitor.operations.change_switch import SwitchChange
from monitor.service.backend import Service
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.service.tokens import Scope

FORM_TYPE = "application/x-www-form-urlencoded"
MOST_FIELDS = 20
_R = ProblemReason


Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Form:
    """One form: its address, its fields, the scope that its token needs, what it does.

    ``send`` returns the address, relative to the root, of the page that shows the result. ``by`` is the token's name.
    """

    address: str
    fields: frozenset[str]
    scope: Callable[[Fields], Scope]
    send: Callable[[Service, Fields, str], str]


def refuse_other_site(headers: Mapping[str, str]) -> None:
    """Raise RequestRefused for a form that was not sent from a page of this service, as far as the browser says."""
    fetched, origin = headers.get("sec-fetch-site"), headers.get("origin")
    same = fetched == "same-origin" if fetched is not None else urlsplit(origin or "").netloc == headers.get("host")
    if not same:
        raise RequestRefused(_R.REQUEST_INVALID, "the form was not sent from a page of this service")


def fields_of(form: Form, content_type: str, body: bytes) -> dict[str, str]:
    """The fields as they were sent. Raises RequestRefused for a body that does not fit the form."""
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise RequestRefused(_R.REQUEST_INVALID, f"a form is sent as {FORM_TYPE}")
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise RequestRefused(_R.REQUEST_INVALID, "the form cannot be read") from None
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names) or not set(names) <= form.fields | {"token"}:
        raise RequestRefused(_R.REQUEST_INVALID, "a field of the form is unknown or is given twice")
    return dict(pairs)


def _text(fields: Fields, name: str, what: str) -> str:
    found = fields.get(name, "").strip()
    if not found:
        raise RequestRefused(_R.REQUEST_INVALID, f"{what} is needed")
    if len(found) > 1000 or not found.isprintable():
        raise RequestRefused(_R.REQUEST_INVALID, f"{what} has up to 1,000 characters and no control characters")
    return found


def _label(fields: Fields) -> str | None:
    return fields.get("label") or None


def _turn(service: Service, fields: Fields, by: str) -> str:
    source, label = fields.get("source", ""), _label(fields)
    until = service.local_time(fields["until"]) if fields.get("until") else None
    enable = _switched(fields) == "enable"
    service.change(SwitchChange(source, label, enable, by, _text(fields, "reason", "a reason"), until))
    return "automation?" + urlencode({"source": source, "label": label or ""}) + "#switch"


def _switched(fields: Fields) -> Scope:
    found = fields.get("switch")
    if found not in ("disable", "enable"):
        raise RequestRefused(_R.REQUEST_INVALID, "say whether to turn off or on")
    return "enable" if found == "enable" else "disable"


def _note(service: Service, fields: Fields, by: str) -> str:
    at = service.local_time(fields.get("at", ""))
    service.annotate(NewAnnotation(fields.get("source", ""), _label(fields), at, _text(fields, "text", "a text"), by))
    return "annotations"


FORMS: tuple[Form, ...] = (
    Form("/automation", frozenset({"source", "label", "switch", "reason", "until"}), _switched, _turn),
    Form("/annotations", frozenset({"source", "label", "at", "text"}), lambda _: "annotate", _note),
)
