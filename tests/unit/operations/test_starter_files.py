"""The rules that `calmon init` writes: the shipped ones, those behind a # in alerts.yaml among them."""

from __future__ import annotations

import re

import pytest

from benchmarks.weeks import SHIPPED
from monitor.config.load import parse_config
from monitor.config.model import Rule
from monitor.operations.starter_files import EVERY_KIND, starter_config

LASTING = {"lasting-overconfidence", "lasting-segments", "auc-decrease"}


def rules_of(kind: str) -> dict[str, Rule]:
    settings = {"kind": kind, **({} if kind == "single_label" else {"score_is": "probability_of_label"})}
    return {rule.id: rule for rule in parse_config(starter_config("mail", "data/*.csv", settings, "UTC")).rules}


@pytest.mark.parametrize("kind", sorted(EVERY_KIND))
def test_every_source_gets_the_rules_on_what_lasts_and_on_a_fall_of_the_auc(kind: str) -> None:
    assert set(rules_of(kind)) >= LASTING


def test_they_are_those_that_alerts_yaml_has_behind_a_hash() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert all(re.search(rf"^  # - {{id: {name}, ", text, re.MULTILINE) for name in LASTING)
    taken = re.sub(r"^  # - {id: ", "  - {id: ", text, flags=re.MULTILINE)
    shipped = {rule.id: rule for rule in parse_config(taken).rules}
    ours = rules_of("multilabel")
    assert {name: ours[name] for name in LASTING} == {name: shipped[name] for name in LASTING}
