"""What estimates and rules both ask for is drawn once, and shows the same number in both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.config.load import load_config
from monitor.core import windows
from monitor.core.counts import BinCounts, Counts, counts_from_rows
from monitor.core.records import Interval
from monitor.evaluation import estimates
from monitor.evaluation.evaluate import SourceData, WindowCounts, evaluate
from monitor.inference.memory import forget

CONFIG = load_config(Path(__file__).parents[3] / "alerts.yaml")
WINDOW = windows.week("2026-W46", CONFIG.zone)


def drawn(seed: int) -> Counts:
    rng = np.random.default_rng(seed)
    score = rng.random(2_000)
    return counts_from_rows(score, rng.random(2_000) < score**1.5, automate_at=0.8)


def test_a_rule_on_the_ece_and_equal_bins_take_the_draws_of_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    draw = estimates.ece_of

    def counting(tables: Sequence[BinCounts], *others: Any) -> list[Interval]:
        asked.append(len(tables))
        return draw(tables, *others)

    monkeypatch.setattr(estimates, "ece_of", counting)
    forget()
    rule = next(rule for rule in CONFIG.rules if rule.metric == "ece" and rule.condition == "above")
    level = rule.model_copy(update={"schedule": "weekly", "for_windows": 1})
    data = SourceData("mail", WindowCounts(WINDOW, {"billing": drawn(1), "phishing": drawn(2)}))
    found = evaluate(data, CONFIG.model_copy(update={"rules": (level,)}))
    # two labels, each in three populations and in bins of equal width: bins of equal frequency are the window's own
    assert sum(asked) == 2 * 3 + 2
    shown = {(e.subject.label, e.metric): e.interval for e in found.estimates if e.where == "all"}
    for verdict in found.verdicts:
        assert shown[verdict.subject.label, "ece"] == shown[verdict.subject.label, "ace"]
        ece = shown[verdict.subject.label, "ece"]
        assert (ece.value, ece.low, ece.high) == (verdict.value, verdict.low, verdict.high)
