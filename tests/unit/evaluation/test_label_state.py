"""One state of a label for people: worst first, and never ok where a rule was not evaluated."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.records import Outcome, Reason, Severity, Subject, Verdict, Window
from monitor.evaluation.label_state import State, state_of

WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
REASONS: dict[Outcome, Reason] = {
    "breach": Reason.INCREASED, "unconfirmed": Reason.NOT_SIGNIFICANT_IN_FAMILY, "ok": Reason.WITHIN_THRESHOLD,
    "not_evaluated": Reason.TOO_FEW_ROWS,
}  # fmt: skip


def verdict(outcome: Outcome, rule: str = "ece-increase", severity: Severity = "warning", **more: object) -> Verdict:
    known = {"subject": Subject("tickets", "billing"), "reason": REASONS[outcome]} | more
    return Verdict(  # type: ignore[misc]
        f"{rule}{outcome}", rule, known.pop("subject"), WEEK, "ece", "all", outcome, known.pop("reason"), severity,  # type: ignore[arg-type]
        0.02, **known,  # type: ignore[arg-type]
    )  # fmt: skip


def words(*verdicts: Verdict) -> str:
    return state_of(verdicts).words


def test_a_label_of_which_one_rule_was_not_evaluated_is_not_ok_and_names_the_rule_and_why() -> None:
    found = state_of([verdict("ok", "mce-increase"), verdict("not_evaluated")])
    assert found.state is State.NOT_EVALUATED
    assert found.words == "not evaluated: too_few_rows (ece-increase)"


def test_ok_says_that_every_rule_was_evaluated() -> None:
    assert words(verdict("ok")) == "ok: its rule was evaluated"
    assert words(verdict("ok"), verdict("ok", "mce-increase")) == "ok: all 2 rules were evaluated"


def test_beyond_the_limit_without_proof_has_words_of_its_own() -> None:
    assert words(verdict("unconfirmed"), verdict("ok", "auc-floor")) == (
        "above the limit, not confirmed: ece-increase (not_significant_in_family)"
    )
    floor = verdict("unconfirmed", "auc-floor", detail={"condition": "below"})
    assert words(floor).startswith("below the limit, not confirmed: auc-floor")


def test_a_breach_is_said_by_severity_and_does_not_hide_the_rest() -> None:
    found = state_of([
        verdict("breach"), verdict("breach", "automated-overconfidence", "critical", reason=Reason.ABOVE_THRESHOLD),
        verdict("unconfirmed", "mce-increase"), verdict("not_evaluated", "auc-floor"), verdict("ok", "score-shift"),
    ])  # fmt: skip
    assert (found.state, found.severity) == (State.BREACH, "critical")
    assert found.lines == (
        "critical breach: automated-overconfidence (above_threshold)", "warning breach: ece-increase (increased)",
        "above the limit, not confirmed: mce-increase (not_significant_in_family)",
        "not evaluated: too_few_rows (auc-floor)",
    )  # fmt: skip


def test_without_a_rule_nothing_is_claimed() -> None:
    assert (state_of([]).state, words()) == (State.NO_RULE, "no rule")


def test_reasons_are_grouped_with_their_rules() -> None:
    several = [verdict("not_evaluated", "a"), verdict("not_evaluated", "b"),
               verdict("not_evaluated", "c", reason=Reason.NO_BASELINE)]  # fmt: skip
    assert words(*several) == "not evaluated: too_few_rows (a, b), no_baseline (c)"


OUTCOMES = st.lists(
    st.tuples(st.sampled_from(list(REASONS)), st.sampled_from(["critical", "warning", "info"])), max_size=6
)


@given(OUTCOMES)
def test_the_state_is_that_of_the_worst_verdict_and_ok_needs_all(found: list[tuple[Outcome, Severity]]) -> None:
    made = state_of([verdict(outcome, f"r{k}", severity) for k, (outcome, severity) in enumerate(found)])
    outcomes = {outcome for outcome, _ in found}
    worst = next((o for o in ("breach", "unconfirmed", "not_evaluated", "ok") if o in outcomes), "no_rule")
    assert made.state == worst
    assert ("ok:" in made.words) == (outcomes == {"ok"})


@pytest.mark.parametrize(("worse", "better"), [
    ([("breach", "critical")], [("breach", "warning")]), ([("breach", "info")], [("unconfirmed", "critical")]),
    ([("unconfirmed", "warning")], [("not_evaluated", "critical")]), ([("not_evaluated", "info")], [("ok", "info")]),
    ([("ok", "info")], []),
])  # fmt: skip
def test_the_worse_comes_first(worse: list[tuple[Outcome, Severity]], better: list[tuple[Outcome, Severity]]) -> None:
    first, second = (state_of([verdict(o, severity=s) for o, s in each]) for each in (worse, better))
    assert first.rank < second.rank
