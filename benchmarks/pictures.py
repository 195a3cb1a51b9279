"""Writes the pictures of docs/curves.md: ``python -m benchmarks.pictures`` (seconds; the same pictures every time)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.selective import threshold_for
from monitor.report.figures.curves import Curve, precision_recall_data, risk_coverage_data, roc_data
from monitor.report.figures.png import BLUE, GREY, VERMILION
from monitor.report.figures.reliability import reliability_data

TARGET = Path(__file__).parents[1] / "docs" / "pictures"


def example(n: int = 20_000) -> Counts:
    """A made-up label: a third of the rows are positive, high scores are a little overconfident."""
    rng = np.random.default_rng(7)
    score = rng.beta(0.9, 1.4, n)
    truth = rng.random(n) < np.where(score > 0.6, score - 0.25 * (score - 0.6), score)
    return counts_from_rows(score, truth, automate_at=0.8)


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
    """The ROC curve of the example, with the present threshold."""
    _curve(axes, roc_data(example(), threshold=0.5))


def precision_recall(axes: Axes) -> None:
    """The precision-recall curve of the example."""
    _curve(axes, precision_recall_data(example(), threshold=0.5))


def risk_coverage(axes: Axes) -> None:
    """The risk-coverage curve of the example, with the threshold that meets an accuracy of .8."""
    found = threshold_for(example(), 0.8)
    _curve(axes, risk_coverage_data(example(), threshold=found.threshold))


def _curve(axes: Axes, curve: Curve | None) -> None:
    if curve is None:
        raise ValueError("the example has no such curve")
    axes.plot(*zip(*curve.reference, strict=True), color=GREY, linestyle="--", linewidth=1, label=curve.reference_name)
    axes.plot([p.x for p in curve.points], [p.y for p in curve.points], color=BLUE, label="curve")
    if curve.chosen is not None:
        axes.plot(
            [curve.chosen.x], [curve.chosen.y], "D", color=VERMILION, label=f"score ≥ {curve.chosen.threshold:.2f}"
        )
    axes.set(xlabel=curve.x_title, ylabel=curve.y_title, title=curve.name)
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=TARGET, help="the folder to write into")
    for path in write(parser.parse_args().into):
        print(f"{path}: {path.stat().st_size:,} bytes")
