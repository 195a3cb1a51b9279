"""Findings about rejected rows, as records and in the form of the history. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from monitor.core.records import RejectedCell

_T = TypeVar("_T")


class Why(StrEnum):
    """The kind of a finding about one subject."""

    SHARE = "share"
    BY_SCORE = "by_score"
    BY_OUTCOME = "by_outcome"
    LABEL_UNREADABLE = "label_unreadable"
    SCALE = "scale"
    CONSTANT = "constant"


class RejectionCause(StrEnum):
    """What most of the rejected rows have in common, or which column has only one value."""

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
    """Why one subject is not judged. ``rejected`` of ``rows`` rows were rejected, most of them for ``reason``.

    ``local`` is the rejected share in the part where it is most frequent, ``p_value`` that of the test, ``part`` the
    scores (from, to) or the outcome of that part. All three are None if the share over all rows decided.
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
        """The rejected share of the rows."""
        return self.rejected / self.rows if self.rows else 0.0

    @property
    def detail(self) -> dict[str, Any]:
        """The finding as a verdict's detail."""
        found: dict[str, Any] = _codec(Rejection).dump_python(self, mode="json")
        return found


@dataclass(frozen=True, slots=True)
class Rejections:
    """The findings about one source in one window; ``everywhere`` is one about all of its subjects."""

    subjects: Mapping[str | None, Rejection] = field(default_factory=dict)
    everywhere: Rejection | None = None

    def of(self, label: str | None) -> Rejection | None:
        """Why this label (None: the source as a whole) is not judged; None if it is."""
        return self.subjects.get(label, self.everywhere)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels with a finding of their own."""
        return tuple(sorted(label for label in self.subjects if label is not None))

    @property
    def gravest(self) -> Rejection | None:
        """The finding for the source's incident: of all subjects, else its own, else that with most rejected rows."""
        most_rejected = max(self.subjects.values(), key=lambda each: each.rejected, default=None)
        return self.everywhere or self.subjects.get(None) or most_rejected


def as_json(cells: Sequence[RejectedCell], found: Rejections) -> dict[str, Any]:
    """The rejected rows and findings of a reading as plain data for the history; {} without any."""
    if not cells and found == Rejections():
        return {}
    return {
        "cells": [astuple(cell) for cell in cells],
        "subjects": [[label, each.detail] for label, each in found.subjects.items()],
        "everywhere": found.everywhere and found.everywhere.detail,
    }


def from_json(kept: Mapping[str, Any] | None) -> tuple[tuple[RejectedCell, ...], Rejections]:
    """The data of :func:`as_json`; empty for a reading without rejected rows."""
    kept = kept or {}
    subjects, everywhere = dict(kept.get("subjects", ())), kept.get("everywhere")
    found = _codec(Rejections).validate_python({"subjects": subjects, "everywhere": everywhere})
    return tuple(RejectedCell(*cell) for cell in kept.get("cells", ())), found


def from_detail(detail: Mapping[str, Any]) -> Rejection:
    """The finding that :attr:`Rejection.detail` was made from."""
    found: Rejection = _codec(Rejection).validate_python(detail)
    return found


@cache
def _codec(kind: type[_T]) -> TypeAdapter[_T]:
    return TypeAdapter(kind)
