"""What is said of a label from its verdicts, and of a trouble from the windows behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig
from monitor.core.counts import counts_from_rows
from monitor.core.diagnoses import Diagnosis, DiagnosisState, LabelProblem, LikelyCause, NextStep, NotTold
from monitor.core.promises import PastWindow, Promise, Segment, pooled_promise
from monitor.core.records import SCORE_BAND, Annotation, Reason, Subject, Verdict
from monitor.core.rejection_records import Rejection, RejectionCause, Rejections, Why
from monitor.core.windows import day, week
from monitor.evaluation.diagnosis import diagnose
from monitor.evaluation.label_facts import LabelFacts
from monitor.evaluation.shift.onset import Level
from monitor.evaluation.trouble import higher_score
from monitor.report.run_document import label_row
from monitor.story.label import cause_words, doubt_of
from tests.fakes import judged

UTC = ZoneInfo("UTC")
ROWS = 400
FAULT_AT = 9
WEEKS = [week(f"2026-W{number}", UTC) for number in range(20, 34)]
LAST = WEEKS[-1]
ACTS = frozenset({"acts"})
TOO_MANY = Rejection(Why.SHARE, RejectionCause.SCORE_MISSING, 90, ROWS)


def verdict(rule: str = "acts", outcome: str = "breach", **given: Any) -> Verdict:
    severity, of = "critical" if rule == "acts" else "warning", {"metric": "overconfidence", "where": "automated"}
    known = {"id": f"{rule}-id", "rule": rule, "severity": severity, "value": 0.1, "n": ROWS}
    return judged.verdict(outcome, LAST, **(of | known | given))


def not_judged(reason: Reason = Reason.TOO_FEW_ROWS, **given: Any) -> Verdict:
    return verdict(outcome="not_evaluated", reason=reason, **given)


def facts(*verdicts: Verdict, windows: Sequence[PastWindow] = (), **given: Any) -> LabelFacts:
    known = {"weekly": windows}
    return LabelFacts(
        "mail", "billing", LAST, EvaluationConfig(), verdicts, given.pop("acting", ACTS), windows=known, **given
    )


def promises(share: float, kept: float, claimed: float = 0.9) -> dict[Any, Promise]:
    rows = round(ROWS * share)
    return {where: Promise(rows, float(rows), claimed, kept) for where in ("all", "automated")} if rows else {}


def world(
    parts: Mapping[Segment, Sequence[tuple[float, float]]], wobble: float = 0.004, version: Sequence[str] = ()
) -> list[PastWindow]:
    """The windows of a label: by segment, the share of the rows and the hit rate of each week.

    The label has the rows of the channels.
    """
    rng, found = np.random.default_rng(7), []
    for at, window in enumerate(WEEKS):
        noise = rng.normal(0, wobble)
        known = {segment: (of[at][0], of[at][1] + noise) for segment, of in parts.items()}
        kept = sum(share * rate for (column, _), (share, rate) in known.items() if column == "channel")
        segments = {segment: promises(*of) for segment, of in known.items() if of[0] > 0}
        labels = {"billing": promises(1.0, kept)}
        found.append(
            PastWindow(window, labels, {version[at] if version else "1": ROWS}, segments={"billing": segments})
        )
    return found


def broken(share: float, kept: float, at: int = FAULT_AT) -> list[tuple[float, float]]:
    return [(share, 0.9 if k < at else kept) for k in range(len(WEEKS))]


EVERYWHERE = {("channel", "web"): broken(0.5, 0.75), ("channel", "email"): broken(0.5, 0.75)}
IN_ONE = {("channel", "web"): broken(0.3, 0.6), ("channel", "email"): [(0.7, 0.9)] * len(WEEKS)}


def found_in(parts: Mapping[Segment, Sequence[tuple[float, float]]], **given: Any) -> Diagnosis:
    version = given.pop("version", ())
    return diagnose(facts(verdict(), windows=world(parts, version=version), **given))


# --- the state


def test_a_breach_of_a_rule_that_acts_is_unsafe_and_of_another_degraded():
    assert diagnose(facts(verdict(), verdict("other", "ok"))).state is DiagnosisState.UNSAFE
    assert diagnose(facts(verdict(outcome="ok"), verdict("other"))).state is DiagnosisState.DEGRADED


def test_an_unconfirmed_verdict_and_a_breach_of_severity_info_are_notes_of_a_fine_label():
    told = diagnose(facts(verdict(outcome="unconfirmed"), verdict("shift", severity="info")))
    assert (told.state, told.notes.unconfirmed, told.notes.info) == (DiagnosisState.FINE, ("acts",), ("shift",))
    assert told.because == ("acts-id",)


def test_a_label_is_fine_only_where_a_rule_that_acts_was_judged():
    assert diagnose(facts(not_judged(), verdict("other", "ok"))).state is DiagnosisState.CANNOT_TELL
    assert diagnose(facts(not_judged(), verdict("other", "ok"), acting=frozenset())).state is DiagnosisState.FINE


def test_a_verdict_of_long_ago_says_nothing_of_the_present():
    old = replace(LAST, start=LAST.start - timedelta(weeks=3), end=LAST.end - timedelta(weeks=3))
    assert diagnose(facts(verdict(outcome="ok", window=old))).state is DiagnosisState.CANNOT_TELL
    yesterday = day("2026-08-15", UTC)
    assert diagnose(facts(verdict(outcome="ok", window=yesterday))).state is DiagnosisState.FINE


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (Reason.NO_ROWS, NotTold.NO_TRUTH_WHERE_IT_ACTS), (Reason.REJECTED_ROWS, NotTold.REJECTED_ROWS),
        (Reason.RELATION_ERROR, NotTold.SOURCE_NOT_READ), (Reason.NOT_MATURE, NotTold.NOT_MATURE),
        (Reason.SCORES_MOVED, NotTold.NO_BASELINE), (Reason.TOO_FEW_ROWS, NotTold.TOO_FEW_ROWS),
    ],
)  # fmt: skip
def test_why_nothing_can_be_told(reason: Reason, told: NotTold):
    assert diagnose(facts(not_judged(reason))).reason is told


def test_a_window_of_the_baseline_itself_asks_for_no_other_baseline():
    inside = diagnose(facts(not_judged(Reason.IN_BASELINE)))
    assert (inside.reason, inside.advice) == (NotTold.NO_BASELINE, None)
    assert doubt_of(inside) == "2026-W33 is part of what its baseline was made from"
    lacking = diagnose(facts(not_judged(Reason.NO_BASELINE), not_judged(Reason.IN_BASELINE, rule="other")))
    assert (lacking.reason, lacking.advice) == (NotTold.NO_BASELINE, NextStep("pin_again"))
    assert doubt_of(lacking) == "there is no baseline that it can be compared with in 2026-W33"


def test_a_day_without_rows_says_the_last_day_with_some():
    today, (yesterday, before) = day("2026-08-16", UTC), (day(f"2026-08-{n}", UTC) for n in (15, 14))
    days = [replace(world(EVERYWHERE)[-1], window=each) for each in (before, yesterday)]
    empty = replace(facts(not_judged(Reason.NO_ROWS, n=0, window=today)), window=today)
    told = diagnose(replace(empty, windows={"weekly": world(EVERYWHERE)[:-1], "daily": days}))
    assert (told.notes.last_rows, told.notes.usual_rows) == ("2026-08-15", ROWS)
    assert diagnose(replace(empty, windows={"weekly": world(EVERYWHERE)[:-1]})).notes.last_rows == "2026-W32"


def test_a_label_without_rows_says_when_it_had_some_last_and_how_many_it_had():
    told = diagnose(facts(not_judged(Reason.NO_ROWS, n=0), windows=world(EVERYWHERE)[:-1]))
    assert (told.reason, told.notes.last_rows, told.notes.usual_rows) == (NotTold.NO_ROWS, "2026-W32", ROWS)


def test_too_few_rows_say_how_many_weeks_would_do():
    few = not_judged(n=20, windows=2, detectable=0.3, detail={"rows_needed": 30, "seen_at_most": 0.1})
    assert diagnose(facts(few)).notes.weeks == 18
    assert diagnose(facts(replace(few, detectable=None))).notes.weeks == 3


# --- the problem


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, LabelProblem.OVERCONFIDENT),
        ({"metric": "automated_accuracy"}, LabelProblem.LESS_ACCURATE),
        ({"metric": "false_negative_rate", "where": "all"}, LabelProblem.MISSES),
        ({"metric": "roc_auc", "where": "all"}, LabelProblem.LESS_DISCRIMINATING),
        ({"metric": "ece", "where": "all"}, LabelProblem.OVERCONFIDENT),
        ({"metric": "ece", "where": "all", "reason": Reason.TRAFFIC_MIX}, LabelProblem.SHIFTED),
        ({"metric": "ks", "reason": Reason.DISTRIBUTION_SHIFTED}, LabelProblem.SHIFTED),
    ],
)
def test_what_is_wrong(given: dict[str, Any], problem: LabelProblem):
    assert diagnose(facts(verdict(**given), windows=world(EVERYWHERE))).problem is problem


def test_the_most_harmful_problem_of_the_rules_that_act_leads():
    told = diagnose(facts(verdict("other"), verdict(metric="automated_accuracy"), windows=world(EVERYWHERE)))
    assert (told.problem, set(told.because)) == (LabelProblem.LESS_ACCURATE, {"acts-id", "other-id"})


# --- since when, where and why


def test_the_beginning_never_moves_later_while_the_trouble_goes_on():
    first = replace(found_in(EVERYWHERE), window=WEEKS[-3], found=WEEKS[-3].name)
    earlier = replace(first, since=replace(first.since, window=WEEKS[5].name))  # type: ignore[type-var]
    for between in ((), (Diagnosis("mail", "billing", WEEKS[-2], DiagnosisState.CANNOT_TELL),)):
        told = found_in(EVERYWHERE, past=(earlier, *between))
        assert (told.since, told.found) == (earlier.since, WEEKS[-3].name)
    healed = Diagnosis("mail", "billing", WEEKS[-2], DiagnosisState.FINE)
    again = found_in(EVERYWHERE, past=(earlier, healed))
    assert again.since.window >= WEEKS[-2].name
    assert again.found == LAST.name


def test_a_trouble_that_cannot_be_judged_keeps_its_name_and_its_beginning():
    first = replace(found_in(EVERYWHERE), window=WEEKS[-2])
    told = diagnose(facts(not_judged(), past=(first,)))
    assert (told.state, told.problem, told.since) == (DiagnosisState.CANNOT_TELL, first.problem, first.since)


def test_the_part_is_that_with_the_largest_gap_and_not_that_with_most_rows():
    parts = {**IN_ONE, ("model_version", "2.1"): broken(1.0, 0.81)}
    told = found_in(parts)
    assert told.segment == ("channel", "web")
    assert told.since.window == WEEKS[FAULT_AT].name
    assert told.cause is None


def test_parts_that_compensate_each_other_are_seen():
    parts = {("channel", "web"): broken(0.3, 0.6), ("channel", "email"): broken(0.7, 0.9 + 0.3 * 0.3 / 0.7)}
    assert found_in(parts).segment == ("channel", "web")


@pytest.mark.parametrize("late", [0, 1, 3])
def test_a_version_that_all_rows_have_is_the_cause_only_if_the_break_comes_with_it(late: int):
    arrives = FAULT_AT + late
    told = found_in(EVERYWHERE, version=["1"] * arrives + ["2"] * (len(WEEKS) - arrives))
    assert (told.cause and told.cause.text) == (None if late else "version 2")


@pytest.mark.parametrize("state", ["rejected", "without rows"])
@pytest.mark.parametrize(("early", "began"), [(1, FAULT_AT - 1), (2, None)])
def test_a_version_came_in_the_window_that_had_it_first_even_if_that_was_not_judged(
    state: str, early: int, began: int | None
):
    arrives = FAULT_AT - early
    windows = world(EVERYWHERE, version=["1"] * arrives + ["2"] * (len(WEEKS) - arrives))
    for at in range(arrives, FAULT_AT):
        away = {"rejected": Rejections({"billing": TOO_MANY})} if state == "rejected" else {"labels": {}}
        windows[at] = replace(windows[at], **away)
    told = diagnose(facts(verdict(), windows=windows))
    assert told.since.window == WEEKS[FAULT_AT].name
    assert (told.cause and told.cause.began) == (None if began is None else WEEKS[began].name)


@pytest.mark.parametrize(("of_version_1", "cause"), [(ROWS, None), (ROWS - 1, "version 2")])
def test_a_version_of_the_source_of_which_the_label_may_have_no_row_is_no_cause(of_version_1: int, cause: str | None):
    mixed = {"1": of_version_1, "2": 20 * ROWS}
    version = ["1"] * FAULT_AT + ["2"] * (len(WEEKS) - FAULT_AT)
    windows = [
        replace(each, versions=mixed) if each.main_version == "2" else each
        for each in world(EVERYWHERE, version=version)
    ]
    told = diagnose(facts(verdict(), windows=windows))
    assert (told.cause and told.cause.text) == cause


def test_a_version_of_some_rows_is_the_cause_if_these_became_worse_than_the_others():
    def arrives(kept: float) -> dict[Segment, list[tuple[float, float]]]:
        new = [(0.0 if at < FAULT_AT else 0.4, kept) for at in range(len(WEEKS))]
        old = [(1.0 if at < FAULT_AT else 0.6, 0.9) for at in range(len(WEEKS))]
        whole = broken(1.0, 0.4 * kept + 0.6 * 0.9)
        return {("channel", "web"): whole, ("model_version", "2"): new, ("model_version", "1"): old}

    told = found_in(arrives(0.6))
    assert told.segment == ("model_version", "2")
    row = label_row(told, None)
    assert (row["cause"], row["cause_began"]) == ("version 2", WEEKS[FAULT_AT].name)
    assert row["cause_share"] == pytest.approx(1.0, abs=0.05)  # the others have not changed
    assert label_row(found_in(EVERYWHERE), None)["cause_share"] is None
    everywhere = {**arrives(0.75), ("channel", "web"): broken(1.0, 0.75), ("model_version", "1"): [
        (1.0 if at < FAULT_AT else 0.6, 0.9 if at < FAULT_AT else 0.75) for at in range(len(WEEKS))
    ]}  # fmt: skip
    told = found_in(everywhere)
    assert (told.segment, told.cause) == (None, None)


def test_more_rows_of_a_part_that_was_always_worse_are_a_mix():
    phone = [(0.1 if at < FAULT_AT else 0.6, 0.6) for at in range(len(WEEKS))]
    email = [(0.9 if at < FAULT_AT else 0.4, 0.9) for at in range(len(WEEKS))]
    told = found_in({("channel", "phone"): phone, ("channel", "email"): email})
    assert (told.segment, told.cause and told.cause.text) == (None, "mix channel=phone")


OF_TRUE, OF_OTHERS = (0.2, 0.2, 0.3, 0.3), (0.8, 0.15, 0.04, 0.01)
"""Where true items, and others, are in the four bands of scores."""
SHIFT = tuple(zip(("below 0.5", "0.5 to 0.8", "0.8 to 0.9", "from 0.9"), OF_TRUE, OF_OTHERS, strict=True))


def seasonal(
    then: float, now: float, *, faulty: bool = False, score_is: str = "probability_of_label"
) -> list[PastWindow]:
    """Windows in which the share of true items goes from ``then`` to ``now``; or as many true items become others."""

    def part(share: float, band: tuple[str, float, float], kept: float) -> Promise:
        rows, claimed = (
            share * band[1] + (1 - share) * band[2],
            then * band[1] / (then * band[1] + (1 - then) * band[2]),
        )
        return Promise(
            round(20_000 * rows), 20_000 * rows, claimed, claimed * kept if faulty else share * band[1] / rows
        )

    found = []
    for at, window in enumerate(WEEKS):
        share = then if at < FAULT_AT or faulty else now
        bands = {band[0]: part(share, band, now / then if at >= FAULT_AT else 1.0) for band in SHIFT}
        acting = {name: each for name, each in bands.items() if name in ("0.8 to 0.9", "from 0.9")}
        segments = {(SCORE_BAND, name): {"all": each} for name, each in bands.items()}
        segments |= {(SCORE_BAND, name): {"all": each, "automated": each} for name, each in acting.items()}
        of_label = {"all": pooled_promise(list(bands.values())), "automated": pooled_promise(list(acting.values()))}
        settings = {"score_is": score_is}
        found.append(PastWindow(window, {"billing": of_label}, {}, segments={"billing": segments}, settings=settings))
    return found


def test_another_share_of_true_items_is_the_cause_where_nothing_else_changed():
    told = diagnose(facts(verdict(), windows=seasonal(0.3, 0.15)))
    assert (told.cause.text, told.cause.began) == ("class_mix 30% to 15%", WEEKS[FAULT_AT].name)
    assert told.cause.share == pytest.approx(1.0, abs=0.05)
    assert "its share of all items went from 30% to 15%" in cause_words(told.cause)


def test_of_a_fall_that_is_more_than_that_it_is_said_how_much_another_share_explains():
    windows = seasonal(0.3, 0.15)  # .15 less often right in the bands, with the rows that they have since
    for at, window in enumerate(windows[FAULT_AT:], FAULT_AT):
        acting = window.labels["billing"]["automated"]
        further = {**window.labels["billing"], "automated": replace(acting, kept=acting.kept - 0.05)}
        windows[at] = replace(window, labels={"billing": further})
    told = diagnose(facts(verdict(), windows=windows))
    assert (told.cause.kind, told.cause.share) == ("class_mix", pytest.approx(0.15 / 0.2, abs=0.005))


@pytest.mark.parametrize(
    "windows",
    [seasonal(0.3, 0.15, faulty=True), seasonal(0.3, 0.3), seasonal(0.3, 0.15, score_is="confidence_in_prediction")],
    ids=["as many true items less, with the scores as before", "nothing", "right decisions are no class"],
)
def test_a_fault_is_no_other_share_of_true_items(windows: Sequence[PastWindow]):
    assert diagnose(facts(verdict(), windows=windows)).cause is None


@pytest.mark.parametrize(
    ("weeks", "text"), [(-2, None), (-1, "annotation prompt v7"), (0, "annotation prompt v7"), (1, None), (4, None)]
)
def test_an_annotation_is_a_cause_near_the_break_only(weeks: int, text: str | None):
    at = WEEKS[FAULT_AT].start + timedelta(weeks=weeks, days=1)
    note = Annotation("n", "mail", None, at, "prompt v7", at, "ana")
    told = found_in(EVERYWHERE, annotations=(note,))
    assert (told.cause and told.cause.text) == text


def test_a_metric_without_promises_is_dated_by_its_own_values():
    levels = [Level(each.name, 0.9 - 0.1 * (at >= FAULT_AT), 0.0001) for at, each in enumerate(WEEKS)]
    lead = verdict(metric="roc_auc", where="all", detail={"condition": "decrease"})
    told = diagnose(facts(lead, windows=world(EVERYWHERE), levels={("roc_auc", "all"): levels}))
    assert told.since.window == WEEKS[FAULT_AT].name


# --- what it costs, and what to do


def test_the_cost_is_that_of_the_time_on_else_what_it_would_have_been():
    would = found_in(EVERYWHERE).cost
    since = WEEKS[FAULT_AT:]
    assert (would.acted, would.items) == (False, ROWS * len(since))
    on = {("billing", since[0].name): 1.0, ("billing", since[1].name): 0.5}
    cost = found_in(EVERYWHERE, time_on=on).cost
    assert (cost.acted, cost.items) == (True, 1.5 * ROWS)
    assert cost.extra_errors == pytest.approx(cost.items * (cost.claimed - cost.correct))
    assert cost.low < cost.extra_errors < cost.high


def test_what_a_day_found_first_costs_the_weeks_that_begin_after_it():
    first = found_in(EVERYWHERE)
    day = f"{WEEKS[FAULT_AT].start + timedelta(days=2):%Y-%m-%d}"
    earlier = replace(first, window=WEEKS[-2], since=replace(first.since, window=day, low=day, high=day))  # type: ignore[type-var]
    told = found_in(EVERYWHERE, past=(earlier,))
    assert told.since == earlier.since
    assert told.cost.items == ROWS * len(WEEKS[FAULT_AT + 1 :])
    newest = diagnose(facts(verdict(), windows=world(EVERYWHERE)[: FAULT_AT + 1], past=(earlier,)))
    assert newest.since == earlier.since
    assert newest.cost.items == ROWS  # the week of that day, where no later one is known


def test_a_version_stays_the_cause_after_a_later_one_took_its_rows():
    first = found_in(EVERYWHERE)
    cause = LikelyCause("version", "2", first.since.window)
    wrong = replace(first.since, window=WEEKS[-1].name)  # type: ignore[type-var]  # it surely began earlier
    told = [
        found_in(EVERYWHERE, past=(replace(first, window=WEEKS[-2], cause=kept, since=since),)).cause
        for kept, since in ((cause, first.since), (replace(cause, kind="mix"), first.since), (cause, wrong))
    ]
    assert told == [cause, None, None]


def drawn(hit_rate_at: Any, rng: np.random.Generator, rows: int = 2_000) -> Any:
    score = rng.beta(5, 2, rows)
    return counts_from_rows(score, rng.random(rows) < hit_rate_at(score), automate_at=0.8)


def test_scores_that_are_all_too_high_are_recalibrated_measured_on_other_weeks():
    rng = np.random.default_rng(1)
    counts = {each.name: drawn(lambda score: score - 0.2, rng) for each in reversed(WEEKS[-3:])}
    advice = found_in(EVERYWHERE, counts=counts).advice
    assert (advice.step, advice.unseen) == ("recalibrate", "windows")
    assert advice.after < 0.03
    assert advice.before > 0.15


def test_where_accuracy_fell_the_highest_scores_may_act_on_if_another_week_agrees():
    rng = np.random.default_rng(2)
    counts = {
        each.name: drawn(lambda score: np.where(score >= 0.9, 0.97, 0.7), rng, 6_000) for each in reversed(WEEKS[-3:])
    }
    lead = verdict(metric="automated_accuracy", threshold=0.03)
    advice = diagnose(facts(lead, windows=world(EVERYWHERE), counts=counts)).advice
    assert (advice.step, advice.unseen) == ("act_from_score", "windows")
    assert advice.score == pytest.approx(0.87, abs=0.04)
    assert advice.low < advice.after
    alone = diagnose(facts(lead, windows=world(EVERYWHERE), counts=dict([next(iter(counts.items()))]))).advice
    assert alone.step == "retrain"


def test_they_need_not_be_right_more_often_than_before_less_the_margin_of_the_rule():
    rng = np.random.default_rng(2)
    counts = {
        each.name: drawn(lambda score: np.where(score >= 0.9, 0.88, 0.7), rng, 6_000) for each in reversed(WEEKS[-3:])
    }
    steps = []
    for margin in (0.05, 0.001):  # 90% were right before
        lead = verdict(metric="automated_accuracy", threshold=margin)
        advice = diagnose(facts(lead, windows=world(EVERYWHERE), counts=counts)).advice
        steps.append(advice and advice.step)
    assert steps == ["act_from_score", "retrain"]


def test_no_lower_score_than_acts_now_is_advised_and_what_is_right_now_is_of_what_acts():
    rng = np.random.default_rng(2)
    good = [drawn(lambda score: np.where(score >= 0.6, 0.95, 0.5), rng, 6_000) for _ in range(3)]
    assert higher_score(good, 0.9) is None  # from .8 on it acts already
    fallen = [drawn(lambda score: np.where(score >= 0.9, 0.97, 0.7), rng, 6_000) for _ in range(3)]
    step, acts = higher_score(fallen, 0.9), fallen[0].where("automated")
    assert step.before == pytest.approx(acts.wy.sum() / acts.w.sum())


def test_windows_of_a_source_are_those_of_its_labels_while_each_was_on():
    whole = [replace(each, labels={**each.labels, None: each.labels["billing"], "fax": each.labels["billing"]})
             for each in world(EVERYWHERE)]  # fmt: skip
    lead = replace(verdict(), subject=Subject("mail", None))
    known = facts(lead, windows=whole, time_on={("fax", window.name): 1.0 for window in WEEKS})
    cost = diagnose(replace(known, label=None)).cost
    assert cost.items == ROWS * len(WEEKS[FAULT_AT:])


def test_the_same_facts_give_the_same_diagnosis():
    rng = np.random.default_rng(3)
    counts = {LAST.name: drawn(lambda score: score - 0.2, rng)}
    first, second = (found_in(IN_ONE, counts=counts) for _ in range(2))
    assert first == second
