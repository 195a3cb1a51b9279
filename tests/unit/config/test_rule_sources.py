"""Which rules can judge a source: those alone may change its switch, and have to be judged for a lease to last."""

from __future__ import annotations

import pytest

from monitor.config.load import parse_config
from monitor.config.model import Rule, RuleMatch
from monitor.config.rule_sources import acting_rules, can_judge

CONFIG = """\
version: 1
sources:
  tickets: {relation: tickets, score_is: probability_of_label, segments: [channel]}
  mail: {relation: mail, score_is: probability_of_label}
  early: {relation: early, score_is: probability_of_label, unresolved: true, columns: {predicted_at: created_at}}
  hours: {relation: hours, kind: regression}
rules:
  - {id: channels, metric: overconfidence, where: automated, condition: above, threshold: 0.08, scope: segments,
     segments: [channel], turns_off: segments, actions: [slack, disable_automation]}
  - {id: every-segment, metric: overconfidence, where: automated, condition: above, threshold: 0.08, scope: segments,
     segments: [all], actions: [slack, disable_automation]}
  - {id: overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     severity: critical, actions: [slack, disable_automation]}
  - {id: early, metric: expected_overconfidence, condition: above, threshold: 0.05, actions: [slack]}
  - {id: score-shift, test: ks, column: score, threshold: 0.1, severity: info, actions: [slack]}
automation: {when_not_evaluated: keep}
"""
ACTING = {
    "tickets": ["channels", "every-segment", "overconfidence"],
    "mail": ["every-segment", "overconfidence"],  # score_band is a segment of any source
    "early": ["every-segment", "overconfidence"],
    "hours": [],
    "unknown": [],
}


@pytest.mark.parametrize("source", ACTING)
def test_a_rule_about_segments_that_a_source_lacks_is_none_of_its_acting_rules(source: str) -> None:
    found = acting_rules(parse_config(CONFIG), source, "billing")
    assert [rule.id for rule in found] == ACTING[source]


def test_a_rule_judges_only_sources_that_have_what_it_is_about() -> None:
    config = parse_config(CONFIG)
    found = {name: [r.id for r in config.rules if can_judge(r, each)] for name, each in config.sources.items()}
    assert found == {
        "tickets": ["channels", "every-segment", "overconfidence", "score-shift"],
        "mail": ["every-segment", "overconfidence", "score-shift"],
        "early": ["every-segment", "overconfidence", "early", "score-shift"],
        "hours": [],
    }


def test_a_general_rule_leaves_out_labels_that_have_their_own() -> None:
    match = RuleMatch.model_validate({"source": "tickets", "except": ["fax", "billing"]})
    rule = Rule(id="general", metric="ece", threshold=0.02, match=match)
    asked = ["fax", "refund", "billing"]
    assert [rule.applies_to("tickets", label, critical=False) for label in asked] == [False, True, False]
    assert match.words == "source=tickets, except fax and billing"
    assert RuleMatch().words == ""
