"""The rules that `calmon init` writes: those of alerts.yaml, and a floor where the owner gives one."""

from __future__ import annotations

import pytest

from benchmarks.weeks import SHIPPED
from monitor.config.load import load_config, parse_config
from monitor.config.model import Rule
from monitor.operations.starter_files import EVERY_KIND, starter_config

ACTING = {"automated-overconfidence", "lasting-overconfidence", "automated-accuracy-decrease"}
WATCHING = {"lasting-segments", "auc-decrease", "ece-increase", "score-shift"}


def rules_of(kind: str, must_be_right: float | None = None) -> dict[str, Rule]:
    settings = {"kind": kind, **({} if kind == "single_label" else {"score_is": "probability_of_label"})}
    text = starter_config("mail", "data/*.csv", settings, "UTC", must_be_right=must_be_right)
    return {rule.id: rule for rule in parse_config(text).rules}


@pytest.mark.parametrize("kind", sorted(EVERY_KIND))
def test_what_every_source_gets_is_as_in_alerts_yaml_and_what_is_proved_acts(kind: str) -> None:
    shipped, ours = {rule.id: rule for rule in load_config(SHIPPED).rules}, rules_of(kind)
    assert {name: ours[name] for name in ACTING | WATCHING} == {name: shipped[name] for name in ACTING | WATCHING}
    assert {name for name, rule in ours.items() if rule.acts} == ACTING
    assert {rule.severity for name, rule in ours.items() if name in ACTING} == {"critical"}
    assert ours["score-shift"].actions == ()


def test_a_floor_is_written_where_the_owner_gives_one() -> None:
    floor = rules_of("single_label", must_be_right=0.97)["automated-accuracy-floor"]
    assert (floor.metric, floor.condition, floor.threshold, floor.acts) == ("automated_accuracy", "below", 0.97, True)
    assert "automated-accuracy-floor" not in rules_of("single_label")
