"""Evidence: pooling until it suffices, k windows, what stops pooling, and numbers that agree with themselves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from scipy import stats

from monitor.config.model import Config, EvaluationConfig, Rule
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges, pool
from monitor.core.records import Comparison, Reason, ShiftResult, Subject, Window
from monitor.evaluation.comparisons import compare, compare_family
from monitor.evaluation.data import RuleInput, SourceData, WindowCounts, poolable, windows_needed
from monitor.evaluation.estimates import Sample, estimate
from monitor.evaluation.evaluate import input_of, verdicts_of
from monitor.evaluation.rule_metrics import pooled, raised_rows
from monitor.evaluation.verdicts import decide
from tests.fakes.judged import MONDAY, config, pinned, window

EVALUATION = EvaluationConfig(resamples=200)
RISE = Rule(id="rise", metric="ece", condition="increase", threshold=0.02)
FALL = Rule(id="fall", metric="automated_accuracy", condition="decrease", threshold=0.03, min_samples=30)
SUBJECT = Subject("tickets", "billing")


def day(back: int = 0) -> Window:
    start = MONDAY - timedelta(days=back)
    return Window(start, start + timedelta(days=1), f"day-{back}", "daily")


def rows(n: int, *, over: float = 0.0, seed: int = 1, automate_at: float = 0.8) -> Counts:
    """n rows with scores .05 .. .95 whose hit rate falls short of the score by ``over`` (times the score)."""
    rng = np.random.default_rng(seed)
    score = rng.choice(np.arange(0.05, 1, 0.1).round(2), n)
    return counts_from_rows(score, rng.random(n) < score * (1 - over), automate_at=automate_at)


def material(*counts: Counts, baseline: Baseline | None = None, at: Window | None = None) -> RuleInput:
    return RuleInput(SUBJECT, at or window(), counts, baseline)


def test_a_rise_is_seen_with_the_value_that_the_estimate_of_the_window_shows():
    base, now = pinned(rows(20_000)), rows(5_000, over=0.15, seed=2)
    found = compare(RISE, material(now, baseline=base), EVALUATION)
    estimates = estimate([Sample(SUBJECT, now, base.edges)], window(), EVALUATION)
    shown = next(e for e in estimates if (e.metric, e.where) == ("ece", "all"))
    assert (found.value, found.low, found.high) == (shown.interval.value, shown.interval.low, shown.interval.high)
    assert found.beyond
    assert found.adequate
    assert found.windows == 1
    assert found.p_value < 1e-6
    assert found.change == pytest.approx(found.value - found.baseline)
    assert found.change_low < found.change < found.change_high


def textbook_ece(counts: Counts, edges: tuple[int, ...]) -> float:
    """The ECE of the textbook, bin by bin."""
    found, bins = 0.0, np.searchsorted(edges, counts.cell, side="left")
    for bin_ in np.unique(bins):
        mine = bins == bin_
        found += abs(counts.wy[mine].sum() - counts.ws[mine].sum()) / counts.w.sum()
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n", [300, 700])
def test_the_plain_two_day_rule_looks_at_the_textbook_ece_of_each_day_by_itself(seed: int, n: int):
    rule = Rule.model_validate(
        {"id": "two", "metric": "ece", "threshold": 0.085, "schedule": "daily", "for": 2, "certainty": "none",
         "value": "plug_in", "min_samples": 300}
    )  # fmt: skip
    days = [rows(n, over=0.15, seed=100 * seed + back) for back in range(4)]
    edges = [equal_frequency_edges(each, 15) for each in days]
    first, second = (textbook_ece(each, of) for each, of in zip(days[:2], edges, strict=False))
    found = compare(rule, material(*days, at=day()), EVALUATION)
    (verdict,) = decide(rule, [found], rate=0.01, decision_rules=9, revision="r")
    assert found.plug_in == pytest.approx(first, abs=1e-12)
    assert [group["value"] for group in found.detail["groups"]] == pytest.approx([first, second], abs=1e-12)
    assert (found.n, found.windows) == (n, 1)
    expected = "ok" if first <= 0.085 else "breach" if second > 0.085 else "unconfirmed"
    assert verdict.outcome == expected


def test_a_plain_day_of_too_few_rows_is_not_judged_and_makes_no_streak():
    rule = Rule.model_validate(
        {"id": "two", "metric": "ece", "threshold": 0.05, "schedule": "daily", "for": 2, "certainty": "none"}
    )
    bad, few = rows(700, over=0.5), rows(100, over=0.5, seed=2)
    outcomes = []
    for days in ((bad, bad), (bad, few), (few, bad), (bad,)):
        (verdict,) = decide(
            rule, [compare(rule, material(*days, at=day()), EVALUATION)], rate=0.01, decision_rules=1, revision="r"
        )
        outcomes.append(verdict.outcome)
    assert outcomes == ["breach", "unconfirmed", "not_evaluated", "unconfirmed"]


@pytest.mark.parametrize("value", ["plug_in", "debiased"])
def test_a_rise_of_the_value_that_is_asked_for_is_what_is_compared(value: str):
    base, now = pinned(rows(20_000)), rows(700, over=0.02, seed=3)
    rule = RISE.model_copy(update={"value": value, "certainty": "none"})
    found = compare(rule, material(now, baseline=base), EVALUATION)
    rise = textbook_ece(now, base.edges["all"]) - textbook_ece(base.counts, base.edges["all"])
    judged = rise if value == "plug_in" else found.change
    assert found.beyond == (judged > RISE.threshold)
    assert found.adequate
    if value == "plug_in":
        assert found.detail["textbook_change"] == pytest.approx(rise, abs=1e-12)
        assert found.change < rise


def test_a_plain_rule_blocks_the_ranges_whose_gap_as_it_is_exceeds_the_threshold():
    blocks = ("slack", "block_scores")
    rule = Rule(id="b", metric="mce", threshold=0.1, certainty="none", value="plug_in", actions=blocks)  # type: ignore[arg-type]
    now = rows(700, over=0.3, seed=5)
    found = compare(rule, material(now), EVALUATION)
    bins = bin_counts(now, equal_frequency_edges(now, 15))
    gaps = {bins.range_of(k): abs(bins.rate[k] - bins.score[k]) for k in range(len(bins.n)) if bins.n[k]}
    assert {tuple(each) for each in found.detail["blocked"]} == {at for at, gap in gaps.items() if gap > 0.1}
    assert found.plug_in == pytest.approx(max(gaps.values()), abs=1e-12)
    assert abs(found.detail["worst_gap"]) == pytest.approx(found.plug_in, abs=1e-12)
    assert tuple(found.detail["worst_range"]) in gaps


def test_windows_are_pooled_until_the_rows_could_show_a_change_that_matters():
    base = pinned(rows(20_000))
    weeks = [rows(700, seed=seed) for seed in range(4)]
    found = compare(RISE, material(*weeks, baseline=base), EVALUATION)
    assert found.adequate
    assert 1 < found.windows <= 4
    assert found.n == 700 * found.windows
    assert found.detectable <= 2 * RISE.threshold
    enough = compare(RISE, material(rows(6_000), baseline=base), EVALUATION)
    assert enough.windows == 1


def test_the_p_value_of_a_change_counts_once_for_each_window_that_judges_the_rows():
    base, weeks = pinned(rows(20_000)), [rows(700, over=0.03, seed=seed) for seed in range(4)]
    found = compare(RISE, material(*weeks, baseline=base), EVALUATION)
    at_once = compare(RISE, material(pooled(weeks[: found.windows]), baseline=base), EVALUATION)
    assert (found.detail["times_judged"], "times_judged" in at_once.detail) == (found.windows, False)
    assert found.windows > 1
    assert found.p_value == pytest.approx(min(1.0, found.windows * at_once.p_value), rel=1e-6)
    assert 0.0 < at_once.p_value < 0.2


def test_the_p_value_of_a_level_counts_once_however_many_windows_are_pooled():
    level = RISE.model_copy(update={"condition": "above", "threshold": 0.1})
    weeks = [rows(150, over=0.1, seed=seed) for seed in range(4)]
    found = compare(level, material(*weeks), EVALUATION)
    at_once = compare(level, material(pooled(weeks[: found.windows])), EVALUATION)
    assert found.windows > 1
    assert "times_judged" not in found.detail
    assert found.p_value == pytest.approx(at_once.p_value, rel=1e-6)


@pytest.mark.parametrize(
    ("newest", "outcome", "windows"),
    [(rows(700, seed=9), (False, False), 1), (rows(700, over=0.3, seed=9), (True, True), 3),
     (rows(100, seed=9), (True, True), 3)],
    ids=["healed", "still bad", "too small to tell"],
)  # fmt: skip
def test_a_label_that_has_healed_is_not_held_by_the_weeks_before(
    newest: Counts, outcome: tuple[bool, bool], windows: int
):
    base, bad = pinned(rows(20_000)), [rows(700, over=0.3, seed=seed) for seed in range(3)]
    found = compare(RISE, material(newest, *bad, baseline=base), EVALUATION)
    is_breach = found.beyond and found.p_value < 1e-4
    assert (found.beyond, is_breach) == outcome
    assert found.windows <= windows
    if outcome == (False, False):
        assert found.detail["together"]["change"] > RISE.threshold


def test_no_pool_reaches_behind_a_week_that_was_fine():
    rule = Rule(id="s", metric="overconfidence", where="automated", condition="above", threshold=0.05, min_samples=30)

    def acting(n: int, over: float, seed: int) -> Counts:
        hit = np.random.default_rng(seed).permutation(np.arange(n) < round(n * (0.9 - over)))
        return counts_from_rows([0.9] * n, hit, automate_at=0.8)

    weeks = [acting(60, 0.3, 1), acting(60, 0.3, 2), acting(60, 0.0, 3), acting(400, 0.3, 4)]
    (found,) = compare_family(rule, [material(*weeks)], EVALUATION, level=SIGNIFICANT)
    assert (found.windows, found.n, found.detail["promised"] - found.detail["kept"]) == (2, 120, pytest.approx(0.3))
    (healed,) = compare_family(rule, [material(*weeks[2:])], EVALUATION, level=SIGNIFICANT)
    assert (healed.windows, healed.n, healed.beyond) == (1, 60, False)
    assert healed.detail["together"]["p_value"] < SIGNIFICANT
    (few,) = compare_family(rule, [material(acting(5, 0.9, 5), *weeks[2:])], EVALUATION, level=SIGNIFICANT)
    assert (few.windows, few.n) == (2, 65)  # the week that was fine is one of them where those since are too few


def test_one_window_and_pooled_windows_within_the_threshold_say_nothing_of_the_newest_alone():
    base = pinned(rows(20_000))
    one = compare(RISE, material(rows(6_000, over=0.3), baseline=base), EVALUATION)
    within = compare(RISE, material(*(rows(700, seed=seed) for seed in range(4)), baseline=base), EVALUATION)
    assert (one.beyond, one.windows, within.beyond) == (True, 1, False)
    assert "newest_alone" not in one.detail
    assert "newest_alone" not in within.detail


SIGNIFICANT = 1e-4


def looked(rule: Rule, rule_input: RuleInput, level: float = SIGNIFICANT) -> tuple[Comparison, Comparison]:
    """The evidence with a look at the newest window alone, and without."""
    return compare_family(rule, [rule_input], EVALUATION, level=level)[0], compare(rule, rule_input, EVALUATION)


ABOVE = Rule(id="above", metric="ece", condition="above", threshold=0.1)
GOOD = tuple(rows(500, seed=seed) for seed in range(3))


@pytest.mark.parametrize("rule", [RISE, ABOVE], ids=lambda rule: rule.id)
def test_older_windows_do_not_hide_that_the_newest_alone_is_a_breach(rule: Rule):
    rule_input = material(rows(130, over=0.55, seed=9), *GOOD, baseline=pinned(rows(20_000)))
    found, _ = looked(rule, rule_input)
    by_itself = compare(rule, replace(rule_input, counts=rule_input.counts[:1]), EVALUATION)
    assert (found.windows, found.n, found.beyond, found.value) == (1, 130, True, by_itself.value)
    assert found.change == by_itself.change
    beside = found.detail["together"]
    assert beside["windows"] > 1
    assert beside["p_value"] > SIGNIFICANT
    times = beside["windows"] + 1 if rule.compares else found.detail.get("times_judged", 1)
    assert found.p_value == pytest.approx(by_itself.p_value * times)


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ((rows(130, seed=9), *GOOD), "the newest is well"),
        ((rows(120, over=0.2, seed=9), *GOOD), "the newest has fewer rows than a quarter of those needed"),
        ((rows(130, over=0.9, seed=9), rows(600, over=0.9, seed=8)), "all together are a breach"),
        ((rows(130, over=0.3, seed=9), *GOOD), "the newest may be bad by chance"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_else_the_pooled_windows_are_the_evidence(counts: tuple[Counts, ...], why: str):
    rule_input = material(*counts, baseline=pinned(rows(20_000)))
    found, together = looked(RISE, rule_input)
    assert found.windows == together.windows > 1, why
    looks = counts[0].rows >= EVALUATION.min_samples / 4
    assert found.detail["times_judged"] == found.windows + looks
    assert together.detail["times_judged"] == together.windows
    assert (found.value, found.n) == (together.value, together.n)
    assert found.detectable > together.detectable  # at the rate of a family, not at that of one test


def test_a_newest_window_that_is_worse_by_less_than_the_threshold_changes_nothing():
    many, rule = EVALUATION.model_copy(update={"min_samples": 60_000}), RISE.model_copy(update={"threshold": 0.05})
    rule_input = material(*(rows(30_000, over=0.06, seed=seed) for seed in range(2)), baseline=pinned(rows(90_000)))
    found = compare_family(rule, [rule_input], many, level=SIGNIFICANT)[0]
    assert (found.windows, found.beyond) == (2, False)
    assert found.detail["newest_p"] < SIGNIFICANT


def test_a_rule_on_several_windows_running_is_not_judged_on_fewer():
    twice = ABOVE.model_copy(update={"for_windows": 2})
    found, together = looked(twice, material(rows(130, over=0.9, seed=9), rows(130, over=0.9, seed=8), *GOOD))
    assert replace(found, detectable=together.detectable, adequate=together.adequate) == together


def test_what_the_newest_window_shows_alone_is_a_breach_in_its_family():
    base, counts = pinned(rows(20_000)), (rows(130, over=0.5, seed=9), *GOOD)
    settings = config(RISE, ABOVE, evaluation=EVALUATION)
    windows = [WindowCounts(window(back), {"billing": each}) for back, each in enumerate(counts)]
    data = SourceData("tickets", windows[0], tuple(windows[1:]), baselines={"billing": base})
    for outcomes_only in (False, True):
        verdicts = [verdicts_of(rule, data, settings, (), outcomes_only=outcomes_only)[0] for rule in settings.rules]
        assert [verdict.outcome for verdict in verdicts] == ["breach", "breach"]
        assert {verdict.windows for verdict in verdicts} == {1}


def test_where_even_all_windows_are_too_few_that_is_said_with_what_could_have_been_seen():
    found = compare(RISE, material(rows(60), rows(60, seed=2), baseline=pinned(rows(20_000))), EVALUATION)
    assert not found.adequate
    assert found.n == 120
    assert found.detectable > 2 * RISE.threshold


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (material(), Reason.NO_ROWS),
        (material(rows(0), baseline=pinned(rows(20_000))), Reason.NO_ROWS),
        (material(rows(1_000)), Reason.NO_BASELINE),
        (material(rows(1_000), baseline=pinned(rows(20_000), end=window().end)), Reason.IN_BASELINE),
        (replace(material(rows(1_000)), problem=Reason.RELATION_ERROR), Reason.RELATION_ERROR),
    ],
)
def test_what_cannot_be_judged_has_a_named_reason(given: RuleInput, reason: Reason):
    found = compare(RISE, given, EVALUATION)
    assert found.problem is reason
    assert found.value is None


def test_scores_that_moved_too_far_are_not_compared():
    rng = np.random.default_rng(3)
    low, high = rng.uniform(0.0, 0.4, 20_000), rng.uniform(0.6, 1.0, 5_000)
    base = pinned(counts_from_rows(low, rng.random(20_000) < low))
    now = counts_from_rows(high, rng.random(5_000) < high)
    assert compare(RISE, material(now, baseline=base), EVALUATION).problem is Reason.SCORES_MOVED
    found = compare(RISE, material(now, now, baseline=base), EVALUATION)
    assert (found.problem, found.n, found.windows) == (Reason.SCORES_MOVED, 10_000, 2)  # rows of as many windows


@pytest.mark.parametrize("label", ["billing", None])
def test_only_a_label_s_rise_is_put_down_to_another_share_of_true_items(label: str | None):
    given = material(share_of_true_items(0.5), baseline=pinned(rows(20_000)))
    found = compare(RISE, replace(given, subject=Subject("tickets", label)), EVALUATION)
    assert found.beyond
    assert ("class_mix" in found.detail) == (label is not None)
    if label is not None:
        assert found.detail["class_mix"]["explains"]


def test_a_fall_of_accuracy_is_no_more_than_another_share_of_true_items_brings():
    base, season = pinned(rows(20_000)), share_of_true_items(2.0)
    found = compare(FALL, material(season, baseline=base), EVALUATION)
    mix = found.detail["class_mix"]
    assert (found.beyond, mix["explains"]) == (True, True)
    # by the odds of each score: hits of .85 and .95 are half as frequent beside as many others (Saerens 2002)
    score = np.array([0.85, 0.95])
    true, others = score / 10 * (1 / 3) / 0.5, (1 - score) / 10 * (2 / 3) / 0.5
    expected = true.sum() / (true + others).sum() - score.mean()
    assert mix["expected_rise"] == pytest.approx(expected, abs=0.01)
    worse = compare(FALL, material(less_right(season), baseline=base), EVALUATION)
    assert worse.beyond
    assert not worse.detail.get("class_mix", {"explains": False})["explains"]


def less_right(counts: Counts) -> Counts:
    """The rows of which one in ten that acts is no longer right."""
    kept = np.where(counts.automated, 0.9, 1.0)
    return replace(counts, wy=counts.wy * kept, wsy=counts.wsy * kept)


def share_of_true_items(factor: float, n: int = 40_000) -> Counts:
    """Rows scored as the baseline's, of which other items are ``factor`` times as frequent as there."""
    rng = np.random.default_rng(11)
    score = rng.choice(np.arange(0.05, 1, 0.1).round(2), n)
    truth = rng.random(n) < score
    kept = truth | (rng.random(n) < factor) if factor < 1 else ~truth | (rng.random(n) < 1 / factor)
    return counts_from_rows(score[kept], truth[kept], automate_at=0.8)


@pytest.mark.parametrize("fault", ["a new version", "only labels that were given", "less right where it acts"])
def test_no_season_excuses_what_is_harm(fault: str):
    now, then = share_of_true_items(0.5), rows(20_000)
    if fault == "only labels that were given":
        now, then = (replace(each, predicted=np.ones_like(each.predicted)) for each in (now, then))
    if fault == "less right where it acts":
        now = less_right(share_of_true_items(0.5))
    given = material(now, baseline=pinned(then))
    found = compare(RISE, replace(given, new_version=fault == "a new version"), EVALUATION)
    assert found.beyond
    assert "class_mix" not in found.detail


def test_a_model_version_that_the_weeks_of_the_baseline_have_not_is_new():
    base = pinned(rows(20_000), end=window(4).end)
    label = {"billing": rows(1_000)}

    def is_new(now: dict[str, int]) -> bool:
        old = tuple(WindowCounts(window(back), label, {"v1": 900, "v0": 100}) for back in range(1, 8))
        data = SourceData("tickets", WindowCounts(window(), label, now), old, baselines={"billing": base})
        return input_of(data, "billing", (), 4).new_version

    assert [is_new(now) for now in ({"v1": 900}, {"v0": 900}, {"v1": 950, "v2": 50}, {"v1": 800, "v2": 200})] == [
        False, False, False, True,
    ]  # fmt: skip


def test_of_too_few_rows_it_is_not_said_that_their_scores_moved():
    rng = np.random.default_rng(3)
    low = rng.uniform(0.0, 0.4, 20_000)
    base, few, enough = pinned(counts_from_rows(low, rng.random(20_000) < low)), RISE.min_samples, 500
    assert few is None, "the rule has evaluation's"
    for rows_now, reason in ((enough - 1, Reason.TOO_FEW_ROWS), (enough, Reason.SCORES_MOVED)):
        now = counts_from_rows(np.full(rows_now, 0.9), np.ones(rows_now))
        found = compare(RISE, material(now, baseline=base), EVALUATION)
        assert (found.problem, found.n, found.value) == (reason, rows_now, None)
    found = compare(RISE, material(counts_from_rows([0.9, 0.9], [1, 1]), baseline=base), EVALUATION)
    assert (found.detail["rows_needed"], "moved_share" in found.detail) == (enough, False)
    assert [(check.name, check.passed) for check in found.checks if not check.passed] == [("enough_rows", False)]


@pytest.mark.parametrize(
    ("asks", "rows_now", "outcome", "note"),
    [
        ({"metric": "ece", "min_samples": 50}, 124, "not_evaluated", "min_samples: 50 is taken as 125"),
        ({"metric": "ece", "min_samples": 50}, 125, "breach", "min_samples: 50 is taken as 125"),
        ({"metric": "ece", "min_samples": 50, "certainty": "none", "value": "plug_in"}, 60, "breach", ""),
        ({"metric": "overconfidence", "min_samples": 50}, 60, "breach", ""),
        ({"metric": "ece", "min_samples": 130}, 130, "breach", ""),
    ],
)
def test_an_ece_is_tested_in_125_rows_or_more_whatever_its_rule_asks_for(
    asks: dict[str, Any], rows_now: int, outcome: str, note: str
):
    rule = Rule.model_validate({"id": "wrong", "threshold": 0.1, **asks})
    hits, reason = np.arange(rows_now) % 10 == 0, Reason.ABOVE_THRESHOLD if outcome == "breach" else Reason.TOO_FEW_ROWS
    evidence = compare(rule, material(counts_from_rows(np.full(rows_now, 0.9), hits)), EVALUATION)
    found = decide(rule, [evidence], rate=0.01, decision_rules=1, revision="r")[0]
    assert (found.outcome, found.reason) == (outcome, reason)
    assert raised_rows(rule, EVALUATION).startswith(note)
    assert bool(raised_rows(rule, EVALUATION)) == bool(note)


def test_a_level_rule_needs_no_baseline():
    rule = Rule(id="level", metric="ece", condition="above", threshold=0.05)
    found = compare(rule, material(rows(4_000, over=0.3)), EVALUATION)
    assert found.problem is None
    assert found.beyond
    assert found.p_value < 1e-3


def test_the_overconfidence_of_automated_rows_is_an_exact_binomial_test_on_them_alone():
    rule = Rule(id="s", metric="overconfidence", where="automated", condition="above", threshold=0.05, min_samples=30)
    now = rows(2_000, over=0.2)
    found = compare(rule, material(now), EVALUATION)
    acted = now.where("automated")
    promised = acted.ws.sum() / acted.w.sum()
    hits = round(acted.wy.sum())
    assert found.n == acted.rows
    assert found.p_value == pytest.approx(stats.binom.cdf(hits, acted.rows, promised - 0.05), rel=1e-9)
    assert found.detail["promised"] == pytest.approx(promised)


def two_days(**more: Any) -> Rule:
    return Rule(
        id="two-days", metric="ece", condition="above", threshold=0.08, schedule="daily", for_windows=2,
        min_samples=100, **more,
    )  # fmt: skip


def test_two_windows_running_each_beyond_and_tested_together():
    bad, worse = rows(500, over=0.5, seed=1), rows(500, over=0.5, seed=2)
    found = compare(two_days(), material(bad, worse, at=day()), EVALUATION)
    single = compare(
        two_days().model_copy(update={"for_windows": 1}), material(pool([bad, worse]), at=day()), EVALUATION
    )
    assert found.windows == 2
    assert found.streak
    assert found.beyond
    assert found.p_value == pytest.approx(single.p_value)


@pytest.mark.parametrize("before", [(rows(500, seed=2),), ()], ids=["a good window", "none"])
def test_a_streak_needs_as_many_windows_beyond_as_the_rule_says(before: tuple[Counts, ...]):
    assert not compare(two_days(), material(rows(500, over=0.6), *before, at=day()), EVALUATION).streak


def test_a_streak_of_thin_days_is_made_of_disjoint_groups_of_days():
    thin = [rows(60, over=0.5, seed=seed) for seed in range(6)]
    rule = two_days().model_copy(update={"min_samples": 200})
    found = compare(rule, material(*thin, at=day()), EVALUATION)
    assert (found.windows, found.n) == (4, 240)


def test_a_quiet_weekend_is_no_day_of_its_own_beside_busy_ones():
    weekend = [rows(10, over=0.6, seed=seed) for seed in (1, 2)]
    friday, thursday = rows(700, seed=3), rows(700, over=0.6, seed=4)
    earlier = [rows(700, seed=seed) for seed in (5, 6)]
    found = compare(two_days(), material(*weekend, friday, thursday, *earlier, at=day()), EVALUATION)
    assert [(group["windows"], group["n"]) for group in found.detail["groups"]] == [(3, 720), (3, 2_100)]
    assert not found.streak
    shallow = compare(two_days(), material(*weekend, friday, thursday, at=day()), EVALUATION)
    newest, before = shallow.detail["groups"]
    assert (newest["n"], before["n"]) == (20, 1_400)
    assert newest["beyond"]
    assert before["beyond"]
    assert newest["too_few"]
    assert "too_few" not in before
    assert not shallow.streak


def test_a_shift_rule_holds_the_effect_size_against_its_threshold():
    rule = Rule(id="ks", test="ks", column="score", threshold=0.1)
    base = pinned(rows(20_000))
    result = ShiftResult(SUBJECT, window(), "ks", "score", 0.13, 1e-12, 5_000, 20_000)
    found = compare(rule, replace(material(rows(5_000), baseline=base), shifts=(result,)), EVALUATION)
    assert (found.value, found.p_value, found.beyond, found.adequate) == (0.13, 1e-12, True, True)
    assert compare(rule, material(rows(5_000), baseline=base), EVALUATION).problem is Reason.TOO_FEW_ROWS


CONFIG = config(RISE, two_days())


def test_all_shift_tests_of_the_source_are_the_family_of_a_shift_rule():
    rule = Rule(id="ks", test="ks", column="score", threshold=0.1)
    counts, base = rows(5_000), pinned(rows(20_000))
    source = SourceData("tickets", WindowCounts(window(), {"billing": counts}), baselines={"billing": base})
    shifts = tuple(
        ShiftResult(Subject("tickets", label), window(), test, column, 0.2, p, 5_000, 20_000)
        for label, test, column, p in (
            ("billing", "ks", "score", 0.004), ("billing", "wasserstein", "score", 0.03),
            (None, "missing", "language", 0.5), (None, "psi", "language", None),
        )
    )  # fmt: skip
    (alone,) = verdicts_of(rule, source, CONFIG, shifts[:1])
    assert (alone.outcome, alone.p_adjusted, alone.detail["family"]) == ("breach", 0.004, 1)
    (found,) = verdicts_of(rule, source, CONFIG, shifts)
    assert (found.outcome, found.p_adjusted) == ("unconfirmed", pytest.approx(3 * 0.004))
    assert (found.detail["family"], found.detail["rank"], found.detail["column"]) == (3, 1, "score")


def data(*versions: str, current: str = "v2") -> SourceData:
    def part(back: int, version: str) -> WindowCounts:
        found = {"billing": rows(100, seed=back)}
        return WindowCounts(window(back), found, {version: 100} if version else {})

    earlier = tuple(part(back, version) for back, version in enumerate(versions, start=1))
    return SourceData("tickets", part(0, current), earlier)


def test_pooling_never_crosses_a_model_version():
    assert len(poolable(data("v2", "v2", "v2"), "billing", 4)) == 4
    assert len(poolable(data("v2", "v1", "v2"), "billing", 4)) == 2
    assert len(poolable(data("v2", "", "v2"), "billing", 4)) == 4


def test_pooling_never_crosses_the_end_of_the_baseline():
    base = pinned(rows(20_000), end=window(2).end)
    known = replace(data("v2", "v2", "v2"), baselines={"billing": base})
    assert [p.window.name for p in poolable(known, "billing", 4)] == ["week-0", "week-1"]


def test_a_run_looks_at_as_many_windows_as_pooling_may_need():
    assert windows_needed(CONFIG, window()) == 4
    assert windows_needed(CONFIG, day()) == 7


@pytest.mark.parametrize("metric", ["excess_errors", "automated_accuracy"])
def test_what_is_said_to_be_promised_and_kept_is_of_the_rows_that_the_metric_looks_at(metric: str):
    now = rows(3_000, over=0.2)
    acted = now.where("automated")
    rule = Rule(id="acts", metric=metric, condition="above", threshold=0.5)
    found = compare(rule, material(now), EVALUATION)
    assert (found.detail["of"], found.detail["of_rows"]) == ("automated", acted.rows)
    assert found.detail["promised"] == pytest.approx(acted.ws.sum() / acted.w.sum())
    assert found.detail["kept"] == pytest.approx(acted.wy.sum() / acted.w.sum())
    assert "of" not in compare(RISE, material(now, baseline=pinned(rows(20_000))), EVALUATION).detail


def test_percentile_is_read_as_bootstrap():
    level, now = Rule(id="level", metric="ece", threshold=0.05, min_samples=100), rows(2_000, over=0.3)
    as_said, drawn, closed = (
        compare(level, material(now), EVALUATION.model_copy(update={"interval": form}))
        for form in ("percentile", "bootstrap", "analytic")
    )
    assert as_said == drawn != closed


def days_near(threshold: float, seed: int) -> tuple[SourceData, Config]:
    """Three days of 100 rows of each of forty labels, which are overconfident by about the threshold of a rule."""
    rule = Rule.model_validate(
        {"id": "two", "metric": "ece", "threshold": threshold, "schedule": "daily", "for": 2, "min_samples": 90}
    )
    made = [
        WindowCounts(
            day(back),
            {f"l{at:02}": rows(100, over=2 * threshold, seed=1_000 * seed + 10 * at + back) for at in range(40)},
        )
        for back in range(3)
    ]
    return SourceData("tickets", made[0], tuple(made[1:])), config(rule, evaluation=EVALUATION)


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_has_the_outcomes_of_a_run_near_the_threshold_too(seed: int):
    data, settings = days_near(0.08, seed)
    run, replay = (
        [
            (v.subject.label, v.outcome, v.reason)
            for v in verdicts_of(settings.rules[0], data, settings, (), outcomes_only=only)
        ]
        for only in (False, True)
    )
    assert [each[:2] for each in replay] == [each[:2] for each in run]
    assert len({outcome for _, outcome, _ in run}) > 1
