"""Whether rejected rows may have biased the remaining ones. Pure.

If a feed loses the wrong answers, the rest looks perfect. So a subject is not judged if more than ``max_rejected`` of
its rows were rejected, if rejection depends on the score or the outcome, or if a column has only one value.
docs/bad-rows.md has the formulas and the levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded at first use, and most commands never use them

from monitor.core.baseline import Baseline, Baselines
from monitor.core.counts import CELLS, Counts
from monitor.core.records import RejectedCell, RejectReason, ScorePlace
from monitor.core.rejection_records import Rejection, RejectionCause, Rejections, Why

FEWEST = 3
"""With fewer rejected rows nothing is concluded from a share or a test."""
LEVEL = 1e-4
"""The level of the tests of dependence on score and outcome, over all tables of all labels of a reading."""
CONSTANT_ROWS = 50
"""With fewer independent rows nothing is concluded from a column with one value."""
CONSTANT_CHANCE = 1e-6
"""A column with one value is called constant if the chance of that is at most this (over all labels)."""
OVERCONFIDENCE_ALLOWED = 10
"""Without a baseline: by which factor scores may overstate the rate of an outcome that never occurs."""

NEARLY_ALL = 0.9
"""Of so many rows scores must be above 1 to be percentages, unless the others are below 1% by their truths."""

NOT_REJECTED = frozenset({RejectReason.DUPLICATE.value})
"""Reasons that lose no evidence: the latest of duplicates is kept. All other reasons count as rejected, NULL truths
too. Rows without a valid date belong to no window, and so to no :class:`RejectedCell`."""


_OF_REASON = {
    RejectReason.OUTCOME_MISSING.value: RejectionCause.TRUTH_MISSING,
    RejectReason.SCORE_MISSING.value: RejectionCause.SCORE_MISSING,
    RejectReason.LABEL_MISSING.value: RejectionCause.LABEL_MISSING,
}


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """The parts of a reading to check: rejected rows, kept counts (None: the source), kept rows, duplicates.

    ``labelled`` is False for a source of numbers, which is judged as a whole only.
    """

    cells: Sequence[RejectedCell]
    labels: Mapping[str | None, Counts]
    rows: int
    repeated: int = 0
    labelled: bool = True


def rejections(read: Read, baselines: Baselines, most: float) -> Rejections:
    """Why subjects of one source in one window are not judged, if so; ``most`` is ``max_rejected``."""
    read = replace(read, cells=[cell for cell in read.cells if cell.reason not in NOT_REJECTED])
    by_label: dict[str | None, list[RejectedCell]] = {}
    for cell in read.cells if read.labelled else ():
        by_label.setdefault(cell.label, []).append(cell)
    nameless = by_label.pop(None, [])
    subjects: dict[str | None, Rejection] = {}
    for label, cells in by_label.items():
        found = _of_subject(cells, read.labels.get(label), 0, most, len(by_label) + 1)
        if found is not None:
            subjects[label] = found
    whole = _of_subject(read.cells, read.labels.get(None), read.rows, most, len(by_label) + 1)
    if whole is not None:
        subjects[None] = whole
    constant = _constant_column(read, baselines.get(None))
    left = {label: counts for label, counts in read.labels.items() if label is not None and label not in subjects}
    subjects |= {} if constant else _constant_labels(left, baselines)
    return Rejections(subjects, constant or _everywhere(whole, nameless, read, most))


def _everywhere(whole: Rejection | None, nameless: Sequence[RejectedCell], read: Read, most: float) -> Rejection | None:
    """Reasons that concern all labels: labels that cannot be read, and scores on another scale."""
    lost, total = _rows(nameless), _rows(read.cells) + read.rows
    if lost >= FEWEST and lost > most * total:
        return Rejection(Why.LABEL_UNREADABLE, cause_of(nameless), lost, total, _reason(nameless))
    if whole is not None and whole.cause is RejectionCause.SCORE_IN_PERCENT:
        return Rejection(Why.SCALE, whole.cause, whole.rejected, whole.rows, whole.reason)
    return None


def _of_subject(
    cells: Sequence[RejectedCell], counts: Counts | None, kept: int, most: float, subjects: int
) -> Rejection | None:
    lost = _rows(cells)
    kept = counts.rows if counts is not None else kept
    if lost < FEWEST:
        return None
    if lost > most * (lost + kept):
        return Rejection(Why.SHARE, cause_of(cells, counts), lost, lost + kept, _reason(cells))
    return _dependent(cells, counts, most, LEVEL / subjects) if counts is not None else None


# --- dependence on score and outcome


def _dependent(cells: Sequence[RejectedCell], counts: Counts, most: float, level: float) -> Rejection | None:
    """Rejection that is significantly more frequent than ``most`` in a range of scores or with one outcome."""
    lost = _rows(cells)
    for why, tables in ((Why.BY_SCORE, _by_score(cells, counts)), (Why.BY_OUTCOME, _by_outcome(cells, counts))):
        found = _worst(tables, most, level)
        if found is not None:
            part, local, p_value = found
            reason, cause = _reason(cells), cause_of(cells, counts)
            return Rejection(why, cause, lost, lost + counts.rows, reason, local, p_value, part)
    return None


@dataclass(frozen=True, slots=True)
class _Table:
    """The rejected and the kept rows, in a part and in total."""

    part: tuple[float, float]
    rejected: int
    kept: int
    all_rejected: int
    all_kept: int


def _worst(tables: Sequence[_Table], most: float, level: float) -> tuple[tuple[float, float], float, float] | None:
    """The significant part with the smallest p-value, as (part, share, p); None if no part is significant."""
    found = []
    for table in tables:
        rows = table.rejected + table.kept
        if table.rejected >= FEWEST and table.rejected > most * rows:
            p = float(
                scipy.stats.hypergeom.sf(
                    table.rejected - 1, table.all_rejected + table.all_kept, table.all_rejected, rows
                )
            )
            found.append((p, table.part[1] - table.part[0], table.part, table.rejected / rows))
    best = min(found, default=None)  # for equal p-values the narrowest part
    if best is None or best[0] >= level / max(1, len(tables)):
        return None
    p_value, _, part, local = best
    return part, local, p_value


def _by_score(cells: Sequence[RejectedCell], counts: Counts) -> list[_Table]:
    """A table for each tenth of the scores, and for all scores from each tenth on, where scores can be read."""
    effect = counts.design_effect
    lost, kept = np.zeros(10, dtype=np.int64), np.zeros(10, dtype=np.int64)
    for cell in cells:
        if cell.place is not None and cell.place < len(lost):
            lost[cell.place] += cell.rows
    np.add.at(kept, np.minimum(counts.cell * 10 // CELLS, 9), counts.n)
    lost, kept = (np.floor(rows / effect).astype(np.int64) for rows in (lost, kept))
    parts = [(k, k + 1) for k in range(10)] + [(k, 10) for k in range(1, 9)]
    return [
        _Table((a / 10, b / 10), int(lost[a:b].sum()), int(kept[a:b].sum()), int(lost.sum()), int(kept.sum()))
        for a, b in parts
    ]


def _by_outcome(cells: Sequence[RejectedCell], counts: Counts) -> list[_Table]:
    """The tables for hits and for misses, of rejected rows whose outcome can be read."""
    known = [cell for cell in cells if cell.truth == 1]
    hits, rows = sum(cell.hits for cell in known), sum(cell.rows for cell in known)
    kept_hits = float((counts.rate * counts.n).sum())
    pairs = ((0.0, rows - hits, counts.rows - kept_hits), (1.0, hits, kept_hits))
    whole = [(y, int(lost / counts.design_effect), int(kept / counts.design_effect)) for y, lost, kept in pairs]
    all_lost, all_kept = sum(lost for _, lost, _ in whole), sum(kept for _, _, kept in whole)
    return [_Table((y, y), lost, kept, all_lost, all_kept) for y, lost, kept in whole]


# --- columns of one value


def _constant_column(read: Read, baseline: Baseline | None) -> Rejection | None:
    """The item, score or truth column, if it has one value in the whole source."""
    counts = read.labels.get(None)
    if counts is None or not counts.rows:
        return None
    most = max((part.rows for label, part in read.labels.items() if label is not None), default=0)
    causes = (
        (most == 1 and read.repeated >= CONSTANT_ROWS, RejectionCause.ITEM_CONSTANT),
        (_independent(counts) >= CONSTANT_ROWS and len(np.unique(counts.cell)) == 1, RejectionCause.SCORE_CONSTANT),
        (_one_truth(counts, baseline), RejectionCause.TRUTH_CONSTANT),
    )
    cause = next((cause for holds, cause in causes if holds), None)
    lost = _rows(read.cells)
    return None if cause is None else Rejection(Why.CONSTANT, cause, lost, lost + counts.rows)


def _constant_labels(labels: Mapping[str, Counts], baselines: Baselines) -> dict[str | None, Rejection]:
    """Labels whose scores are all equal, which the baseline excludes as chance.

    With p the share of that score in the baseline, n independent rows all have it with probability p^n.
    """
    found: dict[str | None, Rejection] = {}
    for label, counts in labels.items():
        baseline, rows = baselines.get(label), _independent(counts)
        if baseline is None or rows < CONSTANT_ROWS or counts.cell[0] != counts.cell[-1]:
            continue
        then = baseline.counts
        same = int(then.n[then.cell == counts.cell[0]].sum())
        if _chance(same, then.rows, rows) < log(CONSTANT_CHANCE / len(labels)):
            found[label] = Rejection(Why.CONSTANT, RejectionCause.SCORE_CONSTANT, 0, counts.rows)
    return found


def _one_truth(counts: Counts, baseline: Baseline | None) -> bool:
    """Whether the truth has one value in all rows, although the baseline, or else the scores, exclude that."""
    rows = _independent(counts)
    if rows < CONSTANT_ROWS:
        return False
    actual = _actual(counts)
    if np.ptp(actual) > 1e-9:
        return False
    value = float(actual[0])
    if 1e-9 < value < 1 - 1e-9:
        return len(np.unique(counts.cell)) >= 20  # all groups have the same soft share
    if value > 0.5 and not (~counts.predicted).sum():
        return False  # each row has a label that was given, and each was right: a perfect week
    return _truth_chance(counts, baseline, value, rows) < log(CONSTANT_CHANCE)


def _truth_chance(counts: Counts, baseline: Baseline | None, value: float, rows: float) -> float:
    """The logarithm of the probability that all rows have this truth."""
    if baseline is not None:
        then = baseline.counts
        true = float((_actual(then) * then.n).sum())
        return _chance(true if value > 0.5 else then.rows - true, then.rows, rows)
    of_label = counts.score_is == "probability_of_label"
    claimed = counts.score if of_label else np.where(counts.predicted, counts.score, 1 - counts.score)
    other = float(((claimed if value < 0.5 else 1 - claimed) * counts.n).sum()) / counts.rows
    return rows * log(max(1 - other / OVERCONFIDENCE_ALLOWED, 1e-9))


def _actual(counts: Counts) -> npt.NDArray[np.float64]:
    """The rate of the truth, not of the outcome, in each group; shape (K,)."""
    if counts.score_is == "probability_of_label":
        return counts.rate
    return np.where(counts.predicted, counts.rate, 1 - counts.rate)


def _chance(same: float, of: int, rows: float) -> float:
    """The logarithm of p^rows with p = (same + 1) / (of + 2)."""
    return rows * log((same + 1) / (of + 2))


def _independent(counts: Counts) -> float:
    return counts.rows / counts.design_effect


# --- causes


def _rows(cells: Iterable[RejectedCell]) -> int:
    return sum(cell.rows for cell in cells)


def _reason(cells: Iterable[RejectedCell]) -> str:
    """The most frequent reason."""
    by_reason: Counter[str] = Counter()
    for cell in cells:
        by_reason[cell.reason] += cell.rows
    return max(sorted(by_reason), key=lambda reason: by_reason[reason])


def _in_percent(above: int, kept: Counts) -> bool:
    """Whether nearly all scores are percentages, where ``above`` rows are above 1.

    A kept row of such a source was scored below 1%, and so its label is hardly ever true.
    """
    claimed, true = (float((values * kept.n).sum()) for values in (kept.score, _actual(kept)))
    return above >= NEARLY_ALL * (above + kept.rows) or true < claimed / 10


def cause_of(cells: Sequence[RejectedCell], kept: Counts | None = None) -> RejectionCause:
    """What more than half of the rejected rows have in common, if anything; ``kept`` are the counts of the others."""
    half = _rows(cells) / 2
    percent = _rows(c for c in cells if c.reason == RejectReason.SCORE_OUT_OF_RANGE and c.place == ScorePlace.ABOVE_1)
    minus_one = _rows(c for c in cells if c.reason == RejectReason.OUTCOME_OUT_OF_RANGE and c.truth == -1)
    if percent > half and (kept is None or _in_percent(percent, kept)):
        return RejectionCause.SCORE_IN_PERCENT
    if minus_one > half:
        return RejectionCause.TRUTH_MINUS_ONE
    reason = _reason(cells)
    if _rows(c for c in cells if c.reason == reason) <= half:
        return RejectionCause.OTHER
    return _OF_REASON.get(reason, RejectionCause.OTHER)
