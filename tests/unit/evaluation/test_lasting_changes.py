"""Evidence that a label got worse than its baseline: what it is, from the rows alone, and what it finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy.stats import chi2, norm

from monitor.config.model import Rule
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.promises import PastWindow, bands_of, promise_of, segment_promises
from monitor.core.records import Reason, Verdict, WeekSpread, Window
from monitor.core.wording import plain_words
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.evaluation.lasting_changes import ChangeRun, share_times
from monitor.evaluation.week_spread import compared_by, spreads_of
from monitor.inference.levels import all_promises_of
from monitor.report.explanation import explain
from tests.fakes.judged import config, pinned

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
SCORES = (0.1, 0.3, 0.6, 0.85, 0.95)
WINDOWS = [Window(MONDAY + timedelta(weeks=n), MONDAY + timedelta(weeks=n + 1), f"w{n}", "weekly") for n in range(80)]
PINNED = 8
ECE = Rule(id="lasting-ece-increase", metric="ece", condition="increase", evidence="accumulated", threshold=0.02)
AUC = Rule(id="lasting-auc-decrease", metric="roc_auc", condition="decrease", evidence="accumulated", threshold=0.03)
ACCURACY = AUC.model_copy(update={"id": "lasting-accuracy-decrease", "metric": "accuracy"})
CALIBRATED = SCORES
Rates = Sequence[float]


def drawn(rng: np.random.Generator, rates: Rates, rows: int = 2_000, scores: Rates = SCORES) -> Counts:
    """Rows of five scores, each as often, that come true with these chances."""
    at = rng.integers(len(scores), size=rows)
    score, rate = np.array(scores)[at], np.array(rates)[at]
    return counts_from_rows(score, rng.random(rows) < rate, predicted=score >= 0.5, automate_at=0.8)


def frozen(weeks: Sequence[Counts], rule: Rule) -> Baseline:
    made = pinned(pool(weeks), "a", end=WINDOWS[len(weeks) - 1].end)
    return replace(made, weeks=spreads_of(weeks, made.edges, compared_by(config(rule))))


def judged(rule: Rule, baseline: Baseline | None, weeks: Sequence[Counts]) -> Verdict:
    """The verdict on the last of these weeks after the baseline; those before are known by their promises only."""
    windows = WINDOWS[PINNED : PINNED + len(weeks)]
    past = [
        PastWindow(window, {"a": all_promises_of(week)}, segments=segment_promises({"a": week}, {}))
        for window, week in zip(windows[:-1], weeks[:-1], strict=True)
    ]
    current = WindowCounts(windows[-1], {"a": weeks[-1]}, segments=segment_promises({"a": weeks[-1]}, {}))
    baselines = {} if baseline is None else {"a": baseline}
    data = SourceData("tickets", current, past=tuple(past[::-1]), baselines=baselines)
    return next(v for v in verdicts_of(rule, data, config(rule), ()) if v.subject.label == "a")


def restarted(weeks: Sequence[tuple[float, float, float]], margin: float) -> float:
    """R by its definition: every beginning by itself, from (rows, expected rate, rate)."""
    total = 0.0
    for begin in range(len(weeks)):
        for size in (0.2, 0.4, 0.8, 1.6, 3.2):
            logs = [
                -size * n * kept - n * math.log(1 - (expected - margin) * (1 - math.exp(-size)))
                for n, expected, kept in weeks[begin:]
            ]
            total += math.exp(sum(logs)) / 5
    return total


def accuracy_of(counts: Counts) -> float:
    right = np.where(counts.predicted, counts.wy, counts.w - counts.wy)
    return right.sum() / counts.w.sum()


def test_the_evidence_on_an_accuracy_is_that_of_rows_which_promise_the_accuracy_of_the_baseline():
    rng = np.random.default_rng(1)
    then = [drawn(rng, CALIBRATED) for _ in range(PINNED)]
    worse = [rate - 0.05 if rate > 0.5 else rate + 0.035 for rate in CALIBRATED]
    weeks = [drawn(rng, worse, 500) for _ in range(4)]
    base = replace(frozen(then, ACCURACY), weeks={"accuracy all": WeekSpread(10.5, 7.0, 14_000.0, PINNED)})
    # by its definition: what Q exceeds its mean by, for each unit of correlation; and its upper limit of 90%
    rho = 3.5 / 14_000 * 7 / chi2.ppf(0.1, 7)
    kept = accuracy_of(pool(then))
    spread = kept * (1 - kept) / 16_000 * (1 + rho * 16_000 / PINNED)
    margin = 0.03 / 6 + norm.ppf(0.95) * spread**0.5
    rows = [(500 / (1 + rho * 500), kept, accuracy_of(week)) for week in weeks]
    verdict = judged(ACCURACY, base, weeks)
    assert verdict.detail["evidence"] == pytest.approx(restarted(rows, margin), rel=0.01)
    assert verdict.baseline == pytest.approx(kept)
    assert verdict.change == pytest.approx(accuracy_of(pool(weeks)) - kept)


def both_sides(gap: float) -> Rates:
    """Scores that became too extreme: low ones are too low, and high ones too high."""
    return [score + gap if score < 0.5 else score - gap for score in SCORES]


def first_found(rule: Rule, seed: int, rates: Rates, weeks: int = 20, scores: Rates = SCORES) -> int:
    """The week in which a change is found that begins after the baseline; 99 if it is not found."""
    rng = np.random.default_rng(seed)
    base = frozen([drawn(rng, CALIBRATED) for _ in range(PINNED)], rule)
    now = [drawn(rng, rates, scores=scores) for _ in range(weeks)]
    found = (week + 1 for week in range(weeks) if judged(rule, base, now[: week + 1]).outcome == "breach")
    return next(found, 99)


def test_gaps_of_opposite_signs_that_last_are_found_and_the_noise_of_gaps_is_not():
    assert [first_found(ECE, seed, both_sides(0.03)) <= 14 for seed in range(4)] == [True] * 4
    assert [first_found(ECE, seed, CALIBRATED) for seed in range(2)] == [99] * 2


def test_an_auc_that_fell_with_calibration_kept_is_found():
    nearer = 0.56 + 0.8 * (np.array(SCORES) - 0.56)
    assert [first_found(AUC, seed, nearer.tolist(), scores=nearer.tolist()) <= 10 for seed in range(3)] == [True] * 3
    assert first_found(ECE, 3, nearer.tolist(), scores=nearer.tolist()) == 99


def test_a_label_that_is_better_than_its_baseline_is_in_no_breach():
    rng = np.random.default_rng(7)
    base = frozen([drawn(rng, both_sides(0.05)) for _ in range(PINNED)], ECE)
    weeks = [drawn(rng, CALIBRATED) for _ in range(6)]
    for rule in (ECE, AUC, ACCURACY):
        verdict = judged(rule, base, weeks)
        assert verdict.outcome in ("ok", "not_evaluated")
        assert not verdict.detail["beyond"]


def test_more_traffic_in_a_band_that_was_always_wrong_is_no_evidence_of_changed_behaviour():
    rng = np.random.default_rng(8)
    off = [0.1, 0.3, 0.6, 0.85, 0.80]
    base = frozen([drawn(rng, off) for _ in range(PINNED)], ECE)
    more = (0.1, 0.3, 0.6, 0.85, 0.95, 0.95, 0.95)
    verdict = judged(ECE, base, [drawn(rng, [*off, 0.8, 0.8], scores=more) for _ in range(8)])
    assert verdict.detail["beyond"]
    assert verdict.outcome != "breach"
    assert verdict.detail["evidence"] < 100


def of_odds(rng: np.random.Generator, odds: float, rates: Rates = CALIBRATED) -> Counts:
    """2,000 rows with true items so many times as frequent beside others, each class scored as ever."""
    score, rate = np.array(SCORES), np.array(rates)
    chance = rate * odds + 1 - rate
    at = rng.choice(len(SCORES), 2_000, p=chance / chance.sum())
    truth = rng.random(2_000) < (rate * odds / chance)[at]
    return counts_from_rows(score[at], truth, predicted=score[at] >= 0.5, automate_at=0.8)


@pytest.mark.parametrize("odds", [0.5, 0.67, 1.6])
def test_a_season_is_no_lasting_rise_of_the_ece_also_when_it_is_over(odds: float):
    rng = np.random.default_rng(31)
    base = frozen([drawn(rng, CALIBRATED) for _ in range(PINNED)], ECE)
    season = [of_odds(rng, odds) for _ in range(10)]
    within, over = judged(ECE, base, season), judged(ECE, base, [*season, of_odds(rng, 1.0)])
    assert within.detail["evidence"] > within.detail["needed"]
    assert (within.outcome, within.reason) == ("unconfirmed", Reason.CLASS_MIX)
    for verdict in (within, over):
        assert verdict.outcome != "breach"
        assert verdict.detail.get("class_mix", {"evidence_at_shares": 0.0})["evidence_at_shares"] < 100
    # the same season, and scores of .85 and more that are worth less beside it
    worse = [rate - 0.1 * (rate > 0.8) for rate in CALIBRATED]
    faulty = judged(ECE, base, [of_odds(rng, odds, worse) for _ in range(10)])
    assert (faulty.outcome, faulty.reason) == ("breach", Reason.INCREASED)


def test_the_share_of_each_window_is_told_where_only_that_changed():
    rng = np.random.default_rng(32)
    base = frozen([drawn(rng, CALIBRATED, 20_000) for _ in range(PINNED)], ECE)
    weeks = [of_odds(rng, 2.0) for _ in range(3)] + [drawn(rng, [rate - 0.05 for rate in CALIBRATED]) for _ in range(6)]
    parts = [{name: promise_of(part) for (_, name), part in bands_of(week)} for week in weeks]
    then = {name: promise_of(part) for (_, name), part in bands_of(base.counts)}
    times = share_times(ChangeRun(tuple(WINDOWS[:9]), tuple(parts), then))  # type: ignore[arg-type]
    share = np.mean(CALIBRATED)
    new = share * 2 / (share * 2 + 1 - share)
    assert times[2] == pytest.approx([new / share, (1 - new) / (1 - share)], rel=0.05)
    assert times[6:].tolist() == [[1.0, 1.0]] * 3  # a fault, whose rows lie where they did


@pytest.mark.parametrize("rule", [ECE, AUC], ids=lambda rule: rule.id)
def test_without_a_baseline_nothing_is_judged(rule: Rule):
    verdict = judged(rule, None, [drawn(np.random.default_rng(9), CALIBRATED)])
    assert (verdict.outcome, verdict.reason) == ("not_evaluated", Reason.NO_BASELINE)


def test_the_explanation_says_what_rose_against_what_and_on_which_evidence():
    rng = np.random.default_rng(4)
    base = frozen([drawn(rng, CALIBRATED) for _ in range(PINNED)], ECE)
    verdict = judged(ECE, base, [drawn(rng, both_sides(0.06)) for _ in range(5)])
    assert (verdict.outcome, verdict.reason, verdict.windows) == ("breach", Reason.INCREASED, 5)
    assert 0.04 < verdict.change < 0.07
    assert "calibration got worse" in plain_words(verdict)
    text = " ".join(f"{each.question} {each.answer}" for each in explain(verdict, base).checks)
    assert "risen by more than 0.02 over the baseline's, over all windows together" in text
    assert "evidence is strongest from w8 on" in text
