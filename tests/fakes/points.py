"""The textbook (plug-in) value of any metric, by the functions from which its interval is made."""

from __future__ import annotations

from functools import partial

import numpy as np

from monitor.core.counts import BinCounts, Counts, ProbabilityRows, RegressionRows, bin_counts, equal_frequency_edges
from monitor.inference.bootstrap import STATISTICS
from monitor.inference.intervals import mce_intervals
from monitor.inference.levels import law_of
from monitor.metrics.calibration import BINS, ece, equal_width_ece
from monitor.metrics.groups import Groups, groups_of, number
from monitor.metrics.multiclass import AREAS, _placements, area_averages, class_areas
from monitor.metrics.registry import METRICS
from monitor.metrics.top_k import ON_RANKED

RANKED_BINS = 10


def groups_of_bins(bins: BinCounts) -> Groups:
    """Each bin as a group; ``predicted`` and ``automated`` are not known for bins, and so False."""
    hit, no = np.clip(bins.wy, 0.0, bins.w), np.zeros(len(bins.w), dtype=bool)
    scores = (bins.score, bins.score, np.zeros(len(bins.w)))
    return Groups(bins.upper, bins.score, no, no, hit, bins.w - hit, *scores, score_is="probability_of_label")


def point(name: str, data: Counts | BinCounts | ProbabilityRows | RegressionRows) -> float | None:
    """The value of a metric in what it needs; None where that does not define it."""
    if isinstance(data, ProbabilityRows | RegressionRows):
        return of_rows(name, data)
    core, share = METRICS[name].core, METRICS[name].share
    if isinstance(data, BinCounts):
        of_bins = {"ece": ece, "mce": lambda bins: mce_intervals([bins])[0].interval.plug_in}
        return number(core(groups_of_bins(data))) if core is not None else of_bins[name](data)
    if core is not None:
        return number(core(groups_of(data)))
    if share is not None:
        return None if (found := share(data)) is None else float(found.value)
    return of_counts(name, data)


def of_counts(name: str, counts: Counts) -> float | None:
    """A metric of counts that is neither a share nor a function of groups; one of ranks is an ordinary one."""
    ordinary, bins = (
        (name, BINS) if METRICS[name].needs == "counts" else (ON_RANKED.get(name, "prevalence"), RANKED_BINS)
    )
    if ordinary == "prevalence":
        total = float(counts.w.sum())
        return float(counts.wy.sum()) / total if total > 0 else None
    if ordinary == "ace":
        return ece(bin_counts(counts, equal_frequency_edges(counts, bins)))
    if ordinary == "equal_width_ece":
        return equal_width_ece(counts, bins)
    law = law_of(ordinary, counts)
    return None if law is None else law.value


def of_rows(name: str, rows: ProbabilityRows | RegressionRows) -> float | None:
    """A metric of whole rows, or of numbers."""
    if name in AREAS and isinstance(rows, ProbabilityRows):
        return area_averages(class_areas(rows, _placements(rows)))[name]
    statistic = STATISTICS[name]
    if not float(rows.weight.sum()) > 0:
        return None
    return statistic.value(*(sums(rows, 1)[0] for sums in statistic.sums))


mce, overconfidence, roc_auc, pr_auc = (partial(point, name) for name in ("mce", "overconfidence", "roc_auc", "pr_auc"))
