"""The JSON of the HTTP service: what is sent to it, and what it answers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from monitor.core.records import LABEL_BYTES
from monitor.core.windows import FIRST_YEAR, LAST_YEAR
from monitor.operations.annotate import LONGEST
from monitor.service.problems import ProblemReason

_WHEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII)
_NO_CONTROL = r"\u0000-\u001F\u007F-\u009F"
_WORDS = rf"^[^{_NO_CONTROL}]*[^\s{_NO_CONTROL}][^{_NO_CONTROL}]*$"
PLAIN = rf"^[^{_NO_CONTROL}]*$"
"""The pattern of a text without control characters."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Score = Annotated[float, Field(ge=0, le=1)]
Blocked = Annotated[list[Annotated[list[Score], Field(min_length=2, max_length=2)]], Field(description="(low, high)")]


class SegmentBody(_Body):
    """A part of a label's items: those with this value in this column."""

    column: str
    value: str


class SegmentSwitchBody(SegmentBody):
    """A segment that automation is off for, from a moment on that may lie ahead."""

    off_from: AwareDatetime


class SwitchBody(_Body):
    """One switch as it is stored; `label` null is the source's own.

    With `segments` that are off, `blocked` holds every score, for readers that know no segments, and
    `blocked_scores` what is blocked.
    """

    source: str
    label: str | None
    state: Literal["never_set", "off", "on"]
    blocked: Blocked
    lease_until: AwareDatetime | None
    by: str
    reason: str
    verdict: str | None
    changed_at: AwareDatetime | None
    version: int
    blocked_scores: Blocked | None = None
    segments: list[SegmentSwitchBody] | None = None


class ThresholdBody(_Body):
    """The score from which a label may act alone; `label` null is for labels without their own."""

    source: str
    label: str | None
    score: Score


class MarkBody(_Body):
    """The version of the history: operators raise `epoch`, changes raise `version`. A lower one means an old copy."""

    history: str
    epoch: int
    version: int


class BoardBody(_Body):
    """Every switch and threshold at one moment; `request` repeats what the client sent."""

    at: AwareDatetime
    request: str | None
    history: MarkBody | None
    newest_at: AwareDatetime | None
    closed: Literal["history_restored", "history_went_back"] | None
    switches: list[SwitchBody]
    automate_at: list[ThresholdBody]


_OfSwitch = Literal["on", "never_set", "off", "source_off", "no_lease", "lease_ended"]
_OfScore = Literal["below_automate_at", "score_blocked", "no_threshold", "segment_off", "segment_missing"]
_OfHistory = Literal["history_restored", "history_went_back", "clock_behind"]


class DecisionBody(_Body):
    """Whether automation may act on one item; without a score, the state of the switch (`allowed` is null)."""

    source: str
    label: str
    score: Score | None
    allowed: bool | None
    reason: Literal[_OfSwitch, _OfScore, _OfHistory]
    detail: str
    until: AwareDatetime | None
    threshold: Score | None
    blocked: Blocked
    segments_off: list[SegmentBody]
    at: AwareDatetime


class ChangedBody(_Body):
    """A stored change: the same for a request and all its repetitions."""

    source: str
    label: str | None
    state: Literal["off", "on"]
    by: str
    reason: str
    at: AwareDatetime
    until: AwareDatetime | None
    lease_until: AwareDatetime | None


class HealthBody(_Body):
    """The process is running. It does not check whether the history can be read."""

    status: Literal["ok"]


class ProblemBody(_Body):
    """An error (RFC 9457), with the reason by its name."""

    type: str
    title: str
    status: int
    detail: str
    reason: ProblemReason


class AnnotationBody(_Body):
    """What somebody noted at a time; `label` null is for all labels of the source."""

    id: str
    source: str
    label: str | None
    at: AwareDatetime
    text: str
    by: str
    added_at: AwareDatetime
    removed_at: AwareDatetime | None
    removed_by: str | None
    removed_reason: str | None


class AnnotationsBody(_Body):
    """The annotations that were asked for, by time."""

    annotations: list[AnnotationBody]


def _moment(value: Any) -> datetime:
    if not isinstance(value, str) or not _WHEN.fullmatch(value):
        raise ValueError("write a time with its zone, like 2026-11-22T18:00:00Z")
    found = datetime.fromisoformat(value.upper())
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise ValueError(f"that time is out of range: the years are {FIRST_YEAR} to {LAST_YEAR}")
    return found.astimezone(UTC)


_DATE_TIME = WithJsonSchema({"type": "string", "format": "date-time"})
_Until = Annotated[datetime, BeforeValidator(_moment), _DATE_TIME]


class ChangeBody(_Body):
    """Why, and until when it holds against runs."""

    reason: Annotated[str, Field(min_length=1, max_length=1000, pattern=_WORDS, examples=["model is being replaced"])]
    until: _Until | None = None


class NewAnnotationBody(_Body):
    """What happened, when, to which source or label (null: all labels of the source)."""

    source: Annotated[str, Field(min_length=1, pattern=PLAIN, examples=["tickets"])]
    label: Annotated[str, Field(min_length=1, max_length=LABEL_BYTES, pattern=PLAIN)] | None = None
    at: _Until
    text: Annotated[str, Field(min_length=1, max_length=LONGEST, pattern=_WORDS, examples=["prompt v7"])]


class RemovalBody(_Body):
    """Why an annotation is removed; it stays stored with the reason and the name of the token."""

    reason: Annotated[str, Field(min_length=1, max_length=LONGEST, pattern=_WORDS, examples=["wrong week"])]
