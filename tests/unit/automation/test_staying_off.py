"""What does not come back by itself, since alerts.yaml has lost the rules whose good windows would bring it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.automation.label_evidence import stays_off
from monitor.config.load import load_config
from monitor.config.model import Config
from monitor.core.records import RuleEvidence, SwitchState, WindowOutcome

RULE = """\
  - {id: SCHEDULE-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     min_samples: 30, schedule: SCHEDULE, severity: critical, actions: [slack, disable_automation]}
"""
OFF = SwitchState("tickets", "billing", "off", actor="daily run")
BLOCKED = replace(OFF, state="on", blocked=((0.8, 0.9),))
NO_DAILY = "No daily rule acts on it any more, so it does not come back by itself"


@pytest.mark.parametrize(
    ("state", "acting", "re_enable", "words"),
    [
        (OFF, ("weekly",), "{after: 2}", NO_DAILY),
        (OFF, ("weekly", "daily"), "{after: 2}", ""),
        (OFF, ("weekly",), "manual", ""),
        (OFF, (), "manual", NO_DAILY.replace("daily rule", "rule")),
        (BLOCKED, ("weekly",), "{after: 2}", "No daily rule acts on it any more, so its blocked scores stay blocked"),
        (replace(OFF, counts="weekly run"), ("weekly",), "{after: 2}", ""),
        (replace(OFF, by_operator=True, actor="ana"), (), "{after: 2}", ""),
        (replace(OFF, state="on"), (), "{after: 2}", ""),
        (replace(OFF, source="mail"), (), "{after: 2}", ""),
    ],
)
def test_what_nothing_can_bring_back_is_known(
    state: SwitchState, acting: tuple[str, ...], re_enable: str, words: str, tmp_path: Path
):
    assert stays_off(state, config(acting, re_enable, tmp_path)) == words


def config(acting: Sequence[str], re_enable: str, folder: Path) -> Config:
    rules = "".join(RULE.replace("SCHEDULE", schedule) for schedule in acting)
    head = "version: 1\nsources: {tickets: {relation: tickets, score_is: probability_of_label}}\nrules:\n"
    info = "  - {id: ece, metric: ece, condition: above, threshold: 0.1, severity: info, actions: [slack]}\n"
    end = f"automation: {{when_not_evaluated: keep, re_enable: {re_enable}}}\n"
    (folder / "alerts.yaml").write_text(head + rules + info + end)
    return load_config(folder / "alerts.yaml")


@pytest.mark.parametrize(
    ("streak", "outcomes", "words"),
    [
        (2, ("unconfirmed", "breach", "ok"), "2 good windows, but no window of {rule} was within its threshold since"),
        (1, ("breach",), ""),
        (2, ("ok", "breach"), ""),
        (2, (), ""),
    ],
)
def test_good_windows_bring_nothing_back_while_a_rule_has_had_none_since_its_breach(
    streak: int, outcomes: Sequence[str], words: str, tmp_path: Path
):
    end, rule = datetime(2026, 11, 16, tzinfo=UTC), "daily-overconfidence"
    windows = tuple(WindowOutcome(end - number * timedelta(days=1), each, "v") for number, each in enumerate(outcomes))
    known = [RuleEvidence("tickets", "billing", rule, "daily", windows)]
    told = stays_off(replace(OFF, ok_streak=streak), config(("daily",), "{after: 2}", tmp_path), known)
    assert told == (words and f"{words.format(rule=rule)} its breach, so it does not come back by itself")
