"""Does a changed share of true items alone explain overconfidence that lasts?

With fewer true items, the rows that act alone have a lower hit rate than their scores claim, with no fault of the
scores. So the promise of each window is lowered by the effect of that week's share on the baseline's own rows.
If the evidence that is left would not be enough, and the effect is at least half of the lower limit of what
was measured, the share explains the overconfidence. The share is measured on the
rows that do not act alone, so that a fault of those that do is not mistaken for a season.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts
from monitor.core.promises import PastWindow, Promise, Segment, bands_of, promise_of
from monitor.core.records import SCORE_BAND, Comparison, Where, Window
from monitor.evaluation.accumulated import DatedRun, comparable, paths_of, rounded_evidence, run_length
from monitor.evaluation.comparisons import RuleInput, pooled
from monitor.evaluation.rule_metrics import rows_of
from monitor.inference.alignment import binned
from monitor.inference.class_mix import CHANGED, PriorShift, class_mix, prior_shift, share_p
from monitor.inference.sequential import LONGEST

if TYPE_CHECKING:
    from monitor.evaluation.evaluate import SourceData, WindowCounts

Runs = Mapping[Segment | None, DatedRun]

MOST = 0.5
"""The part of the overconfidence's lower limit that the changed share must bring about to be its explanation."""
SMOOTHED = 4
"""The share of true items in a window is that of this many windows up to it."""


@dataclass(frozen=True, slots=True)
class _LabelWindow:
    """One window of a label: the promise of all its rows (``whole``), and of those that the rule judges."""

    window: Window
    whole: Promise
    judged: Promise | None


def with_class_mix(
    rule: Rule,
    rule_input: RuleInput,
    found: Comparison,
    runs: Runs,
    data: SourceData,
    evaluation: EvaluationConfig,
) -> Comparison:
    """The comparison with the class mix in its detail, where it would be a breach; else unchanged.

    ``runs`` are those of the label (None), or of its segments. Segments by a column are assumed to change as their
    label does; segments by scores have their own rows in the baseline.
    """
    label, baseline = rule_input.subject.label, rule_input.baseline
    if rule.measure != "overconfidence":
        return found
    if label is None or baseline is None or not (found.beyond and found.detail.get("sure")):
        return found
    if not rule_input.counts or rule_input.counts[0].score_is != "probability_of_label":
        return found
    shift = prior_shift(baseline.counts, rows_of(rule, baseline.counts))
    newest, upper = pooled(rule_input.counts[: evaluation.pool_weeks]), baseline.edges["all"]
    mix = class_mix(binned(newest, upper), binned(baseline.counts, upper))
    windows = _label_windows(rule, data, label)
    if shift is None or mix is None or not windows:
        return found
    shares = _shares(windows, shift)
    evidence_left = _evidence_left(rule, runs, shares, _shifts(rule, baseline.counts, shift, runs), found)
    names = [each.window.name for each in windows]
    since = windows[names.index(found.detail["since"]) :]
    rows = sum(each.whole.effective for each in since)
    now = sum(each.whole.effective * each.whole.kept for each in since) / rows
    rise = sum(each.whole.effective * shift.rise(shares[each.window]) for each in since) / rows
    p_value = share_p((now, rows), (shift.then, baseline.counts.effective_rows))
    only_share_changed = p_value < CHANGED and mix.fits and rise > 0
    # a small effect may lift evidence just above what is needed, beside a fault that is several times as large
    is_most_of_it = found.low is not None and rise >= MOST * found.low  # the value itself is too large: it was selected
    explains = only_share_changed and is_most_of_it and evidence_left < found.detail["needed"]
    numbers: dict[str, Any] = {
        "now": now,
        "then": shift.then,
        "p_value": p_value,
        "fit": mix.fit,
        "is_separable": mix.is_separable,
        "expected_rise": rise,
        "evidence_left": evidence_left,
        "is_most_of_it": is_most_of_it,
        "explains": explains,
    }
    return replace(found, detail={**found.detail, "class_mix": numbers})


def _label_windows(rule: Rule, data: SourceData, label: str) -> list[_LabelWindow]:
    """The comparable windows of a label that have rows, oldest first."""
    found = []
    for part in islice(comparable(data, label), LONGEST):
        whole, judged = (_promise(part, label, where) for where in ("all", rule.where))
        if whole is not None and whole.effective > 0:
            found.append(_LabelWindow(part.window, whole, judged))
    return found[::-1]


def _promise(part: WindowCounts | PastWindow, label: str, where: Where) -> Promise | None:
    if isinstance(part, PastWindow):
        return part.labels.get(label, {}).get(where)
    counts = part.labels.get(label)
    return None if counts is None else promise_of(counts.where(where))


def _shares(windows: Sequence[_LabelWindow], shift: PriorShift) -> dict[Window, float]:
    """The share of true items in each window, over it and the windows before it."""
    found = {}
    for end in range(1, len(windows) + 1):
        parts = windows[max(0, end - SMOOTHED) : end]
        rows, hits = sum(p.whole.rows for p in parts), sum(p.whole.rows * p.whole.kept for p in parts)
        judged = [each.judged for each in parts if each.judged is not None]
        outside = rows - sum(each.rows for each in judged)
        kept = hits - sum(each.rows * each.kept for each in judged)
        rate = min(max(kept / outside, 0.0), 1.0) if outside > 0 else hits / rows
        found[windows[end - 1].window] = shift.share_of(rate, hits / rows)
    return found


def _shifts(rule: Rule, baseline: Counts, whole: PriorShift, runs: Runs) -> dict[Segment | None, PriorShift]:
    """How the overconfidence of each run depends on the share of true items."""
    bands = dict(bands_of(rows_of(rule, baseline))) if any(each and each[0] == SCORE_BAND for each in runs) else {}
    by_band = {segment: prior_shift(baseline, part) for segment, part in bands.items()}
    return {segment: (by_band.get(segment) if segment is not None else None) or whole for segment in runs}


def _evidence_left(
    rule: Rule,
    runs: Runs,
    shares: Mapping[Window, float],
    shifts: Mapping[Segment | None, PriorShift],
    found: Comparison,
) -> float:
    """The evidence if each promise were lowered by the effect of its window's share of true items."""
    lowered = [
        replace(run, promises=tuple(_lowered(p, shifts[segment], shares.get(w)) for w, p in _dated(run)))
        for segment, run in runs.items()
    ]
    alone = float(found.detail["labels"] * run_length(rule) * len(runs))
    evidence = [path.now for path in paths_of(rule, lowered, [alone] * len(lowered))]
    return rounded_evidence(float(np.logaddexp.reduce(np.array(evidence))) - math.log(len(evidence)))


def _dated(run: DatedRun) -> list[tuple[Window, Promise]]:
    return list(zip(run.windows, run.promises, strict=True))


def _lowered(promise: Promise, shift: PriorShift, share: float | None) -> Promise:
    by = 0.0 if share is None else shift.rise(share)
    return replace(promise, promised=min(max(promise.promised - by, 0.0), 1.0))
