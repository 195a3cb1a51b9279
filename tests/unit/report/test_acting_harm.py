"""Harm is counted from the score from which gates acted, not from an automate_at that was not in force."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from monitor.automation.harm import HarmKind, TimeOn
from monitor.config.model import EvaluationConfig
from monitor.core.baseline import edges_of
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import Subject, Window
from monitor.evaluation.estimates import Sample, estimate
from monitor.report.acting_harm import ActingLabel, acted_from, counted_harm, counted_together

WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
SCORES = np.repeat([0.5, 0.75, 0.85, 0.95], 100)
OUTCOMES = np.concatenate([np.repeat([1, 0], [hits, 100 - hits]) for hits in (50, 75, 65, 90)])


def read(automate_at: float) -> Counts:
    return counts_from_rows(SCORES, OUTCOMES, automate_at=automate_at)


def excess(score: float) -> float:
    """How many more rows from the score on were wrong than claimed, from the rows themselves."""
    acted = score <= SCORES
    return float((SCORES[acted] - OUTCOMES[acted]).sum())


@pytest.mark.parametrize("configured", [0.7, 0.75, 0.8, 0.85, 0.9, 0.95])
@pytest.mark.parametrize("acting", [0.7, 0.75, 0.8, 0.85, 0.9, 0.95])
def test_rows_are_those_from_the_score_in_force_whatever_is_configured(configured: float, acting: float) -> None:
    found = counted_harm(read(configured), TimeOn(1.0, scores=((acting, 1.0),)), configured, "weekly", 0.95)
    assert found is not None
    assert found.harm.rows == int((acting <= SCORES).sum())
    assert found.harm.excess == pytest.approx(excess(acting))
    assert found.harm.kind == HarmKind.HAPPENED
    same = int((acting <= SCORES).sum()) == int((configured <= SCORES).sum())
    assert found.harm.counted_from == ("" if same else f"{acting:g}, the score from which gates acted")


def test_rows_beside_the_threshold_within_its_cell_are_kept_as_they_were_read() -> None:
    counts = counts_from_rows([0.79996, 0.9, 0.9], [1, 0, 1], automate_at=0.8)
    assert acted_from(counts, 0.8, 0.8) is counts


def test_of_two_scores_in_a_week_automation_made_its_share_of_each() -> None:
    on = TimeOn(0.75, scores=((0.8, 0.25), (0.9, 0.5)))
    found = counted_harm(read(0.9), on, 0.9, "weekly", 0.95)
    assert found is not None
    assert found.harm.excess == pytest.approx(excess(0.8))
    assert found.harm.done == pytest.approx(0.25 * excess(0.8) + 0.5 * excess(0.9))
    assert found.harm.short == (
        "about 25 more wrong than scores claimed, an estimated 9 of them while automation was on (75% of the week, "
        "from higher scores for some of it)"
    )
    assert found.harm.sentence.endswith("; counted from 0.8, the lowest score from which gates acted")


def test_weighted_rows_are_counted_as_the_items_that_they_represent() -> None:
    weight = np.tile([1.0, 3.0], 200)  # of every other item a third was checked
    counts = counts_from_rows(SCORES, OUTCOMES, weight=weight, automate_at=0.8)
    found = counted_harm(counts, TimeOn(1.0), 0.8, "weekly", 0.95)
    acted = SCORES >= 0.8
    wrong, items = float((weight * (1 - OUTCOMES))[acted].sum()), float(weight[acted].sum())
    assert found is not None
    assert (found.excess.rows, found.excess.items, found.harm.rows) == (200, items, items)
    assert found.harm.wrong == pytest.approx(wrong)
    assert found.harm.excess == pytest.approx(float((weight * (SCORES - OUTCOMES))[acted].sum()))
    assert f": {wrong:,.0f} of {items:,.0f} automated were wrong" in found.harm.sentence
    subject = Subject("tickets", "billing")
    stored = estimate([Sample(subject, counts, edges_of(counts, EvaluationConfig()))], WEEK, EvaluationConfig())
    overconfidence = next(e for e in stored if (e.metric, e.where) == ("overconfidence", "automated"))
    assert overconfidence.detail == {"items": items}  # a message works out the same
    assert (overconfidence.interval.value or 0) * items == pytest.approx(found.harm.excess)
    plain = estimate([Sample(subject, read(0.8), edges_of(counts, EvaluationConfig()))], WEEK, EvaluationConfig())
    assert all("items" not in e.detail for e in plain)


def test_where_nothing_acted_the_configured_score_counts() -> None:
    found = counted_harm(read(0.8), TimeOn(0.0), 0.8, "weekly", 0.95)
    assert found is not None
    assert (found.harm.kind, found.harm.rows, found.harm.counted_from) == (HarmKind.AVERTED, 200, "")


def test_of_a_source_labels_add_up_each_from_its_own_score() -> None:
    always = TimeOn(1.0, scores=((0.9, 1.0),))
    labels = [ActingLabel(read(0.8), always, 0.8), ActingLabel(read(0.8), TimeOn(0.5, scores=((0.8, 0.5),)), 0.8)]
    found = counted_together(pool([each.counts for each in labels]), labels, "weekly", 0.95)
    assert found is not None
    assert found.harm.excess == pytest.approx(excess(0.9) + excess(0.8))
    assert found.harm.done == pytest.approx(excess(0.9) + 0.5 * excess(0.8))
    assert found.harm.rows == 300
    assert found.harm.counted_from == "the score from which gates acted, label by label"


def test_of_a_source_automation_made_what_it_made_of_each_label() -> None:
    """The label with most errors was off: by time over all labels, three quarters of them would be automation's."""
    good = counts_from_rows([0.9] * 300, [1] * 270 + [0] * 30, automate_at=0.8)
    bad = counts_from_rows([0.9] * 100, [1] * 40 + [0] * 60, automate_at=0.8)
    whole = pool([good, bad])
    for on in (TimeOn(1.0, scores=((0.8, 1.0),)), TimeOn(1.0)):
        labels = [ActingLabel(good, on, 0.8), ActingLabel(bad, TimeOn(0.1), 0.8)]
        found = counted_together(whole, labels, "weekly", 0.95)
        assert found is not None
        assert found.harm.excess == pytest.approx(50)
        assert found.harm.done == pytest.approx(5)
        assert found.harm.counted_from == ""
        assert found.harm.short == (
            "about 50 more wrong than scores claimed, an estimated 5 of them while automation was on "
            "(some labels or some of the week)"
        )
    always = counted_together(whole, [ActingLabel(each, TimeOn(1.0), 0.8) for each in (good, bad)], "weekly", 0.95)
    never = counted_together(whole, [ActingLabel(each, TimeOn(0.0), 0.8) for each in (good, bad)], "weekly", 0.95)
    assert always is not None
    assert never is not None
    assert (always.harm.kind, never.harm.kind) == (HarmKind.HAPPENED, HarmKind.AVERTED)
    assert counted_together(whole, [], "weekly", 0.95) is None


def test_where_a_label_that_was_off_made_up_for_the_errors_of_others_they_are_no_part_of_the_sum() -> None:
    worse = counts_from_rows([0.9] * 100, [1] * 60 + [0] * 40, automate_at=0.8)
    better = counts_from_rows([0.9] * 200, [1] * 195 + [0] * 5, automate_at=0.8)

    def of(bad: float, good: float) -> str:
        labels = [ActingLabel(worse, TimeOn(bad), 0.8), ActingLabel(better, TimeOn(good), 0.8)]
        found = counted_together(pool([worse, better]), labels, "weekly", 0.95)
        assert found is not None
        return found.harm.short.removesuffix(" while automation was on (some labels or some of the week)")

    assert of(1.0, 0.0) == "about 15 more wrong than scores claimed, but an estimated 30 more"
    assert of(0.0, 1.0) == "about 15 more wrong than scores claimed, but an estimated 15 fewer"
    assert of(0.5, 0.5) == "about 15 more wrong than scores claimed, an estimated 8 of them"
