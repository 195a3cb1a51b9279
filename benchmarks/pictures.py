"""Writes the pictures of docs/curves.md: ``python -m benchmarks.pictures`` (seconds; the same pictures every time)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.metrics import precision_recall_curve, roc_curve

from monitor.core.counts import CELLS, Counts, Floats, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.selective import threshold_for
from monitor.metrics.selective import risk_coverage as curve_of_risk
from monitor.report.figures.png import BLUE, GREY, VERMILION
from monitor.report.figures.reliability import reliability_data

TARGET = Path(__file__).parents[1] / "docs" / "pictures"


def example(n: int = 20_000) -> Counts:
    """A made-up label: a third of the rows are positive, high scores are a little overconfident."""
    rng = np.random.default_rng(7)
    score = rng.beta(0.9, 1.4, n)
    truth = rng.random(n) < np.where(score > 0.6, score - 0.25 * (score - 0.6), score)
    return counts_from_rows(score, truth, automate_at=0.8)


def rows_of(counts: Counts) -> tuple[Floats, Floats, Floats]:
    """(truth, score, weight): for each cell a true row and a wrong one, which weigh as many as there are."""
    cells = counts.by_cell()
    truth = np.repeat([1.0, 0.0], len(cells.cell))
    return truth, np.tile(cells.cell / CELLS, 2), np.concatenate((cells.wy, cells.w - cells.wy))


def handbook(n: int = 20_000) -> Counts:
    """The handbook's dummy data: scores of right rows are N(.8, .1), of wrong rows N(.4, .15); 30% are wrong."""
    rng = np.random.default_rng(7)
    right = rng.random(n) >= 0.3
    score = np.clip(np.where(right, rng.normal(0.8, 0.1, n), rng.normal(0.4, 0.15, n)), 0, 1)
    return counts_from_rows(score, right, score_is="confidence_in_prediction")


def reliability(axes: Axes) -> None:
    """The reliability diagram of the handbook's data: mean score and hit rate of each bin."""
    counts = handbook()
    points = reliability_data(bin_counts(counts, equal_frequency_edges(counts, 15))).points
    spread = np.array([[p.rate - p.low, p.high - p.rate] for p in points]).T
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    axes.errorbar([p.score for p in points], [p.rate for p in points], yerr=spread, fmt="o", color=BLUE, markersize=4)
    axes.set(xlabel="mean score", ylabel="hit rate", title="15 bins with 95% intervals")


def roc(axes: Axes) -> None:
    """The ROC curve of the example beside the diagonal of a blind classifier, with the present threshold."""
    truth, score, weight = rows_of(example())
    wrong, right, threshold = roc_curve(truth, score, sample_weight=weight, drop_intermediate=False)
    _curve(axes, (wrong, right), ([0, 1], [0, 1]), "blind", (threshold, 0.5))
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate", title="ROC")


def precision_recall(axes: Axes) -> None:
    """The precision-recall curve of the example beside the prevalence, the precision of a blind classifier."""
    truth, score, weight = rows_of(example())
    precision, recall, threshold = (each[::-1] for each in precision_recall_curve(truth, score, sample_weight=weight))
    level = [truth @ weight / weight.sum()] * 2
    _curve(axes, (recall[1:], precision[1:]), ([0, 1], level), "blind", (threshold, 0.5))
    axes.set(xlabel="recall", ylabel="precision", title="precision-recall")


def risk_coverage(axes: Axes) -> None:
    """The risk-coverage curve of the example beside the oracle, which ranks every wrong row last.

    The marked threshold meets an accuracy of .8.
    """
    curve, chosen = curve_of_risk(example()), threshold_for(example(), 0.8).threshold
    assert curve is not None
    assert chosen is not None
    overall = float(curve.risk[-1])
    coverage = np.linspace(1 - overall, 1, 33)  # the oracle bends at coverage 1 - risk
    oracle = [0.0, *coverage], [0.0, *(1 - (1 - overall) / coverage)]
    _curve(axes, (curve.coverage, curve.risk), oracle, "oracle", (curve.threshold, chosen))
    axes.set(xlabel="share that acts alone", ylabel="share of it that is wrong", title="risk-coverage")


def _curve(
    axes: Axes, curve: tuple[Floats, Floats], reference: tuple[Sequence[float], Sequence[float]], name: str,
    decision: tuple[Floats, float],
) -> None:  # fmt: skip
    """A curve, what to compare it with, and the decision "score >= threshold" on it."""
    axes.plot(*reference, color=GREY, linestyle="--", linewidth=1, label=name)
    axes.plot(*curve, color=BLUE, label="curve")
    thresholds, threshold = decision
    at = np.flatnonzero(thresholds >= threshold)[-1]
    axes.plot(curve[0][at], curve[1][at], "D", color=VERMILION, label=f"score ≥ {thresholds[at]:.2f}")
    axes.legend(frameon=False, fontsize=8)


PICTURES: dict[str, Callable[[Axes], None]] = {
    "reliability": reliability,
    "roc": roc,
    "precision-recall": precision_recall,
    "risk-coverage": risk_coverage,
}


def write(folder: Path) -> list[Path]:
    """Write every picture as a PNG of 480 x 360 points."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in PICTURES.items():
        figure, axes = plt.subplots(figsize=(4.8, 3.6), layout="constrained")
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=100, metadata={"Software": None})
        plt.close(figure)
        written.append(path)
    return written


if __name__ == "__main__":
    for path in write(TARGET):
        print(f"{path}: {path.stat().st_size:,} bytes")
