"""Counts -> estimates: every metric of every subject in every population, with its interval."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from monitor.config.model import EvaluationConfig, SourceKind
from monitor.core.baseline import Edges, population_edges
from monitor.core.counts import BinCounts, Counts, bin_counts
from monitor.core.records import WHERES, Estimate, Interval, Subject, Where, Window
from monitor.core.verdict_detail import VerdictDetail
from monitor.inference.intervals import NOTHING, MceInterval, ece_intervals, mce_intervals
from monitor.inference.levels import interval as level_interval
from monitor.inference.memory import each_by_content
from monitor.metrics.calibration import BINS
from monitor.metrics.definition import MetricSpec
from monitor.metrics.names import can_give
from monitor.metrics.registry import CONTRACT, METRICS


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The counts of one subject in one window, with its bin edges."""

    subject: Subject
    counts: Counts
    edges: Edges

    @property
    def populations(self) -> tuple[Where, ...]:
        """Segments are shown for all rows only; their other populations are too thin to read."""
        return WHERES if self.subject.segment is None else ("all",)

    def bins(self, where: Where) -> BinCounts:
        """The counts of one population, in bins."""
        return bin_counts(self.counts.where(where), self.edges[where])


def generator(seed: int, subject: Subject, metric: str, window_name: str) -> np.random.Generator:
    """The random generator of one (seed, source, label, metric, window): the same numbers in every run.

    >>> one = generator(1, Subject("tickets", "billing"), "ece all", "2026-W46").random()
    >>> one == generator(1, Subject("tickets", "billing"), "ece all", "2026-W46").random()
    True
    """
    parts = (seed, subject.source, subject.label, subject.segment, metric, window_name)
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def ece_of(
    tables: Sequence[BinCounts], rngs: Sequence[np.random.Generator], evaluation: EvaluationConfig
) -> list[Interval]:
    """The configured interval of the expected calibration error of each table."""
    return ece_intervals(
        tables,
        rngs,
        confidence=evaluation.confidence,
        form="analytic" if evaluation.interval == "analytic" else "bootstrap",
        resamples=evaluation.resamples,
    )


@each_by_content
def each_ece(
    requests: Sequence[tuple[BinCounts, Subject, str]], where: Where, evaluation: EvaluationConfig
) -> list[Interval]:
    """The configured interval of the ECE of each table, with the random numbers of its subject, ``where`` and window.

    Each table comes with its subject and the name of its window. Results are kept: estimates and rules need the same.
    """
    rngs = [generator(evaluation.seed, subject, f"ece {where}", name) for _, subject, name in requests]
    found: dict[int, Interval] = {}
    # tables with the same number of bins together: none is padded, so that not even the last bit depends on the others
    for width in {len(bins.n) for bins, _, _ in requests}:
        places = [place for place, (bins, _, _) in enumerate(requests) if len(bins.n) == width]
        intervals = ece_of([requests[place][0] for place in places], [rngs[place] for place in places], evaluation)
        found |= dict(zip(places, intervals, strict=True))
    return [found[place] for place in range(len(requests))]


def estimate(
    samples: Sequence[Sample],
    window: Window,
    evaluation: EvaluationConfig,
    kind: SourceKind = "multilabel",
    *,
    draws_labels: bool = True,
) -> list[Estimate]:
    """The metrics of the contract, of every sample, in the order of the samples, populations and metrics.

    Without ``draws_labels``, of very many labels, the ECE of a label takes the analytic form.

    An estimate is of the window alone, whatever its number of rows; where the rows do not define a
    metric (no row, one class only), or a source of this ``kind`` does not have it, its numbers are None.
    """
    keys = [(sample, where) for sample in samples for where in sample.populations]
    tables = [sample.bins(where) for sample, where in keys]
    eces = _ece_by_form(keys, tables, window, evaluation, draws_labels=draws_labels)
    mces = mce_intervals(tables, confidence=evaluation.confidence)
    found: list[Estimate] = []
    for (sample, where), ece, mce in zip(keys, eces, mces, strict=True):
        found += _of_population(sample, where, ece, mce, window, evaluation.confidence, kind)
    return found


def extra_estimates(
    samples: Sequence[Sample],
    requested: Sequence[tuple[str, Where]],
    window: Window,
    evaluation: EvaluationConfig,
    spec: Callable[[str, str | None], MetricSpec] = lambda metric, _: MetricSpec(metric),
) -> list[Estimate]:
    """Metrics of counts beyond the contract's, in the order of the samples and of ``requested`` (metric, population).

    Samples of segments are left out. ``spec`` gives a label's metric its parameters: a metric of cost has the costs of
    the label.
    """
    evaluations = other_binning(evaluation)
    keys = [(s, metric, where) for s in samples if s.subject.segment is None for metric, where in requested]
    binned = _in_other_bins([key for key in keys if key[1] in evaluations], window, evaluations)
    found = []
    for (sample, where), group in groupby(keys, lambda key: (key[0], key[2])):
        counts = sample.counts.where(where)
        rows, positives = counts.rows, counts.positives
        for _, metric, _ in group:
            interval = binned.get((sample.subject, metric, where))
            if interval is None:
                interval = level_interval(spec(metric, sample.subject.label), counts, evaluation.confidence)
            found.append(Estimate(sample.subject, window, metric, where, interval, rows, positives))
    return found


def extra_metrics(kind: SourceKind, named: Iterable[tuple[str, Where]] = ()) -> list[tuple[str, Where]]:
    """The metrics of counts beyond the contract's that a source of this ``kind`` has: over all rows, and ``named``.

    >>> extra_metrics("regression"), extra_metrics("multilabel")[0]
    ([], ('ace', 'all'))
    >>> len(extra_metrics("multilabel", [("f1", "predicted")]))
    29
    """
    given = [m for m in METRICS.values() if m.needs in ("counts", "bins") and can_give(kind, m.name)]
    names = [m.name for m in given if m.name not in CONTRACT]
    extra = [(name, where) for name, where in named if name in names and where != "all"]
    return [*((name, WHERES[0]) for name in names), *dict.fromkeys(extra)]


def other_binning(evaluation: EvaluationConfig) -> dict[str, EvaluationConfig]:
    """The metrics that are an ECE with their own binning, not the configured one, each with its evaluation."""
    return {
        "ace": evaluation.model_copy(update={"binning": "equal_frequency", "bins": BINS}),
        "equal_width_ece": evaluation.model_copy(update={"binning": "equal_width", "bins": BINS}),
    }


def _in_other_bins(
    keys: Sequence[tuple[Sample, str, Where]], window: Window, evaluations: Mapping[str, EvaluationConfig]
) -> dict[tuple[Subject, str, Where], Interval]:
    found: dict[tuple[Subject, str, Where], Interval] = {}
    for name, evaluation in evaluations.items():
        chosen = [(sample, where) for sample, metric, where in keys if metric == name]
        tables = [
            bin_counts(c, population_edges(c, evaluation)) for s, where in chosen for c in [s.counts.where(where)]
        ]
        # the random numbers of a rule on it, which measures it as an ECE
        values = _each_where(chosen, tables, window, evaluation)
        found |= {(s.subject, name, where): value for (s, where), value in zip(chosen, values, strict=True)}
    return found


def _ece_by_form(
    keys: Sequence[tuple[Sample, Where]],
    tables: Sequence[BinCounts],
    window: Window,
    evaluation: EvaluationConfig,
    *,
    draws_labels: bool,
) -> list[Interval]:
    # Segments are many and decide nothing: they take the analytic form, labels that are not many the configured one.
    subjects = [sample.subject for sample, _ in keys]
    drawn = [i for i, of in enumerate(subjects) if of.segment is None and (draws_labels or of.label is None)]
    others = sorted(set(range(len(keys))) - set(drawn))
    as_configured = _each_where([keys[i] for i in drawn], [tables[i] for i in drawn], window, evaluation)
    analytic = ece_intervals([tables[i] for i in others], [], confidence=evaluation.confidence, form="analytic")
    found = dict(zip([*drawn, *others], [*as_configured, *analytic], strict=True))
    return [found[i] for i in range(len(keys))]


def _each_where(
    keys: Sequence[tuple[Sample, Where]], tables: Sequence[BinCounts], window: Window, evaluation: EvaluationConfig
) -> list[Interval]:
    """The configured interval of the ECE of each table; ``keys`` are their samples and populations."""
    if len({len(bins.n) for bins in tables}) > 1:
        # padded together, as always: the last bit may differ from a rule's, and draws make that visible
        rngs = [generator(evaluation.seed, s.subject, f"ece {where}", window.name) for s, where in keys]
        return ece_of(tables, rngs, evaluation)
    found: dict[int, Interval] = {}
    for where in dict.fromkeys(where for _, where in keys):
        places = [i for i, (_, population) in enumerate(keys) if population == where]
        requests = [(tables[i], keys[i][0].subject, window.name) for i in places]
        found |= dict(zip(places, each_ece(requests, where, evaluation), strict=True))
    return [found[i] for i in range(len(keys))]


def _items_of(metric: str, counts: Counts) -> dict[str, float]:
    """Of an overconfidence, the number of items that weighted rows represent; nothing where each row is one item."""
    weight = float(counts.w.sum())
    return {"items": weight} if metric == "overconfidence" and weight != counts.rows else {}


def _of_population(
    sample: Sample, where: Where, ece: Interval, mce: MceInterval, window: Window, confidence: float, kind: SourceKind
) -> Iterable[Estimate]:
    counts = sample.counts.where(where)
    rows, positives = counts.rows, counts.positives
    for metric in CONTRACT:
        detail: Mapping[str, Any] = {}
        if metric == "ece":
            interval = ece
        elif metric == "mce":
            interval = mce.interval
            detail = worst_bin(mce)
        elif not can_give(kind, metric):
            interval = NOTHING
        else:
            interval = level_interval(metric, counts, confidence)
            detail = _items_of(metric, counts)
        yield Estimate(sample.subject, window, metric, where, interval, rows, positives, detail)


def worst_bin(found: MceInterval) -> VerdictDetail:
    """The worst bin as plain data: its score range, rows, and hit rate minus mean score; empty without rows."""
    if found.worst_n == 0:
        return {}
    return {"worst_range": list(found.worst_range), "worst_n": found.worst_n, "worst_gap": found.worst_gap}
