"""Tests of shift on counts: the scores against the baseline's, and the mix of labels, predicted and true.

They answer "has the traffic, or the classifier's confidence, changed", never "are the scores still
right": scores may move and stay calibrated. Each gives an effect size, which is compared with a rule's
threshold and does not grow with the number of rows, and, where there is one, a p-value on effective rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded at first use, and most commands never use them

from monitor.core.baseline import ROLLING, Baseline, Baselines
from monitor.core.counts import Counts, Floats, bin_counts, equal_frequency_edges
from monitor.core.records import ShiftResult, Subject, Window
from monitor.evaluation.shift.distances import jensen_shannon, stability_index, wasserstein
from monitor.inference import tables

LEAST_DEVIATION = 0.001  # as Evidently: scores that are all alike have no deviation to divide by
MIN_ROWS = 100  # effective rows on either side; below that an effect size is mostly noise
MIN_EXPECTED = 5.0  # Cochran's rule for a cell of a chi-square test
PSI_BINS = 10
OTHER_LABELS = "(other labels)"
_ROUNDING = 1e-9  # of the weight of a source, which is summed with and without its labels

Rows = tuple[int, int]  # of the window, of the baseline
Labels = Mapping[str, Counts]
MixOf = Literal["label", "actual"]
"""Which labels a mix counts: the predicted or the true ones."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The result of one test: the effect size and its p-value (None where undefined, see ``detail``)."""

    statistic: float | None
    p_value: float | None
    detail: Mapping[str, Any] = field(default_factory=dict)


def ks(window: Counts, baseline: Counts) -> Effect:
    """The Kolmogorov-Smirnov distance of two score distributions, in [0, 1].

    The largest difference of the two (weighted) distribution functions over the cells; the p-value
    is the asymptotic two-sided one of ``scipy.stats.ks_2samp`` at n1 n2 / (n1 + n2) effective rows.
    With discrete scores it is conservative. ``detail["at_score"]`` is where the two differ most.

    >>> from monitor.core.counts import counts_from_rows
    >>> low, high = counts_from_rows([0.2, 0.6] * 200, [0] * 400), counts_from_rows([0.6, 0.9] * 200, [0] * 400)
    >>> found = ks(high, low)
    >>> found.statistic, found.detail["at_score"], found.p_value < 1e-30
    (0.5, 0.2, True)
    """
    thin = _too_thin(window, baseline)
    if thin is not None:
        return thin
    cells = _cells_of_both(window, baseline)
    gap = np.abs(_distribution(window, cells) - _distribution(baseline, cells))
    n1, n2 = window.effective_rows, baseline.effective_rows
    p_value = float(scipy.stats.kstwo.sf(gap.max(), round(n1 * n2 / (n1 + n2))))
    return Effect(float(gap.max()), p_value, {"at_score": float(cells[int(gap.argmax())]) / 10_000})


def _cells_of_both(window: Counts, baseline: Counts) -> npt.NDArray[np.int64]:
    """The distinct cells of both, in order: ten times as fast as ``np.union1d``."""
    return np.flatnonzero(np.bincount(np.concatenate([window.cell, baseline.cell])))


def _distribution(counts: Counts, cells: npt.NDArray[np.int64]) -> Floats:
    cumulated = np.concatenate([[0.0], np.cumsum(counts.w)])
    return np.asarray(cumulated[np.searchsorted(counts.cell, cells, side="right")] / cumulated[-1])


def score_tests(window: Counts, baseline: Counts) -> dict[str, Effect]:
    """Every test of two score distributions, by name: ``ks`` is :func:`ks`.

    ``psi``: the population stability index sum (p - q) ln(p / q) over the baseline's quantile bins, where p and q are
    the shares of window and baseline, each with half an effective row added to every bin, so that an empty bin does not
    make it infinite. It has no p-value; ``detail["if_unchanged"]`` is what it would be on average if nothing had
    changed, about (bins - 1)(1/n1 + 1/n2) (Yurdakul 2018). Rule of thumb: .1 is noticeable, .25 is large.
    ``wasserstein``: the distance in standard deviations of the baseline's scores. ``jensen_shannon``: the distance over
    the bins of ``psi``, 0 to sqrt(ln 2) = .83.
    """
    found = {"ks": ks(window, baseline)}
    thin = _too_thin(window, baseline)
    if thin is not None:
        return found | dict.fromkeys(("psi", "wasserstein", "jensen_shannon"), thin)
    rows, edges = (window.effective_rows, baseline.effective_rows), equal_frequency_edges(baseline, PSI_BINS)
    weights = [bin_counts(counts, edges).w for counts in (window, baseline)]
    table = np.array([weight / weight.sum() * n for weight, n in zip(weights, rows, strict=True)])
    filled = table.shape[1]
    expected = (filled - 1) * (1.0 / rows[0] + 1.0 / rows[1])
    cells = _cells_of_both(window, baseline)
    shares = [np.diff(_distribution(counts, cells), prepend=0.0) for counts in (window, baseline)]
    distance, p_value = wasserstein(cells / 10_000, (shares[0], shares[1]), rows)
    total = float(baseline.w.sum())
    deviation = max(0.0, float(baseline.ws2.sum()) / total - (float(baseline.ws.sum()) / total) ** 2) ** 0.5
    return found | {
        "psi": Effect(stability_index(table), None, {"bins": filled, "if_unchanged": expected}),
        "wasserstein": Effect(distance / max(deviation, LEAST_DEVIATION), p_value, {"points": distance}),
        "jensen_shannon": Effect(*jensen_shannon(table), {"bins": filled}),
    }


def chi_square(
    window: Labels,
    baseline: Labels,
    of: MixOf = "label",
    whole: tuple[Counts, Counts] | None = None,
) -> Effect:
    """Whether the mix of labels has changed: the share of each among all predicted rows, or among all true ones.

    A label may be on one side only. With the counts of the source as a ``whole`` on both sides, their rows of labels
    that are on neither are one label more, :data:`OTHER_LABELS`.

    Pearson's chi-square of the two-row table of effective rows; labels expected fewer than five times
    on either side are merged (``detail["merged"]``). The effect size is Cramer's V of that table.
    Since V shrinks when one side is much larger than the other, ``detail["v_at_equal_size"]`` gives
    what it would be with both sides alike; ``detail["moved_most"]`` is the label whose share moved most.
    """
    names = sorted({*window, *baseline})
    sides = ((window, None), (baseline, None)) if whole is None else ((window, whole[0]), (baseline, whole[1]))
    table = np.array([_effective_rows([side.get(name) for name in names], of, every) for side, every in sides])
    names.append(OTHER_LABELS)
    if not table[:, -1].any():
        table, names = table[:, :-1], names[:-1]
    if not names or table.sum(axis=1).min() < MIN_ROWS:
        return Effect(None, None, {"reason": "too_few_rows", "needed": MIN_ROWS})
    merged, kept = _merge_rare(table, names)
    if merged.shape[1] < 2:
        return Effect(None, None, {"reason": "one_label"})
    statistic, freedom = tables.contingency(np.ascontiguousarray(merged))  # so that it is added up row by row
    shares = merged / merged.sum(axis=1, keepdims=True)
    moved = shares[0] - shares[1]
    worst = int(np.abs(moved).argmax())
    detail = {
        "v_at_equal_size": float(np.sqrt(0.5 * np.sum(moved**2 / shares.sum(axis=0)))),
        "moved_most": kept[worst],
        "moved_by": float(moved[worst]),
        "merged": [n for n in names if n not in kept],
    }
    return Effect(float(np.sqrt(statistic / merged.sum())), tables.chi_square(statistic, freedom), detail)


def _effective_rows(labels: Sequence[Counts | None], of: MixOf, whole: Counts | None) -> Floats:
    """The rows of each label that a mix counts, and last those of the whole that are of none of them.

    They are scaled so that those of the labels add up to their effective rows. One scale for all labels: a design
    effect is an estimate, and must not move the mix by itself.
    """
    parts = np.array([(0.0, 0.0) if counts is None else _MIXES[of](counts) for counts in labels]).reshape(-1, 2)
    weight, effective = parts.sum(axis=0)
    every = 0.0 if whole is None else _MIXES[of](whole)[0]
    others = max(0.0, every - weight) if every - weight > _ROUNDING * every else 0.0
    return np.append(parts[:, 0], others) * (effective / weight if weight > 0 else 1.0)


def _of_predicted(counts: Counts) -> tuple[float, float]:
    """The weight of the predicted rows, and how many effective rows they are."""
    predicted = counts.where("predicted")
    return float(predicted.w.sum()), predicted.effective_rows


def _of_true(counts: Counts) -> tuple[float, float]:
    """The same of the true rows."""
    weight = float(_true(counts, counts.w).sum())
    return weight, counts.effective_rows * weight / float(counts.w.sum()) if weight > 0 else 0.0


def _true(counts: Counts, size: Floats | npt.NDArray[np.int64]) -> Floats:
    """How many of ``size`` (weight or rows of each group) have the label, shape (K,)."""
    hit = counts.rate
    if counts.score_is == "confidence_in_prediction":
        hit = np.where(counts.predicted, hit, 1.0 - hit)
    return np.asarray(size * hit)


def _knows_truth(labels: Labels) -> bool:
    """Whether it is known which label was true where the predicted one was not."""
    return all(c.score_is == "probability_of_label" for c in labels.values()) or any(
        not c.predicted.all() for c in labels.values()
    )


_MIXES: Mapping[MixOf, Callable[[Counts], tuple[float, float]]] = {"label": _of_predicted, "actual": _of_true}


def _merge_rare(table: Floats, names: Sequence[str]) -> tuple[Floats, list[str]]:
    """The table with its rare labels in one column, which is left out where it is still too rare."""
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    common = expected.min(axis=0) >= MIN_EXPECTED
    rest = table[:, ~common].sum(axis=1, keepdims=True)
    kept = [name for name, keep in zip(names, common, strict=True) if keep]
    if expected[:, ~common].sum(axis=1).min() < MIN_EXPECTED:
        return table[:, common], kept
    return np.hstack([table[:, common], rest]), [*kept, "(rare labels)"]


def _too_thin(window: Counts, baseline: Counts) -> Effect | None:
    if min(window.effective_rows, baseline.effective_rows) >= MIN_ROWS:
        return None
    return Effect(None, None, {"reason": "too_few_rows", "needed": MIN_ROWS})


def source_shifts(
    source: str,
    window: Window,
    labels: Mapping[str | None, Counts],
    baselines: Baselines,
) -> list[ShiftResult]:
    """The tests of the scores of every label with a baseline and of the source as a whole, and of the label mixes.

    ``labels`` are the window's counts, None the source as a whole; results come in the order of the
    labels, the whole last. The mixes are over all labels.
    """
    both = sorted(set(labels) & set(baselines), key=lambda label: (label is None, label or ""))
    results = []
    for label in both:
        now, then = labels[label], baselines[label].counts
        for test, effect in score_tests(now, then).items():
            subject, rows = Subject(source, label), (now.rows, then.rows)
            results.append(shift_result(subject, window, test, "score", effect=effect, rows=rows))
    return [*results, *_mixes(Subject(source, None), window, labels, baselines)]


def _mixes(
    subject: Subject, window: Window, labels: Mapping[str | None, Counts], baselines: Baselines
) -> Iterator[ShiftResult]:
    """The tests of the label mix: of the predicted labels, and of the true ones where they are known.

    It is of the labels that have a baseline, those that are gone included; all others are what the source has besides.
    Where labels and the source as a whole were pinned over different weeks, only of labels that are on both sides.
    """
    pinned = {label: baseline for label, baseline in baselines.items() if label is not None}
    then = {label: baseline.counts for label, baseline in pinned.items() if label in labels}
    now, whole, every = {label: labels[label] for label in then}, baselines.get(None), labels.get(None)
    both: tuple[Counts, Counts] | None = None
    if whole is not None and every is not None and all(_of_the_same_weeks(pinned[label], whole) for label in then):
        then = {label: each.counts for label, each in pinned.items() if _of_the_same_weeks(each, whole)}
        now, both = {label: labels[label] for label in then if label in labels}, (every, whole.counts)
    if not then:
        return
    of_all = [side.values() for side in (now, then)] if both is None else [[counts] for counts in both]
    predicted = [sum(counts.where("predicted").rows for counts in side) for side in of_all]
    effect = chi_square(now, then, whole=both)
    yield shift_result(subject, window, "chi_square", "label", effect=effect, rows=(predicted[0], predicted[1]))
    if _knows_truth(now) and _knows_truth(then):
        true = [round(sum(float(_true(counts, counts.n).sum()) for counts in side)) for side in of_all]
        effect = chi_square(now, then, of="actual", whole=both)
        yield shift_result(subject, window, "chi_square", "actual", effect=effect, rows=(true[0], true[1]))


def _of_the_same_weeks(one: Baseline, other: Baseline) -> bool:
    """Whether two references are of the same time; of the weeks before, a label may have rows in some only."""
    rolling = one.version == other.version == ROLLING
    return rolling or (one.start, one.end) == (other.start, other.end)


def shift_result(
    subject: Subject, window: Window, test: str, column: str, *, effect: Effect, rows: Rows
) -> ShiftResult:
    """The result of one test, as it is stored; ``rows`` are those of the window and of the baseline."""
    return ShiftResult(subject, window, test, column, effect.statistic, effect.p_value, *rows, effect.detail)
