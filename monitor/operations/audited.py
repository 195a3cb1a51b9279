"""A reading with what people found of drawn items, in place of the truths of what acts that came by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np

from monitor.context import Monitor
from monitor.core.audits import AuditedItem
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import AUDIT_DIFFERS, TRUTHS_BIASED, TRUTHS_SCARCE, RejectedRows, ScoreIs
from monitor.core.unresolved import UnresolvedRows
from monitor.core.wording import clean, count_of, percent
from monitor.inference.tables import truth_bias
from monitor.warehouse.reader import Reading

RECENT = timedelta(weeks=26)
"""Audits of so many weeks before a window say whether its truths are biased."""
ENOUGH, SHOWN_LABELS = 50, 5
"""So many rows must act before their truths are called scarce, and so many labels are named."""


def audited(monitor: Monitor, reading: Reading) -> Reading:
    """The reading with the checked items of its week in place of the rows that act, of the labels that have some.

    Where truths that come by themselves are biased, rows that act without an audit are left out. Without an audit it is
    said where they are scarce.
    """
    window, source = reading.window, monitor.config.sources[reading.source]
    known = monitor.store.audited(reading.source, window.start - RECENT) if window.schedule == "weekly" else []
    if not known:
        return _with_doubts(reading)
    of_week = [item for item in known if item.window_start == window.start]
    bias = truth_bias(_strata(known))
    left_out = {item.label for item in of_week if item.outcome is not None} | set(reading.labels if bias else ())
    found = replace(
        reading, labels=with_audits(_by_people(reading.labels, left_out), of_week, source.score_is),
        segments={segment: _by_people(of, left_out) for segment, of in reading.segments.items()},
        quality=(*reading.quality, *_notes(reading.source, of_week, bias)), is_audited=bool(left_out),
    )  # fmt: skip
    return replace(found, items={}, ranked={}, whole=None) if bias else found if left_out else _with_doubts(found)


def _with_doubts(reading: Reading) -> Reading:
    said = tuple({"why": doubt} for doubt in doubts_about_acting(reading.unresolved)) if reading.unresolved else ()
    notes = (RejectedRows(reading.source, TRUTHS_SCARCE, 0, said),) if said else ()
    return replace(reading, quality=(*reading.quality, *notes))


def doubts_about_acting(rows: UnresolvedRows) -> Iterator[str]:
    """Items that act alone, of which few have a truth, and clearly fewer than of others: nobody looks at them.

    Fewer than half as many as of others, or fewer than half of them where of others there are a quarter more.
    """
    known = {label: rows.resolved_of(label).where("automated").rows for label in (None, *rows.labels)}
    total, decided = rows.acting(None), rows.resolved_of(None).rows - known[None]
    others = rows.rows(None) - total
    of_others = decided / others if others else 1.0
    if total >= ENOUGH and known[None] / total < max(of_others / 2, min(0.5, 0.8 * of_others)):
        acting = {label: rows.acting(label) for label in rows.labels if rows.acting(label)}
        fewest = sorted(acting, key=lambda label: (known[label] / acting[label], -acting[label]))[:SHOWN_LABELS]
        named = ", ".join(f"{clean(label)} {percent(known[label] / acting[label])}" for label in fewest)
        beside = f", of the others {percent(of_others)}" if others else ""
        yield (
            f"of {total:,} rows of {rows.window.name} that act alone {percent(known[None] / total)} have a truth"
            f"{beside} (least: {named}), and whether these are a random part is not "
            "known: `calmon audit plan` says how many to check"
        )


def _by_people(labels: Mapping[str, Counts], left_out: Collection[str]) -> dict[str, Counts]:
    """The counts of labels that have rows, without the rows that act of those in ``left_out``."""
    kept = {label: counts.take(~counts.automated) if label in left_out else counts for label, counts in labels.items()}
    return {label: counts for label, counts in kept.items() if counts.rows}


def _strata(items: Iterable[AuditedItem]) -> Iterator[tuple[int, int, int, int]]:
    """Of each label and week: (right and known by itself, right, wrong and known, wrong) of its checked items."""
    counted = Counter((i.window_start, i.label, i.outcome, i.stated is not None) for i in items)
    for start, label in {key[:2] for key in counted}:
        known_right, right, known_wrong, wrong = (
            counted[start, label, y, k] for y in (1.0, 0.0) for k in (True, False)
        )
        yield known_right, known_right + right, known_wrong, known_wrong + wrong


def _notes(source: str, items: Sequence[AuditedItem], bias: tuple[int, float, float] | None) -> Iterator[RejectedRows]:
    """That truths are biased, and that people found another truth than the relation has: that of people counts."""
    both = [item for item in items if item.outcome is not None and item.stated is not None]
    differ = sum(item.outcome != item.stated for item in both)
    if differ:
        why = f"people found another truth than the relation for {differ:,} of {count_of(len(both), 'checked item')}"
        yield RejectedRows(source, AUDIT_DIFFERS, 0, ({"why": f"{why}: what they found counts"},))
    if bias is not None:
        items_checked, right, wrong = bias
        why = (
            f"the truths of what acts alone are biased: they came for {wrong:.0%} of wrong and {right:.0%} of right "
            f"items, of {count_of(items_checked, 'item')} checked at random; only checked items count"
        )
        yield RejectedRows(source, TRUTHS_BIASED, 0, ({"why": why},))


def with_audits(labels: Mapping[str, Counts], items: Iterable[AuditedItem], score_is: ScoreIs) -> dict[str, Counts]:
    """The counts of labels, which are without rows that act, with checked items in place of these.

    Each checked item stands for as many as act on its label for each that was checked. Those whose truth came in
    another way are left out: it need not be at random that it came.
    """
    checked = [item for item in items if item.outcome is not None]
    found = {label: [item for item in checked if item.label == label] for label in {item.label for item in checked}}
    return {**labels, **{label: _with_checked(labels.get(label), of, score_is) for label, of in found.items()}}


def _with_checked(counts: Counts | None, items: list[AuditedItem], score_is: ScoreIs) -> Counts:
    weight = np.full(len(items), max(1.0, max(item.of for item in items) / len(items)))
    score, outcome = [item.score for item in items], [item.outcome or 0.0 for item in items]
    acts = np.ones(len(items), dtype=bool)
    checked = counts_from_rows(score, outcome, predicted=acts, weight=weight, automate_at=0.0, score_is=score_is)
    if counts is None:
        return checked
    effects = replace(checked, design_effect=counts.design_effect, acting_effects=counts.acting_effects)
    return pool([counts, effects])
