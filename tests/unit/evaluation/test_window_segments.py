"""Rules on segments that judge a window: label first, then its segments; pooling and baselines as for labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import Reason, Verdict
from monitor.core.wording import plain_words
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.report.explanation import explain
from monitor.report.run_document import verdict_row
from tests.fakes.judged import pinned, window
from tests.unit.evaluation.test_accumulated import CONFIG
from tests.unit.evaluation.test_lasting_segments import CHANNELS, LABELS, SOURCE

RULE = Rule(
    id="segment-overconfidence", metric="overconfidence", where="automated", threshold=0.05, min_samples=30,
    scope="segments", segments=("channel",),
)  # fmt: skip
FINE = dict.fromkeys(CHANNELS, 0.91)


def part(kept: float, rows: int) -> Counts:
    """Automated rows of mean score .91 that are correct as often as said, and as many others that nobody acts on."""
    scores = np.repeat([0.88, 0.92, 0.96], [rows // 2, rows // 4, rows // 4])
    hits = np.round(np.cumsum(np.full(len(scores), kept)))
    outcome = np.diff(hits, prepend=0.0)
    return counts_from_rows([*scores, *[0.1] * rows], [*outcome, *[0] * rows], automate_at=0.8)


def week(kept: Mapping[str, float], rows: int, back: int = 0) -> WindowCounts:
    """Ten labels in four channels; only label 0 is as it is said."""
    parts = {
        label: {
            ("channel", channel): part(own, rows) for channel, own in (kept if label == LABELS[0] else FINE).items()
        }
        for label in LABELS
    }
    labels = {label: pool(own.values()) for label, own in parts.items()}
    return WindowCounts(window(back), labels, segment_counts=parts)


def data(*weeks: Mapping[str, float], rows: int = 200, **more: Any) -> SourceData:
    """Weeks, newest first."""
    made = [week(kept, rows, back) for back, kept in enumerate(weeks)]
    return SourceData("tickets", made[0], tuple(made[1:]), **more)


def verdicts(known: SourceData, rule: Rule = RULE, **changes: Any) -> dict[str | None, Verdict]:
    rule = rule.model_copy(update=changes)
    evaluation = EvaluationConfig(resamples=100, min_samples=100)
    config = CONFIG.model_copy(update={"rules": (rule,), "sources": {"tickets": SOURCE}, "evaluation": evaluation})
    return {v.subject.label: v for v in verdicts_of(rule, known, config, ())}


def test_one_channel_that_goes_wrong_is_found_and_named_while_the_labels_total_is_fine():
    found = verdicts(data({**FINE, "web": 0.75}))
    verdict = found["label 0"]
    assert (verdict.outcome, verdict.reason) == ("breach", Reason.ABOVE_THRESHOLD)
    assert verdict.detail["segment"] == ["channel", "web"]
    assert verdict.detail["segments_found"] == [["channel", "web"]]
    column, value, rows, measured, chance = verdict.detail["segments_named"][0]
    assert (column, value, rows) == ("channel", "web", verdict.n)
    assert (measured, chance) == (
        pytest.approx(verdict.value, abs=1e-6),
        pytest.approx(verdict.detail["segment_p"], rel=1e-3),
    )
    assert plain_words(verdict).startswith("label 0 is overconfident in channel = web: ")
    assert {v.outcome for label, v in found.items() if label != "label 0"} == {"ok"}
    total = verdicts(data({**FINE, "web": 0.75}), scope="labels", segments=())["label 0"]
    assert total.outcome != "breach"


def test_the_p_value_of_a_label_is_that_of_its_segments_together_and_the_family_is_of_labels():
    verdict = verdicts(data({**FINE, "web": 0.75}))["label 0"]
    assert verdict.p_value == pytest.approx(4 * verdict.detail["segment_p"])
    assert (verdict.detail["segments"], verdict.detail["segments_tested"], verdict.detail["family"]) == (4, 4, 10)
    assert verdict.p_adjusted == pytest.approx(10 * verdict.p_value)


def test_the_only_value_of_a_column_which_all_rows_have_is_named_as_no_part_of_them():
    found = verdicts(data({"web": 0.7}))["label 0"]
    assert (found.outcome, found.detail["segment"], found.detail["segments_named"]) == ("breach", None, [])
    assert plain_words(found).startswith("label 0 is overconfident: 70% correct")


def test_a_segment_whose_newest_week_is_bad_is_within_the_limit_neither_by_itself_nor_for_its_label():
    twice = {"for_windows": 2, "turns_off": "segments", "actions": ("slack", "disable_automation")}
    found = verdicts(data({**FINE, "web": 0.83}, FINE), **twice)["label 0"]
    assert (found.outcome, found.reason, found.detail["beyond"]) == ("unconfirmed", Reason.STREAK_INCOMPLETE, False)
    assert found.detail["segment"] == ["channel", "web"]
    assert ["channel", "web"] not in found.detail["segments_within"]
    assert explain(found, "r").sentence.startswith(
        "label 0 in channel = web is above the limit, not confirmed: the newest window has 0.08 by itself"
    )
    assert verdicts(data(FINE, {**FINE, "web": 0.83}), **twice)["label 0"].outcome == "ok"


def test_windows_are_pooled_for_a_segment_as_for_a_label_and_a_thin_segment_is_not_judged():
    weeks = [{**FINE, "web": 0.7}] * 4
    found = verdicts(data(*weeks, rows=40), min_samples=150)["label 0"]
    assert (found.outcome, found.detail["segment"]) == ("breach", ["channel", "web"])
    assert (found.windows, found.n) == (4, 160)
    thin = verdicts(data({**FINE, "web": 0.5}, rows=20))["label 0"]
    assert (thin.outcome, thin.reason) == ("not_evaluated", Reason.TOO_FEW_ROWS)
    assert thin.detail["segments_judged"] == 0


def test_weeks_before_do_not_hide_that_the_newest_week_of_a_segment_is_in_breach_by_itself():
    known = data({**FINE, "web": 0.3}, FINE, FINE, FINE, rows=24)
    verdict = verdicts(known, min_samples=80)["label 0"]
    assert verdict.outcome == "breach"
    assert verdict.detail["segments_found"] == [["channel", "web"]]
    assert (verdict.windows, verdict.n, verdict.detail["together"]["windows"]) == (1, 24, 4)
    said = "\n".join(check.text for check in explain(verdict, "r").checks)
    assert "not with the 3 weeks before it that held rows, since older windows may not hide what" in said
    assert "rows in channel = web" in said
    assert verdicts(data(FINE, FINE, FINE, FINE, rows=24), min_samples=80)["label 0"].outcome != "breach"


def test_every_group_of_windows_must_be_beyond_where_a_rule_asks_for_several():
    first = verdicts(data({**FINE, "web": 0.6}, FINE, rows=400), for_windows=2)["label 0"]
    assert first.outcome != "breach"
    both = verdicts(data({**FINE, "web": 0.6}, {**FINE, "web": 0.6}, rows=400), for_windows=2)["label 0"]
    assert (both.outcome, both.detail["segment"]) == ("breach", ["channel", "web"])


def test_a_change_is_compared_with_the_segments_own_rows_of_the_baseline():
    """A channel that has always been overconfident is no news; one that became it is."""
    then = {("channel", c): part(0.75 if c == "mail" else 0.91, 2000) for c in CHANNELS}
    known = {"baselines": {"label 0": pinned(pool(then.values()), "label 0")}, "baseline_segments": {"label 0": then}}
    asked = {"condition": "increase", "threshold": 0.05}
    always = verdicts(data({**FINE, "mail": 0.75}, rows=400, **known), **asked)["label 0"]
    assert always.outcome == "ok"
    became = verdicts(data({**FINE, "mail": 0.75, "web": 0.7}, rows=400, **known), **asked)["label 0"]
    assert (became.outcome, became.reason, became.detail["segment"]) == ("breach", Reason.INCREASED, ["channel", "web"])
    assert became.baseline == pytest.approx(0.0, abs=0.02)
    assert became.baseline_version == 1
    assert "in channel = web" in plain_words(became)


def test_without_the_baselines_rows_of_any_segment_a_change_is_not_judged():
    then = {("channel", "web"): part(0.91, 2000)}
    known = data(FINE, baselines={"label 0": pinned(pool(then.values()), "label 0")})
    found = verdicts(known, condition="increase")["label 0"]
    assert (found.outcome, found.reason) == ("not_evaluated", Reason.NO_BASELINE)
    assert verdict_row(found)["segment"] is None  # the key is there in each verdict of such a rule
    assert verdicts(known)["label 0"].outcome == "ok"


def test_bands_of_scores_are_segments_of_calibration_only():
    known = data(FINE, rows=400)
    assert verdicts(known, segments=("all",))["label 0"].detail["segments"] == 7  # three bands have automated rows
    assert verdicts(known, segments=("all",), metric="accuracy", condition="below", threshold=0.5)["label 0"].detail[
        "segments"
    ] == 4  # fmt: skip


def test_what_explain_says_of_segments():
    verdict = verdicts(data({**FINE, "web": 0.75}))["label 0"]
    answers = {check.name: check.answer for check in explain(verdict, "r").checks}
    assert answers["segments"].startswith("channel = web; 4 of 4 could have shown what matters; it has p = ")
    assert "; named: channel = web (" in answers["segments"]
    assert answers["sure"].startswith("the 4 segments with enough rows have, together (Simes), p = ")
