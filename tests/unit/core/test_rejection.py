"""When the rows that were set aside keep the others from being judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import RejectedCell, RejectReason, ScorePlace
from monitor.core.rejection import Read, cause_of, rejections
from monitor.core.rejection_records import RejectionCause, Rejections, Why, as_json, from_json
from monitor.core.rejection_words import concerned, fact, remedy, sentence
from monitor.core.windows import week

MOST = 0.02
MISSING = RejectReason.OUTCOME_MISSING.value


def cell(label: str | None, rows: int, place: int | None = None, reason: str = MISSING, **more: Any) -> RejectedCell:
    return RejectedCell(label, reason, place, more.get("truth"), rows, more.get("hits", 0.0))


def kept(rows: int, *, seed: int = 1, low: float = 0.0, **more: Any) -> Counts:
    rng = np.random.default_rng(seed)
    score = low + (1 - low) * rng.random(rows)
    return counts_from_rows(score, rng.random(rows) < score, **more)


def below_one_per_cent(rows: int) -> Counts:
    """Rows whose scores are percentages below 1, so that their label is hardly ever true."""
    rng = np.random.default_rng(2)
    percent = rng.random(rows)
    return counts_from_rows(percent, rng.random(rows) < percent / 100)


def found(cells: Sequence[RejectedCell], baselines: Any = None, repeated: int = 0, **labels: Counts) -> Rejections:
    every = dict(labels)
    if labels:
        every[None] = pool(labels.values())
    rows = sum(each.rows for each in labels.values())
    return rejections(Read(cells, every, rows, repeated), baselines or {}, MOST)


def frozen(counts: Counts, label: str | None) -> Baseline:
    first = week("2026-W20", ZoneInfo("UTC"))
    return Baseline("tickets", label, 1, first.start, first.end, first.name, first.name, counts,
                    edges_of(counts, EvaluationConfig()), first.end, "ann", "test")  # fmt: skip


# --- how many


def test_two_per_cent_of_a_labels_rows_may_be_rejected_and_no_more():
    assert found([cell("a", 20)], a=kept(980)).of("a") is None
    rejected = found([cell("a", 21)], a=kept(980)).of("a")
    assert (rejected.why, rejected.rejected, rejected.rows) == (Why.SHARE, 21, 1001)


def test_one_or_two_rows_are_never_too_many():
    assert found([cell("a", 2)], a=kept(10)).of("a") is None
    assert found([cell("a", 3)], a=kept(10)).of("a") is not None


def test_a_label_that_lost_rows_leaves_the_others_to_be_judged():
    seen = found([cell("a", 300)], a=kept(300), b=kept(20_000))
    assert seen.of("a") is not None
    assert seen.of("b") is None
    assert seen.of(None) is None  # 300 of 20,600 rows
    assert found([cell("a", 300)], a=kept(300), b=kept(2_000)).of(None) is not None


def test_a_label_of_which_every_row_was_rejected_is_found():
    seen = found([cell("gone", 40)], b=kept(20_000))
    assert seen.labels == ("gone",)
    assert seen.subjects["gone"].share == 1.0


def test_labels_that_cannot_be_read_may_be_any_label():
    reason = RejectReason.LABEL_MISSING.value
    seen = found([cell(None, 50, reason=reason)], a=kept(500), b=kept(500))
    assert seen.of("b") is not None
    assert seen.of("b") == seen.of("never seen") == seen.everywhere
    assert found([cell(None, 20, reason=reason)], a=kept(500), b=kept(500)).of("b") is None


def test_scores_in_percent_reach_labels_whose_scores_are_below_one_per_cent():
    percent = [cell("a", 400, ScorePlace.ABOVE_1, RejectReason.SCORE_OUT_OF_RANGE.value)]
    seen = found(percent, a=below_one_per_cent(100), rare=below_one_per_cent(300))
    assert seen.of("rare").why is Why.SCALE  # type: ignore[union-attr]
    assert "percent" in fact(seen.of("rare"))  # type: ignore[arg-type]
    assert "score / 100" in remedy(seen.of("rare"))  # type: ignore[arg-type]


def test_a_few_scores_above_one_make_no_percentages_of_the_others():
    above = [cell("a", 60, ScorePlace.ABOVE_1, RejectReason.SCORE_OUT_OF_RANGE.value)]
    seen = found(above, a=kept(540), rare=kept(300))
    assert seen.of("a").cause is RejectionCause.OTHER  # type: ignore[union-attr]
    assert "score / 100" not in remedy(seen.of("a"))  # type: ignore[arg-type]
    assert seen.of("rare") is None


def test_a_source_of_numbers_is_judged_as_a_whole():
    read = Read([cell(None, 30, None), cell("x", 1, None)], {}, 970, labelled=False)
    assert rejections(read, {}, MOST).of(None) is not None
    assert rejections(read, {}, MOST).labels == ()
    assert rejections(Read([cell(None, 9, None)], {}, 991, labelled=False), {}, MOST) == Rejections()


# --- does it depend on score or outcome?


def test_rejection_of_the_rows_that_act_alone_is_found_below_two_per_cent():
    """12 of 2,000 rows are 0.6%, and 12 of the 30 with the highest scores."""
    scores = np.concatenate([np.full(1_970, 0.3), np.full(18, 0.95)])
    counts = counts_from_rows(scores, np.resize([1, 0], len(scores)))
    seen = found([cell("a", 12, 9)], a=counts).of("a")
    assert (seen.why, seen.part) == (Why.BY_SCORE, (0.9, 1.0))
    assert seen.local == pytest.approx(12 / 30)
    assert seen.p_value < 1e-10
    assert "40.0% of the rows with scores 0.9 to 1.0" in fact(seen)


def test_rejection_of_the_positives_is_found_below_two_per_cent():
    counts = counts_from_rows(np.full(5_000, 0.3), np.arange(5_000) < 60)
    gone = cell("a", 25, None, RejectReason.SCORE_MISSING.value, truth=1, hits=25.0)
    seen = found([gone], a=counts).of("a")
    assert (seen.why, seen.part) == (Why.BY_OUTCOME, (1.0, 1.0))
    assert "outcome 1" in fact(seen)


def test_the_same_rejection_spread_over_scores_and_outcomes_is_not():
    counts = kept(5_000)
    spread = [cell("a", 4, place, truth=None) for place in range(10)]
    assert found(spread, a=counts).of("a") is None
    both = cell("a", 50, None, RejectReason.SCORE_MISSING.value, truth=1, hits=25.0)
    assert found([both], a=counts).of("a") is None


def test_a_share_within_the_limit_is_no_matter_however_significant():
    """1.5% of the highest scores against none of the others, of a million rows: no result moves by more than that."""
    counts = counts_from_rows(np.resize([0.2, 0.95], 200_000), np.resize([0, 1], 200_000))
    assert found([cell("a", 1_500, 9)], a=counts).of("a") is None


def test_rows_of_one_cluster_are_one_row():
    scores = np.concatenate([np.full(1_970, 0.3), np.full(18, 0.95)])
    counts = counts_from_rows(scores, np.resize([1, 0], len(scores)))
    assert found([cell("a", 12, 9)], a=counts.with_design_effect(6.0)).of("a") is None


def test_random_rejection_is_found_in_less_than_one_of_a_thousand_readings():
    rng, wrong, readings = np.random.default_rng(5), 0, 400
    for _ in range(readings):
        cells, labels = [], {}
        for name in "abcde":
            score = rng.beta(0.6, 1.5, 1_500)
            gone = rng.random(1_500) < 0.01
            labels[name] = counts_from_rows(score[~gone], rng.random((~gone).sum()) < score[~gone])
            places = np.bincount((score[gone] * 10).astype(int), minlength=10)
            cells += [cell(name, int(n), place) for place, n in enumerate(places) if n]
        dependent = [each for each in found(cells, **labels).subjects.values() if each.why is not Why.SHARE]
        wrong += bool(dependent)
    assert wrong <= 1


# --- columns of one value


def test_one_score_in_the_whole_source_is_a_broken_feed():
    same = counts_from_rows(np.full(100, 0.5), np.resize([0, 1], 100))
    seen = found([], a=same, b=same)
    assert seen.everywhere.cause is RejectionCause.SCORE_CONSTANT
    other = counts_from_rows(np.full(100, 0.9), np.resize([0, 1], 100))
    assert found([], a=same, b=other) == Rejections()  # two verbal confidences are two
    few = counts_from_rows(np.full(20, 0.5), np.resize([0, 1], 20))
    assert found([], a=few, b=few) == Rejections()


def test_a_label_has_one_score_only_where_its_baseline_had_many():
    same = counts_from_rows(np.full(100, 0.5), np.resize([0, 1], 100))
    many, verbal = kept(5_000), counts_from_rows(np.resize([0.5] * 9 + [0.9], 5_000), np.resize([0, 1], 5_000))
    assert found([], {"a": frozen(many, "a")}, a=same, b=kept(500)).of("a") is not None
    assert found([], {"a": frozen(verbal, "a")}, a=same, b=kept(500)).of("a") is None  # 0.9^100 is 3e-5
    assert found([], {}, a=same, b=kept(500)).of("a") is None


def test_no_hit_at_all_is_a_broken_join_where_hits_were_to_come():
    rng = np.random.default_rng(3)
    none = counts_from_rows(rng.random(600), np.zeros(600))
    seen = found([], a=none, b=none)
    assert seen.everywhere.cause is RejectionCause.TRUTH_CONSTANT
    assert "turn automation off" in remedy(seen.everywhere)


def test_a_rare_label_without_a_hit_is_legitimate():
    rng = np.random.default_rng(3)
    none = counts_from_rows(rng.random(600) * 0.05, np.zeros(600))
    assert found([], phishing=none) == Rejections()
    rare = counts_from_rows(rng.random(20_000) * 0.05, rng.random(20_000) < 0.001)
    assert found([], {None: frozen(rare, None)}, phishing=none) == Rejections()


def test_a_week_in_which_all_that_was_said_was_right_is_legitimate():
    rng = np.random.default_rng(3)
    assert found([], a=counts_from_rows(0.85 + 0.14 * rng.random(900), np.ones(900))) == Rejections()


def test_a_label_that_is_true_of_everything_is_a_broken_join():
    rng = np.random.default_rng(3)
    assert found([], a=counts_from_rows(rng.random(900), np.ones(900))).everywhere is not None


def test_one_soft_truth_for_all_is_a_broken_feed():
    rng = np.random.default_rng(3)
    seen = found([], a=counts_from_rows(rng.random(900), np.full(900, 0.5)))
    assert seen.everywhere.cause is RejectionCause.TRUTH_CONSTANT


def test_one_item_for_all_rows_leaves_one_row_a_label():
    one = counts_from_rows([0.4], [1])
    seen = found([], None, 900, a=one, b=one)
    assert seen.everywhere.cause is RejectionCause.ITEM_CONSTANT
    assert found([], None, 900, a=kept(900)) == Rejections()  # each row was loaded twice


# --- causes, words, the history


def test_the_cause_is_what_most_rows_have_in_common():
    out = RejectReason.OUTCOME_OUT_OF_RANGE.value
    assert cause_of([cell("a", 60, truth=-1, reason=out), cell("a", 50)]) is RejectionCause.TRUTH_MINUS_ONE
    assert cause_of([cell("a", 50, reason=out), cell("a", 50)]) is RejectionCause.OTHER
    assert cause_of([cell("a", 50)]) is RejectionCause.TRUTH_MISSING


def test_the_sentence_names_labels_cause_and_remedy():
    seen = found([cell(f"l{k}", 300) for k in range(7)], **{f"l{k}": kept(300) for k in range(7)}, z=kept(30_000))
    assert concerned(seen) == "l0, l1, l2, l3, l4 and 3 more"
    assert sentence(seen) == (
        "not judged: l0, l1, l2, l3, l4 and 3 more: 2,100 of 34,200 rows (6.1%) were rejected: most of their truths "
        "(`actual`) are NULL. If they wait for their truth, write `unresolved: true` at the source, and as "
        "predicted_at under `columns` the date of the prediction (`calmon docs shapes`); if not, fix the join "
        "that loses it. Then run the same window again."
    )
    assert sentence(Rejections()) == ""


def test_what_the_history_keeps_is_read_back():
    cells = [cell("a", 300, 9), cell(None, 90, None, truth=1, hits=3.0)]
    seen = found(cells, a=kept(300))
    assert seen.everywhere is not None
    again, same = from_json(as_json(cells, seen))
    assert (list(again), same) == (cells, seen)
    assert from_json(None) == ((), Rejections())
    assert as_json([], Rejections()) == {}
