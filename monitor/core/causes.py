"""The likely causes of a change of calibration, as they are stored with a verdict and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from monitor.core.counts_by_segment import Segment

CauseKind = Literal["rate", "mix", "replaced"]


@dataclass(frozen=True, slots=True)
class ChangePart:
    """A part of a change, in units of the metric, with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Split:
    """The change, split by the values of one segment column: ``mix`` and ``rate`` add up to it exactly.

    ``mix`` is the change that the present traffic alone would bring, at the baseline's calibration of each value;
    ``rate`` is the rest, from changed calibration of the values. ``of`` is the value whose share of traffic adds most
    to mix.
    """

    column: str
    mix: ChangePart
    rate: ChangePart
    of: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One named cause of a change.

    ``kind``: *rate*, the calibration of ``segment`` changed more than that of other rows; *mix*, its share of the
    traffic changed; *replaced*, all rows have a value that the baseline does not have. ``share`` is the explained share
    of the change, ``part`` the same in units of the metric. ``own`` and ``elsewhere`` are the changes of the metric in
    the segment and in the other rows, ``traffic`` is the segment's share of the rows in the baseline and now.
    ``arrived`` is the window in which a replacing value came ("": not known).
    """

    kind: CauseKind
    segment: Segment
    share: float
    part: ChangePart
    p_adjusted: float
    rows: int
    own: float
    elsewhere: float
    traffic: tuple[float, float]
    began: Began | None = None
    arrived: str = ""


@dataclass(frozen=True, slots=True)
class Began:
    """The window in which a change began: the most likely one, and the first and last that the data allow.

    ``events`` are other events from ``low`` to ``high``, such as new model versions and pinned baselines.
    ``gradual``: it grew over several windows, since a change all at once does not fit. Where both fit, ``low`` and
    ``high`` are of a change all at once, and ``earliest`` is the first window that a growing one allows ("": ``low``).
    """

    window: str
    low: str
    high: str
    events: tuple[str, ...] = ()
    gradual: bool = False
    earliest: str = ""


@dataclass(frozen=True, slots=True)
class Causes:
    """The change of one metric of a label against its baseline, its splits, and at most three causes."""

    metric: Literal["overconfidence", "ece"]
    change: ChangePart
    splits: tuple[Split, ...] = ()
    causes: tuple[Cause, ...] = ()
    began: Began | None = None
    columns: tuple[str, ...] = field(default=())


def as_json(found: Causes) -> dict[str, Any]:
    """The causes as plain data for a verdict's detail; :func:`from_json` reads them back."""
    return {
        "metric": found.metric,
        "change": _part(found.change),
        "columns": list(found.columns),
        "splits": [{"column": s.column, "mix": _part(s.mix), "rate": _part(s.rate), "of": s.of} for s in found.splits],
        "causes": [_cause(each) for each in found.causes],
        "began": _began(found.began),
    }


def from_json(stored: Mapping[str, Any]) -> Causes:
    """The causes that :func:`as_json` wrote."""
    splits = (Split(s["column"], ChangePart(*s["mix"]), ChangePart(*s["rate"]), s["of"]) for s in stored["splits"])
    causes = (
        Cause(
            c["kind"], tuple((column, value) for column, value in c["segment"]), c["share"], ChangePart(*c["part"]),
            c["p_adjusted"], c["rows"], c["own"], c["elsewhere"], (c["traffic"][0], c["traffic"][1]),
            _began_of(c["began"]), c["arrived"],
        )
        for c in stored["causes"]
    )  # fmt: skip
    began, columns = _began_of(stored["began"]), tuple(stored["columns"])
    return Causes(stored["metric"], ChangePart(*stored["change"]), tuple(splits), tuple(causes), began, columns)


def _part(part: ChangePart) -> Sequence[float]:
    return [part.value, part.low, part.high]


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind, "segment": [list(pair) for pair in cause.segment], "share": cause.share,
        "part": _part(cause.part), "p_adjusted": cause.p_adjusted, "rows": cause.rows, "own": cause.own,
        "elsewhere": cause.elsewhere, "traffic": list(cause.traffic), "began": _began(cause.began),
        "arrived": cause.arrived,
    }  # fmt: skip


def _began(began: Began | None) -> dict[str, Any] | None:
    if began is None:
        return None
    span = {"window": began.window, "low": began.low, "high": began.high, "events": list(began.events)}
    return {**span, "gradual": began.gradual, "earliest": began.earliest}


def _began_of(stored: Mapping[str, Any] | None) -> Began | None:
    if stored is None:
        return None
    return Began(**{**stored, "events": tuple(stored["events"])})
