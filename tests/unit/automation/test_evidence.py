"""What is kept of an acting rule: its last breach counts until a window within its threshold follows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.automation.evidence import KEPT, breach_of, breaches_of, is_against, with_verdict
from monitor.core.records import Outcome, Reason, RuleEvidence, Verdict
from tests.fakes import judged

EMPTY = RuleEvidence("tickets", "billing", "rule", "weekly", since=judged.MONDAY)
outcomes = st.sampled_from(["ok", "breach", "not_evaluated", "unconfirmed", "not read"])


def verdict(outcome: str, week: int, attempt: int = 0, actions: tuple[str, ...] = ("disable_automation",)) -> Verdict:
    more = {"reason": Reason.WAREHOUSE_FAILED} if outcome == "not read" else {}
    return judged.verdict(
        "not_evaluated" if more else outcome, judged.window(-week), id=f"{outcome} {week} {attempt}",
        actions=actions if outcome == "breach" else (), detail={"blocked": [[0.81, 0.9]]}, **more,
    )  # fmt: skip


def after(*found: tuple[str, int]) -> RuleEvidence:
    evidence = EMPTY
    for attempt, (outcome, week) in enumerate(found):
        evidence = with_verdict(evidence, verdict(outcome, week, attempt))
    return evidence


@settings(max_examples=400)
@given(st.lists(st.tuples(outcomes, st.integers(1, 4)), max_size=10))
def test_the_evidence_is_that_of_every_window_as_it_was_last_said(found: list[tuple[str, int]]):
    """Against a plain table of windows, worked out anew."""
    table = {}
    for attempt, (outcome, week) in enumerate(found):
        before, _ = table.get(week, ("", 0))
        if outcome == "not read" or (before == "breach" and outcome not in ("ok", "breach")):
            continue  # nothing new is known; only ok clears a breach, which late truths may bring
        table[week] = outcome, attempt
    decisive = [(name, f"{name} {week} {k}") for week, (name, k) in sorted(table.items()) if name in ("ok", "breach")]
    evidence = after(*found)
    name, last = (decisive or [("ok", "")])[-1]
    kept = breach_of(evidence)
    assert (kept and kept.verdict) == (last if name == "breach" else None)
    weeks = [week for outcome, week in found if outcome != "not read"]
    assert evidence.judged_until == (judged.window(-max(weeks)).end if weeks else None)
    again = with_verdict(evidence, verdict(*found[-1], len(found) - 1)) if found else evidence
    assert again == evidence, "the same verdict twice says the same"


def test_however_many_windows_are_not_confirmed_the_breach_before_them_is_kept():
    evidence = after(("breach", 1), *(("unconfirmed", week) for week in range(2, 60)))
    assert len(evidence.windows) == KEPT + 1
    assert breach_of(evidence) is not None
    assert breach_of(after(("breach", 1), ("ok", 2), *(("unconfirmed", week) for week in range(3, 60)))) is None


def test_scores_that_are_blocked_answer_the_breach_that_names_them():
    blocks = with_verdict(EMPTY, verdict("breach", 1, actions=("block_scores",)))
    assert blocks.windows[0].blocked == ((0.81, 0.9),)
    assert [is_against([blocks], r) for r in ([], [(0.8, 0.9)], [(0.81, 0.85), (0.85, 0.9)], [(0.82, 0.95)])] == [
        True, False, True, True,
    ]  # fmt: skip
    both = with_verdict(EMPTY, verdict("breach", 1, actions=("block_scores", "disable_automation")))
    assert (both.windows[0].blocked, is_against([both], [(0.0, 1.0)])) == ((), True)
    assert [rule.rule for rule, _ in breaches_of([blocks, both])] == ["rule", "rule"]
    assert not breaches_of([blocks, both])[0][1].blocked, "what turns off comes first"


@pytest.mark.parametrize("outcome", ["unconfirmed", "not_evaluated"])
def test_accumulated_evidence_that_has_fallen_again_ends_its_breach(outcome: Outcome):
    before = after(("breach", 0))
    for suspected in (True, False):
        later = replace(verdict(outcome, 1), detail={"suspected": suspected})
        assert (breach_of(with_verdict(before, later)) is None) == (not suspected)
