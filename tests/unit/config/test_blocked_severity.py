"""Blocking scores is critical only where they act alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.config.model import LabelConfig, Rule, SourceConfig
from monitor.core.records import Comparison, Subject, Verdict, Window
from monitor.evaluation.verdicts import decide

END = datetime(2026, 11, 16, tzinfo=UTC)
SOURCE = SourceConfig(
    relation="tickets", score_is="probability_of_label", automate_at=0.8, labels={"early": LabelConfig(automate_at=0.6)}
)


def judged(blocked: list[list[float]], label: str | None = "billing", **rule: Any) -> Verdict:
    asked = {
        "id": "block",
        "metric": "mce",
        "threshold": 0.2,
        "severity": "critical",
        "actions": ("block_scores",),
    } | rule
    evidence = Comparison(
        Subject("tickets", label), Window(END - timedelta(weeks=1), END, "2026-W46", "weekly"), value=0.4, p_value=1e-9,
        beyond=True, adequate=True, detail={"blocked": blocked},
    )  # fmt: skip
    (verdict,) = decide(
        Rule(**asked), [evidence], rate=0.01, decision_rules=1, revision="r", acts_from=SOURCE.least_automate_at
    )
    assert verdict.outcome == "breach"
    return verdict


@pytest.mark.parametrize(
    ("blocked", "severity"),
    [
        ([[0.5, 0.7]], "warning"), ([[0.5, 0.79]], "warning"), ([[0.5, 0.8]], "critical"), ([[0.9, 1.0]], "critical"),
        ([[0.5, 0.7931]], "critical"),  # rounded outwards it reaches 0.8
        ([[0.1, 0.2], [0.85, 0.9]], "critical"), ([], "critical"),  # no range: the switch turns the label off
    ],
)  # fmt: skip
def test_a_block_is_critical_only_where_it_reaches_the_scores_that_act_alone(blocked: Any, severity: str) -> None:
    assert judged(blocked).severity == severity


@pytest.mark.parametrize("label", ["early", None])
def test_what_counts_is_where_the_label_acts_or_any_label_of_the_source(label: str | None) -> None:
    scope = "labels" if label else "source"
    assert judged([[0.5, 0.7]], label, scope=scope).severity == "critical"
    assert judged([[0.5, 0.55]], label, scope=scope).severity == "warning"


def test_a_rule_that_also_turns_off_stays_critical_and_others_keep_their_severity() -> None:
    assert judged([[0.5, 0.7]], actions=("block_scores", "disable_automation")).severity == "critical"
    assert judged([[0.5, 0.7]], severity="info").severity == "info"


def test_the_ranges_of_a_verdict_are_those_that_will_be_blocked() -> None:
    assert judged([[0.8537, 0.8801], [0.8801, 0.9012]]).detail["blocked"] == [[0.85, 0.91]]
