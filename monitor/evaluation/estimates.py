"""Counts -> estimates: every metric of every subject in every population, with its interval."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from monitor.config.model import EvaluationConfig, SourceConfig, SourceKind
from monitor.core.baseline import Edges, population_edges
from monitor.core.counts import BinCounts, Counts, bin_counts
from monitor.core.records import WHERES, Estimate, Interval, Subject, Where, Window
from monitor.core.verdict_detail import VerdictDetail
from monitor.inference.intervals import NOTHING, MceInterval, ece_intervals, mce_intervals
from monitor.inference.levels import interval as level_interval
from monitor.inference.memory import each_by_content
from monitor.metrics.calibration import BINS
from monitor.metrics.cost import ON_GROUPS
from monitor.metrics.definition import MetricSpec
from monitor.metrics.names import can_give
from monitor.metrics.registry import CONTRACT, METRICS


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The counts of one subject in one window, with its bin edges."""

    subject: Subject
    counts: Counts
    edges: Edges


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
    # segments are shown for all rows only; their other populations are too thin to read
    keys = [(each, where) for each in samples for where in WHERES if where == "all" or each.subject.segment is None]
    tables = [bin_counts(sample.counts.where(where), sample.edges[where]) for sample, where in keys]
    eces = _ece_by_form(keys, tables, window, evaluation, draws_labels=draws_labels)
    mces = mce_intervals(tables, confidence=evaluation.confidence)
    found: list[Estimate] = []
    for (sample, where), ece, mce in zip(keys, eces, mces, strict=True):
        counts = sample.counts.where(where)
        rows, positives, weight = counts.rows, counts.positives, float(counts.w.sum())
        for metric in CONTRACT:
            interval: Interval = NOTHING
            detail: Mapping[str, Any] = {}
            if metric == "ece":
                interval = ece
            elif metric == "mce":
                interval, detail = mce.interval, worst_bin(mce)
            elif can_give(kind, metric):
                interval = level_interval(metric, counts, evaluation.confidence)
                # of an overconfidence, the items that weighted rows represent, unless each row is one
                detail = {"items": weight} if metric == "overconfidence" and weight != rows else {}
            found.append(Estimate(sample.subject, window, metric, where, interval, rows, positives, detail))
    return found


def extra_estimates(
    samples: Sequence[Sample],
    requested: Sequence[tuple[str, Where]],
    window: Window,
    evaluation: EvaluationConfig,
    source: SourceConfig,
) -> list[Estimate]:
    """Metrics of counts beyond the contract's, in the order of the samples and of ``requested`` (metric, population).

    Samples of segments are left out. A metric of cost has the costs that the ``source`` sets for the label.
    """
    keys = [(s, metric, where) for s in samples if s.subject.segment is None for metric, where in requested]
    binned: dict[tuple[Subject, str, Where], Interval] = {}
    for name, own in other_binning(evaluation).items():
        chosen = [(sample, where) for sample, metric, where in keys if metric == name]
        tables = [bin_counts(c, population_edges(c, own)) for s, where in chosen for c in [s.counts.where(where)]]
        # the random numbers of a rule on it, which measures it as an ECE
        values = _each_where(chosen, tables, window, own)
        binned |= {(s.subject, name, where): value for (s, where), value in zip(chosen, values, strict=True)}
    found = []
    for (sample, where), group in groupby(keys, lambda key: (key[0], key[2])):
        counts = sample.counts.where(where)
        rows, positives = counts.rows, counts.positives
        for _, metric, _ in group:
            interval = binned.get((sample.subject, metric, where))
            if interval is None:
                spec = MetricSpec(metric, cost_parameters(metric, source, sample.subject.label))
                interval = level_interval(spec, counts, evaluation.confidence)
            found.append(Estimate(sample.subject, window, metric, where, interval, rows, positives))
    return found


def cost_parameters(metric: str, source: SourceConfig, label: str | None) -> tuple[float, ...]:
    """The parameters of a metric for a label: (false negative, false positive) of a cost; () where none are set."""
    costs = source.costs_of(label) if metric in ON_GROUPS else None
    return () if costs is None else (costs.false_negative, costs.false_positive)


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


def worst_bin(found: MceInterval) -> VerdictDetail:
    """The worst bin as plain data: its score range, rows, and hit rate minus mean score; empty without rows."""
    if found.worst_n == 0:
        return {}
    return {"worst_range": list(found.worst_range), "worst_n": found.worst_n, "worst_gap": found.worst_gap}
