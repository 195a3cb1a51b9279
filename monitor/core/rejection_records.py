"""What was found of rejected rows, as records and as the history keeps it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from monitor.core.records import RejectedCell


class Why(StrEnum):
    """What was found of one subject."""

    SHARE = "share"
    BY_SCORE = "by_score"
    BY_OUTCOME = "by_outcome"
    LABEL_UNREADABLE = "label_unreadable"
    SCALE = "scale"
    CONSTANT = "constant"


class RejectionCause(StrEnum):
    """What most of the rejected rows have in common, or which column holds one value only."""

    SCORE_IN_PERCENT = "score_in_percent"
    TRUTH_MINUS_ONE = "truth_minus_one"
    TRUTH_MISSING = "truth_missing"
    SCORE_MISSING = "score_missing"
    LABEL_MISSING = "label_missing"
    ITEM_CONSTANT = "item_constant"
    SCORE_CONSTANT = "score_constant"
    TRUTH_CONSTANT = "truth_constant"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one subject is not judged. ``rejected`` of ``rows`` rows were set aside, most of them for ``reason``.

    ``local`` is the share in the part where rejection is most frequent, ``p_value`` that of the test, ``part`` the
    scores (from, to) of that part or the outcome; all None where the share over all rows decided.
    """

    why: Why
    cause: RejectionCause
    rejected: int
    rows: int
    reason: str | None = None
    local: float | None = None
    p_value: float | None = None
    part: tuple[float, float] | None = None

    @property
    def share(self) -> float:
        """The share of the rows that was rejected."""
        return self.rejected / self.rows if self.rows else 0.0

    @property
    def detail(self) -> dict[str, Any]:
        """What a verdict keeps of it."""
        part = None if self.part is None else list(self.part)
        found = {"why": self.why.value, "cause": self.cause.value, "reason": self.reason, "rejected": self.rejected}
        return found | {"rows": self.rows, "local": self.local, "p_value": self.p_value, "part": part}


@dataclass(frozen=True, slots=True)
class Rejections:
    """What was found of one source in one window; ``everywhere`` holds for each of its subjects."""

    subjects: Mapping[str | None, Rejection] = field(default_factory=dict)
    everywhere: Rejection | None = None

    def of(self, label: str | None) -> Rejection | None:
        """Why this label (None: the source as a whole) is not judged, or None."""
        return self.subjects.get(label, self.everywhere)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels with a finding of their own."""
        return tuple(sorted(label for label in self.subjects if label is not None))

    @property
    def gravest(self) -> Rejection | None:
        """What the source's incident says: what concerns all of it, else its own finding, else the label with most."""
        own = max(self.subjects.values(), key=lambda each: each.rejected, default=None)
        return self.everywhere or self.subjects.get(None) or own


def as_json(cells: Sequence[RejectedCell], found: Rejections) -> dict[str, Any]:
    """What the history keeps of the rejected rows of a reading; {} of none."""
    if not cells and found == Rejections():
        return {}
    everywhere = found.everywhere.detail if found.everywhere else None
    return {
        "cells": [[c.label, c.reason, c.place, c.truth, c.rows, c.hits] for c in cells],
        "subjects": [[label, each.detail] for label, each in found.subjects.items()],
        "everywhere": everywhere,
    }


def from_json(kept: Mapping[str, Any] | None) -> tuple[tuple[RejectedCell, ...], Rejections]:
    """What :func:`as_json` made; nothing of readings from before rejected rows were kept."""
    kept = kept or {}
    cells = tuple(RejectedCell(*cell) for cell in kept.get("cells", ()))
    subjects = {label: from_detail(detail) for label, detail in kept.get("subjects", ())}
    everywhere = kept.get("everywhere")
    return cells, Rejections(subjects, from_detail(everywhere) if everywhere else None)


def from_detail(detail: Mapping[str, Any]) -> Rejection:
    """What :attr:`Rejection.detail` was made of."""
    part = detail["part"]
    return Rejection(
        Why(detail["why"]), RejectionCause(detail["cause"]), detail["rejected"], detail["rows"], detail["reason"],
        detail["local"], detail["p_value"], None if part is None else (part[0], part[1]),
    )  # fmt: skip
