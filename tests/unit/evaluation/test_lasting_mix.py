"""Overconfidence that lasts as long as a season is named as the season's, and a fault is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from monitor.config.model import Rule
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.promises import PastWindow, promises_of, segment_promises
from monitor.core.records import Reason, Verdict
from monitor.core.wording import plain_words
from monitor.evaluation.evaluate import SourceData, WindowCounts, verdicts_of
from monitor.inference.class_mix import prior_shift, share_p
from monitor.report.explanation import VerdictContext, explain, sentences
from tests.truth.claims import Reader
from tests.truth.explained import EXPLAINED
from tests.truth.sentences import VERDICT
from tests.unit.evaluation.test_accumulated import CONFIG, RULE, window

SHARE, ROWS, WEEKS = 0.3, 1_500, 14
SEGMENTS = RULE.model_copy(update={"id": "lasting-segments", "scope": "segments", "segments": ("all",)})
Worth = Callable[[np.ndarray], np.ndarray]


def rows(rng: np.random.Generator, n: int, share: float = SHARE, worth: Worth = lambda score: score) -> Counts:
    """Calibrated scores of which so many are true, each class being scored as ever; ``worth`` is a fault of scores."""
    score = rng.beta(0.6, 1.4, size=6 * n + 200).clip(1e-6, 1 - 1e-6)
    truth = rng.random(len(score)) < worth(score)
    if worth(np.array([0.9]))[0] != 0.9:
        return counts_from_rows(score[:n], truth[:n], automate_at=0.8)
    true = rng.binomial(n, share)
    kept = np.concatenate([np.flatnonzero(truth)[:true], np.flatnonzero(~truth)[: n - true]])
    return counts_from_rows(score[kept], truth[kept], automate_at=0.8)


def of_weeks(weeks: Sequence[Counts], **more: Any) -> SourceData:
    """One label's weeks, newest first, with a baseline before them."""
    counts = rows(np.random.default_rng(1), 20_000)
    end = window(len(weeks)).start
    pinned = Baseline(
        "tickets", "billing", 1, window(len(weeks) + 4).start, end, "a", "b", counts,
        edges_of(counts, CONFIG.evaluation), end, "ada", "first",
    )  # fmt: skip
    parts = [segment_promises({"billing": each}, {}) for each in weeks]
    known = [WindowCounts(window(at), {"billing": c}, segments=parts[at]) for at, c in enumerate(weeks)]
    past = tuple(
        PastWindow(window(at), {"billing": promises_of(weeks[at])}, segments=parts[at]) for at in range(4, len(weeks))
    )
    return SourceData("tickets", known[0], tuple(known[1:4]), past=past, **({"baselines": {"billing": pinned}} | more))


def judged(data: SourceData, rule: Rule = RULE) -> Verdict:
    config = CONFIG.model_copy(update={"rules": (rule,)})
    return next(v for v in verdicts_of(rule, data, config, ()) if v.subject.label == "billing")


def season(share: float = 0.17) -> SourceData:
    rng = np.random.default_rng(2)
    return of_weeks([rows(rng, ROWS, share) for _ in range(WEEKS)])


def faulty(worth: Worth) -> SourceData:
    rng = np.random.default_rng(3)
    return of_weeks([rows(rng, ROWS, worth=worth) for _ in range(WEEKS)])


@pytest.mark.parametrize("rule", [RULE, SEGMENTS], ids=lambda rule: rule.id)
def test_a_season_with_fewer_true_items_is_named(rule: Rule) -> None:
    found = judged(season(), rule)
    assert (found.outcome, found.reason) == ("breach", Reason.CLASS_MIX)
    mix = found.detail["class_mix"]
    assert (mix["now"], mix["then"]) == (pytest.approx(0.17, abs=0.01), pytest.approx(SHARE, abs=0.01))
    assert mix["evidence_left"] < 20 < found.detail["evidence"]


def test_the_rise_that_a_season_brings_is_given_in_points() -> None:
    found = judged(season())
    assert found.detail["class_mix"]["expected_rise"] == pytest.approx(0.096, abs=0.015)  # of the population
    assert ", as expected of 17% true items instead of 30% (+8.6 points)" in plain_words(found)


def test_a_rule_may_leave_seasons_out() -> None:
    found = judged(season(), RULE.model_copy(update={"mute": ("class_mix",)}))
    assert (found.outcome, found.reason, found.actions) == ("unconfirmed", Reason.CLASS_MIX, ())


@pytest.mark.parametrize("rule", [RULE, SEGMENTS], ids=lambda rule: rule.id)
@pytest.mark.parametrize(
    "worth",
    [
        lambda score: np.where(score >= 0.8, score - 0.12, score),
        lambda score: score / (score + (1 - score) * np.exp(1.1)),
        lambda score: np.clip(score - 0.12, 0.0, 1.0),
    ],
    ids=["rows that act alone", "log odds", "all scores"],
)
def test_faults_are_no_season(rule: Rule, worth: Worth) -> None:
    found = judged(faulty(worth), rule)
    assert (found.outcome, found.reason) == ("breach", Reason.ABOVE_THRESHOLD)
    assert found.detail["class_mix"]["explains"] is False


def with_a_fault(rng: np.random.Generator, n: int, share: float, wrong: float) -> Counts:
    """A season, in which a part of the rows that act alone and would be right are wrong."""
    score = rng.beta(0.6, 1.4, size=6 * n + 200).clip(1e-6, 1 - 1e-6)
    truth = rng.random(len(score)) < score
    true = rng.binomial(n, share)
    kept = np.concatenate([np.flatnonzero(truth)[:true], np.flatnonzero(~truth)[: n - true]])
    fault = (score[kept] >= 0.8) & (rng.random(n) < wrong)
    return counts_from_rows(score[kept], truth[kept] & ~fault, automate_at=0.8)


def test_a_small_season_beside_a_fault_several_times_as_large_explains_nothing() -> None:
    rng = np.random.default_rng(1)
    found = judged(of_weeks([with_a_fault(rng, 300, 0.26, 0.06) for _ in range(WEEKS)]))
    mix = found.detail["class_mix"]
    assert mix["evidence_left"] < found.detail["needed"] < found.detail["evidence"]
    assert found.low is not None
    assert mix["expected_rise"] < 0.2 * found.low
    assert (found.outcome, found.reason, mix["explains"]) == ("breach", Reason.ABOVE_THRESHOLD, False)
    asked = [line for line in sentences(explain(VerdictContext(found, ""))) if "another share of true items" in line]
    assert any(
        line.strip().endswith("but it brings less than half of the lower limit of what was measured.") for line in asked
    )
    reader = Reader(facts=None)  # type: ignore[arg-type]
    for line in asked:
        EXPLAINED.read(reader, line.strip().split(". ", 1)[-1], row_of(found))
    assert [str(claim) for claim in reader.false] == []


def test_without_a_baseline_no_season_is_named() -> None:
    found = judged(replace(season(), baselines={}))
    assert (found.outcome, found.reason) == ("breach", Reason.ABOVE_THRESHOLD)
    assert "class_mix" not in found.detail


def test_confidences_in_predictions_have_no_class_mix() -> None:
    rng = np.random.default_rng(2)
    weeks = [replace(rows(rng, ROWS, 0.17), score_is="confidence_in_prediction") for _ in range(WEEKS)]
    assert "class_mix" not in judged(of_weeks(weeks)).detail


def row_of(verdict: Verdict) -> dict[str, Any]:
    names = ("metric", "outcome", "threshold", "value", "low", "high", "plug_in", "change", "baseline", "change_low")
    more = ("change_high", "p_value", "p_adjusted", "detectable", "n", "windows", "baseline_version", "detail")
    return {name: getattr(verdict, name) for name in (*names, *more)} | {
        "rule": verdict.rule, "severity": verdict.severity, "source": "tickets", "label": "billing",
        "window_name": verdict.window.name, "schedule": "weekly", "population": verdict.where,
        "reason": verdict.reason.value, "actions": verdict.actions,
    }  # fmt: skip


@pytest.mark.parametrize("mute", [(), ("class_mix",)], ids=["breach", "muted"])
@pytest.mark.parametrize("rule", [RULE, SEGMENTS], ids=lambda rule: rule.id)
def test_every_sentence_is_true(rule: Rule, mute: tuple[str, ...]) -> None:
    verdict = judged(season(), rule.model_copy(update={"mute": mute}))
    reader = Reader(facts=None)  # type: ignore[arg-type]
    VERDICT.read(reader, plain_words(verdict), row_of(verdict))
    told = list(sentences(explain(VerdictContext(verdict, ""))))
    asked = [line for line in told if "Does another share of true items explain it? Yes" in line]
    assert len(asked) == 1
    EXPLAINED.read(reader, asked[0].strip().split(". ", 1)[-1], row_of(verdict))
    assert [str(claim) for claim in reader.false] == []
    why = (
        "without what another share of true items brings about, the evidence would not be enough",
        "leaves out class_mix",
    )
    assert any(words in line for line in told for words in why)


def test_the_expected_rise_is_that_of_rows_drawn_anew() -> None:
    rng = np.random.default_rng(4)
    baseline = rows(rng, 200_000)
    shift = prior_shift(baseline, baseline.where("automated"))
    assert shift is not None
    for share in (0.15, 0.45):
        now = rows(rng, 200_000, share)
        kept, before = (promises_of(each)["automated"] for each in (now, baseline))
        assert shift.rise(share) == pytest.approx(kept.overconfidence - before.overconfidence, abs=0.013)
        acting = now.where("automated")
        outside = (now.wy.sum() - acting.wy.sum()) / (now.w.sum() - acting.w.sum())
        assert shift.share_of(float(outside), 0.0) == pytest.approx(share, abs=0.005)


def test_rows_of_one_class_alone_have_no_shift_and_an_unchanged_share_no_small_p() -> None:
    one = counts_from_rows([0.9] * 10, [1] * 10)
    assert prior_shift(one, one) is None
    assert share_p((0.3, 500.0), (0.31, 5_000.0)) > 0.5
    assert share_p((0.2, 500.0), (0.31, 5_000.0)) < 1e-5
