"""The cost of every metric of one week, after the reading, for 20 labels of 100,000 rows each.

``python -m benchmarks.everything [--labels 20] [--rows 100000]`` prints processor seconds by kind of source.
"""

from __future__ import annotations

import argparse
import time
from zoneinfo import ZoneInfo

import numpy as np

from monitor.config.load import parse_config
from monitor.config.model import Config
from monitor.core.counts import Counts, ProbabilityRows, counts_from_rows, pool
from monitor.core.windows import week
from monitor.evaluation.data import SourceData, WholeSource, WindowCounts
from monitor.evaluation.evaluate import estimates_of
from monitor.inference.memory import forget

WANTED_S = 3.0
SEED = 20260101
KINDS = ("multilabel", "multiclass")
CONFIG = """\
version: 1
sources: {{tickets: {{relation: tickets, kind: {kind}, score_is: probability_of_label}}}}
rules: [{{id: ece, metric: ece, threshold: 0.2}}]
automation: {{when_not_evaluated: keep}}
"""


def config_of(kind: str) -> Config:
    """The default configuration, for a source of this kind."""
    return parse_config(CONFIG.format(kind=kind))


def source_of(kind: str, labels: int, rows: int) -> SourceData:
    """A week of a source whose labels have different populations; for multiclass also whole rows and ranks."""
    rng = np.random.default_rng(SEED)
    counts: dict[str | None, Counts] = {f"label {k:02d}": _label(rng, rows, 0.5 + k / labels) for k in range(labels)}
    counts[None] = pool(counts.values())
    whole = WholeSource() if kind == "multilabel" else _whole(rng, labels, rows)
    return SourceData("tickets", WindowCounts(week("2026-W46", ZoneInfo("UTC")), counts, {}, whole))


def _label(rng: np.random.Generator, rows: int, shape: float) -> Counts:
    score = rng.beta(shape, 2.0, rows)
    return counts_from_rows(score, rng.random(rows) < score**1.1, automate_at=0.8)


def _whole(rng: np.random.Generator, labels: int, rows: int) -> WholeSource:
    probability = rng.dirichlet(np.full(labels, 0.3), rows)
    true = (rng.random((rows, 1)) > probability.cumsum(axis=1)).sum(axis=1).clip(max=labels - 1)
    truth = np.eye(labels)[true]
    best = np.argsort(-probability, axis=1)
    ranked = {k: _of(probability, truth, best[:, :k]) for k in (1, 3, 5)}
    names = tuple(f"label {k:02d}" for k in range(labels))
    return WholeSource(ranked, ProbabilityRows(names, probability, truth, np.ones(rows), rows))


def _of(probability: np.ndarray, truth: np.ndarray, columns: np.ndarray) -> Counts:
    score, outcome = (np.take_along_axis(each, columns, axis=1).ravel() for each in (probability, truth))
    return counts_from_rows(score, outcome, automate_at=0.8)


def seconds(data: SourceData, config: Config) -> tuple[float, int]:
    """(processor seconds, number of estimates), with empty caches."""
    forget()
    start = time.process_time()
    found = estimates_of(data, config)
    return time.process_time() - start, len(found)


def main() -> None:
    """Print one line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    for kind in KINDS:
        took, n = seconds(source_of(kind, given.labels, given.rows), config_of(kind))
        print(f"{kind}: {n:,} estimates in {took:.2f} CPU s ({given.labels} labels x {given.rows:,}; < {WANTED_S} s)")


if __name__ == "__main__":
    main()
