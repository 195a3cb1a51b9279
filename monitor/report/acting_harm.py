"""Harm counted from the score from which gates acted, which may be another than ``automate_at``. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from monitor.automation.harm import Harm, TimeOn, together
from monitor.core.counts import CELLS, Counts
from monitor.core.records import Schedule
from monitor.inference.selective import ExcessErrors, excess_errors

EACH_ITS_OWN = "the score from which gates acted, label by label"


@dataclass(frozen=True, slots=True)
class CountedHarm:
    """The errors beyond those that scores claimed, with their limits, and how many of them automation made."""

    excess: ExcessErrors
    harm: Harm


@dataclass(frozen=True, slots=True)
class ActingLabel:
    """One label of a source: its counts, when it acted and from which scores, and ``automate_at`` in alerts.yaml."""

    counts: Counts
    on: TimeOn
    configured: float

    @property
    def as_read(self) -> bool:
        """Whether it acted from the score by which its rows were read, if at all."""
        acting = (acted_from(self.counts, score, self.configured) for score, _ in self.on.scores)
        return all(rows is self.counts for rows in acting)

    def made(self, excess: ExcessErrors) -> float:
        """How many of its excess errors automation made."""
        return _made(self.counts, self.on, self.configured) if self.on.scores else excess.excess * self.on.share


def acted_from(counts: Counts, score: float, configured: float) -> Counts:
    """The counts as if rows had acted alone from ``score`` on; ``counts`` itself if they did.

    Rows are counted by cells of scores. Those in the cell of the score itself are kept as they were read, if they were
    read with a threshold in that cell, as ``configured`` is, or with a lower one.
    """
    edge = _cell(score)
    at, above = counts.cell == edge, counts.cell > edge
    is_lower = bool((counts.automated & (counts.cell <= edge)).any())
    is_higher = bool((counts.predicted & ~counts.automated & above).any())
    as_read = is_lower or (not is_higher and _cell(configured) == edge)
    wanted = counts.predicted & (above | (at & counts.automated if as_read else at))
    return counts if np.array_equal(wanted, counts.automated) else replace(counts, automated=wanted)


def _cell(score: float) -> int:
    return int(np.floor(score * CELLS + 0.5))


def counted_harm(
    counts: Counts, on: TimeOn, configured: float, schedule: Schedule, confidence: float
) -> CountedHarm | None:
    """The harm of one label, from its counts in the window; None where no row reached the score.

    ``configured`` is ``automate_at`` in alerts.yaml.
    If gates acted from several scores, errors are those of the rows from the lowest on, and automation made its share
    of time of each score's.
    """
    rows = acted_from(counts, on.scores[0][0], configured) if on.scores else counts
    found = excess_errors(rows, confidence=confidence)
    if found is None:
        return None
    several = len(on.scores) > 1
    which = "the lowest score" if several else "the score"
    counted = "" if rows is counts else f"{on.scores[0][0]:g}, {which} from which gates acted"
    return CountedHarm(found, _harm(found, on, schedule, counted, _made(counts, on, configured) if several else None))


def counted_together(
    counts: Counts, labels: Iterable[ActingLabel], schedule: Schedule, confidence: float
) -> CountedHarm | None:
    """The harm of a source as a whole, whose own rows are ``counts``; None where no row of its labels could act.

    Automation made what it made of each label: of the label's own excess errors, its share of the time. Time over all
    labels would say too much if a label that is switched off has most errors. Unless all labels acted from the scores
    by which they were read, the errors are those of the labels added up, with limits that are wider than needed.
    """
    parts = [each for each in labels if each.counts.rows]
    counted = (counted_harm(each.counts, each.on, each.configured, schedule, confidence) for each in parts)
    found = [(each, one.excess) for each, one in zip(parts, counted, strict=True) if one is not None]
    own = excess_errors(counts, confidence=confidence) if all(each.as_read for each in parts) else None
    if not found:
        return None
    whole = _sum(excess for _, excess in found) if own is None else own
    made = sum(each.made(excess) for each, excess in found)
    always = all(each.on.share >= 1 and len(each.on.scores) <= 1 for each, _ in found)
    on = together((excess.items, each.on) for each, excess in found)
    return CountedHarm(whole, _harm(whole, on, schedule, "" if own else EACH_ITS_OWN, None if always else made))


def _sum(found: Iterable[ExcessErrors]) -> ExcessErrors:
    parts = list(found)
    return ExcessErrors(*(sum(getattr(each, name) for each in parts) for name in ExcessErrors.__slots__))


def _made(counts: Counts, on: TimeOn, configured: float) -> float:
    """How many of the excess errors automation made: of each score's rows, its share of the window."""
    found = ((share, excess_errors(acted_from(counts, score, configured))) for score, share in on.scores)
    return sum(share * each.excess for share, each in found if each is not None)


def _harm(found: ExcessErrors, on: TimeOn, schedule: Schedule, counted: str, made: float | None) -> Harm:
    numbers = found.low, found.high, found.observed, found.promised, round(found.items)
    return Harm(found.excess, on, schedule, *numbers, counted_from=counted, made=made)
