"""What ``calmon report --label L --more`` adds of one label, or of a source as a whole.

The first two tables are of the counts in the history. The others need whole items, or scores made in another way, so
they read the warehouse; nothing is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import inf

import numpy as np

from monitor.config.counting import settings_of
from monitor.config.model import EvaluationConfig, SourceConfig
from monitor.context import Monitor
from monitor.core.baseline import edges_of
from monitor.core.counts import Counts, bin_counts, equal_frequency_edges
from monitor.core.records import Interval, Subject, Window
from monitor.core.wording import count_of
from monitor.evaluation.estimates import Sample, estimate, generator
from monitor.inference.intervals import ece_intervals
from monitor.inference.levels import interval
from monitor.metrics.calibration import brier, nll
from monitor.metrics.cost import Costs, cheapest_fallback, cheapest_threshold, matrix_of
from monitor.metrics.dependencies import label_dependencies
from monitor.metrics.registry import CONTRACT
from monitor.operations.collect import with_whole
from monitor.operations.recalibrate import from_windows
from monitor.recalibration.gain import folds
from monitor.report.tables import Cell, Element
from monitor.report.words import number, share
from monitor.warehouse.score_construction import CONSTRUCTIONS

FOLDS = 5
LABELS = 12
"""Of so many labels, the most frequent ones, is shown which come together."""
_OF_SEVERAL_LABELS = ("multilabel", "multiclass", "top_k")


def further_tables(monitor: Monitor, subject: Subject, window: Window) -> list[Element]:
    """The tables that there can be of the subject in the window.

    Raises Refused where the history has no counts of it, and the errors of a reading.
    """
    source = monitor.config.sources[subject.source]
    counts = from_windows(monitor.store, subject, [window], settings_of(source)).counts
    found = [stability_table(monitor, subject, counts, window), cost_table(source, subject, counts)]
    if subject.label is None and source.kind == "multiclass":
        found.append(class_cost_table(monitor, subject.source, window))
    if subject.label is None and source.kind in _OF_SEVERAL_LABELS:
        found.append(pairs_table(monitor, subject.source, window))
    found.append(scores_table(monitor, subject, window))
    return [element for element in found if element.rows]


def stability_table(monitor: Monitor, subject: Subject, counts: Counts, window: Window) -> Element:
    """The main metrics over all rows, and over random parts of them."""
    rows: list[tuple[Cell, ...]] = []
    for metric, (whole, *parts) in stability(subject, counts, window, monitor.config.evaluation).items():
        known = [part.value for part in parts if part.value is not None]
        mean, deviation = float(np.mean(known)) if known else None, float(np.std(known, ddof=1)) if known[1:] else None
        values = (mean, deviation, min(known, default=None), max(known, default=None))
        rows.append((metric, whole, *(number(value) for value in values)))
    note = f"{count_of(counts.rows, 'row')}, shared out at random among {FOLDS} parts; analytic intervals."
    head = ("metric", "all rows", "mean of parts", "sd", "least", "largest")
    return Element("Stability", head, tuple(rows), "llrrrr", note)


def stability(
    subject: Subject, counts: Counts, window: Window, evaluation: EvaluationConfig
) -> dict[str, list[Interval]]:
    """By metric its interval over all rows, then over each of the random parts of equal size, in the bins of all rows.

    The same rows give the same parts. Rows are assigned to them one by one, even if they come in clusters.
    """
    quick = evaluation.model_copy(update={"interval": "analytic"})
    rng = generator(evaluation.seed, subject, f"stability {FOLDS}", window.name)
    kept = counts.take(counts.w > 0)
    edges = edges_of(kept, quick)
    parts = [kept, *(fold.held for fold in folds(kept, FOLDS, rng))]
    found = [estimate([Sample(subject, part, edges)], window, quick) for part in parts]
    return {name: [e.interval for of in found for e in of if (e.metric, e.where) == (name, "all")] for name in CONTRACT}


def cost_table(source: SourceConfig, subject: Subject, counts: Counts) -> Element:
    """The threshold of least cost, beside what the decisions cost."""
    configured = source.costs_of(subject.label)
    costs = Costs() if configured is None else Costs(configured.false_negative, configured.false_positive)
    found = cheapest_threshold(counts, costs)
    if found is None:
        return Element("", (), ())
    rows = (
        ("as it was", "", number(found.present_cost)),
        ("cheapest", _threshold(found.threshold), number(found.cost)),
        ("cheapest, if scores were calibrated", _threshold(found.by_scores), ""),
    )
    note = (
        f"A miss costs {costs.false_negative:g}, a false alarm {costs.false_positive:g} (`costs` in alerts.yaml). "
        "Chosen on the rows it is measured on: look at another week too."
    )
    return Element("Cheapest threshold", ("decision", "threshold", "cost of a row"), rows, "lrr", note)


def _threshold(value: float | None) -> str:
    return "–" if value is None else "never predict" if value > 1 else f"{value:.4f}"


def class_cost_table(monitor: Monitor, name: str, window: Window) -> Element:
    """The threshold on the highest score at which all decisions of a multiclass source cost least."""
    source = monitor.config.sources[name]
    rows = monitor.warehouse.read(name, source, window, now=monitor.clock()).whole
    if rows is None:
        return Element("", (), ())
    missed = {label: costs.false_negative for label in rows.labels if (costs := source.costs_of(label)) is not None}
    given = {label: {other: cost for other in rows.labels if other != label} for label, cost in missed.items()}
    found = cheapest_fallback(rows, matrix_of(rows.labels, given))
    if found is None:
        return Element("", (), ())
    least = f"the highest score's label from {found.threshold:.4f} ({share(found.acting)}), below it {found.fallback}"
    lines = (
        ("the label with the highest score, always", number(found.present)),
        ("the label of least expected cost under the scores", number(found.by_scores)),
        ("at random by the scores (expected misclassification cost)", number(found.expected)),
        (f"cheapest: {least if found.threshold <= 1 else f'always {found.fallback}'}", number(found.cost)),
    )
    note = "A wrong decision costs what a miss of the true label costs (`costs` in alerts.yaml), else 1."
    return Element("Cost of an item", ("decision", "cost"), lines, "lr", note)


def pairs_table(monitor: Monitor, name: str, window: Window) -> Element:
    """Which labels come together, in truth and as predicted, the largest differences first."""
    source = monitor.config.sources[name]
    pairs = monitor.warehouse.label_pairs(name, source, window, LABELS, now=monitor.clock())
    if not len(pairs["a"]):
        return Element("", (), ())
    found = label_dependencies(pairs)
    places = [place for place in permutations(range(len(found.labels)), 2) if found.truth[place] == found.truth[place]]
    rows = [
        (
            Subject(name, found.labels[a]), Subject(name, found.labels[b]), f"{found.n[a, b]:,}",
            share(float(found.truth[a, b])), share(float(found.predicted[a, b])),
            number(float(found.gap[a, b]), sign=True),
        )
        for a, b in sorted(places, key=lambda place: -abs(float(found.gap[place])))
    ]  # fmt: skip
    head = ("a", "b", "items", "truth", "predicted", "difference")
    return Element("P(a | b)", head, tuple(rows), "llrrrr", "Of the items on which both were scored.")


def scores_table(monitor: Monitor, subject: Subject, window: Window) -> Element:
    """Each way of making scores from the source's log-probabilities, the best calibrated first."""
    rows = [
        (one.name, f"{one.rows:,}", one.ece, number(one.brier), number(one.nll), one.roc_auc)
        for one in compare_scores(monitor, subject.source, subject.label, window)
    ]
    head = ("score", "rows", "ECE", "Brier score", "log loss", "ROC AUC")
    return Element("Ways of making scores", head, tuple(rows), "lrlrrl")


@dataclass(frozen=True, slots=True)
class Compared:
    """A way of making scores: ECE (debiased, with its interval), Brier score, log loss and ROC AUC."""

    name: str
    rows: int
    ece: Interval
    brier: float | None
    nll: float | None
    roc_auc: Interval


def compare_scores(monitor: Monitor, source: str, label: str | None, window: Window) -> list[Compared]:
    """Every score construction that the source's column allows, on the rows of a label (None: of all), best first.

    These constructions need the same kind of numbers as the configured one, so all have the same rows. The ECE is on
    equal-frequency bins of the construction's own scores, with the analytic interval. Among equal ECEs (several may be
    0 when debiased) the lower Brier score comes first. Raises what reading raises (RelationError, WarehouseFailed).
    """
    config, evaluation = monitor.config.sources[source], monitor.config.evaluation
    found: list[Compared] = []
    for name, construction in CONSTRUCTIONS.items():
        if config.score is None or construction.needs != CONSTRUCTIONS[config.score.method].needs:
            continue
        changed = config.model_copy(update={"score": config.score.model_copy(update={"method": name})})
        labels = with_whole(monitor.warehouse.read(source, changed, window, now=monitor.clock())).labels
        counts = labels.get(label)
        if counts is None:
            continue
        bins, confidence = bin_counts(counts, equal_frequency_edges(counts, evaluation.bins)), evaluation.confidence
        (ece,) = ece_intervals([bins], [], confidence=confidence, form="analytic")
        auc = interval("roc_auc", counts, confidence)
        found.append(Compared(name, counts.rows, ece, brier(counts), nll(counts), auc))
    return sorted(found, key=lambda one: [inf if value is None else value for value in (one.ece.value, one.brier)])
