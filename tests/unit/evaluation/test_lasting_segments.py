"""Rules on segments: a part of a label's rows that goes wrong is found and named, others are quiet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.promises import PastWindow, Segment, promises_of, segment_promises
from monitor.core.records import Reason, Verdict
from monitor.core.wording import plain_words
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.inference.sequential import restarted
from monitor.report.explanation import explain
from tests.fakes.judged import window
from tests.unit.evaluation.test_accumulated import CONFIG, RULE

CHANNELS = ("mail", "phone", "web", "post")
LABELS = tuple(f"label {i}" for i in range(10))
SOURCE = CONFIG.sources["tickets"].model_copy(update={"segments": ("channel",)})
SEGMENTS = RULE.model_copy(update={"id": "lasting-segments", "scope": "segments", "segments": ("all",)})
FINE = dict.fromkeys(CHANNELS, 0.91)


def part(kept: float, rows: int) -> Counts:
    """Automated rows of mean score .91, each as overconfident as all, and as many others that nobody acts on."""
    scores = np.repeat([0.88, 0.92, 0.96], [rows // 2, rows // 4, rows // 4])
    outcome = np.clip(scores + kept - 0.91, 0, 1)
    return counts_from_rows([*scores, *[0.1] * rows], [*outcome, *[0] * rows], automate_at=0.8)


def week_of(kept: Mapping[str, float], rows: int) -> tuple[dict[str | None, Counts], dict[Segment, dict[str, Counts]]]:
    """Ten labels in four channels; only label 0 is as it is said."""
    parts = {channel: {label: part(0.91, rows) for label in LABELS[1:]} for channel in CHANNELS}
    for channel, by_label in parts.items():
        if channel in kept:
            by_label[LABELS[0]] = part(kept[channel], rows)
    labels = {label: pool([by[label] for by in parts.values() if label in by]) for label in LABELS}
    return labels, {("channel", channel): by_label for channel, by_label in parts.items()}


def data(*weeks: Mapping[str, float], rows: int = 40) -> SourceData:
    """Weeks, newest first."""
    made = [week_of(kept, rows) for kept in weeks]
    parts = [segment_promises(*each) for each in made]
    past = tuple(
        PastWindow(window(back), {k: promises_of(v) for k, v in made[back][0].items()}, segments=parts[back])
        for back in range(1, len(made))
    )
    current = WindowCounts(window(), made[0][0], segments=parts[0])
    return SourceData("tickets", current, past=past, segments=made[0][1])


def verdicts(known: SourceData, **changes: Any) -> dict[str | None, Verdict]:
    rule = SEGMENTS.model_copy(update=changes)
    config = CONFIG.model_copy(update={"rules": (rule,), "sources": {"tickets": SOURCE}})
    return {v.subject.label: v for v in verdicts_of(rule, known, config, ())}


def test_one_channel_that_goes_wrong_is_found_and_named():
    found = verdicts(data(*[{**FINE, "web": 0.65}] * 4, *[FINE] * 6))
    verdict = found["label 0"]
    assert (verdict.outcome, verdict.reason) == ("breach", Reason.ABOVE_THRESHOLD)
    assert verdict.detail["segment"] == ["channel", "web"]
    assert verdict.detail["segments_named"][0][:3] == ["channel", "web", 160]
    assert {line[1] for line in verdict.detail["segments_named"]}.isdisjoint(set(CHANNELS) - {"web"})
    assert (verdict.n, verdict.windows, verdict.detail["since"]) == (160, 4, "week-3")
    assert plain_words(verdict) == (
        "label 0 is overconfident in channel = web: 65% correct, scores claimed 91% (4 weeks pooled)"
    )
    assert {v.outcome for label, v in found.items() if label != "label 0"} == {"ok"}


def test_segments_that_compensate_each_other_are_found_though_their_label_keeps_its_promise():
    known = data(*[{**FINE, "web": 0.75, "mail": 1.0, "phone": 0.95}] * 12)
    assert verdicts(known)["label 0"].detail["segment"] == ["channel", "web"]
    assert verdicts(known)["label 0"].outcome == "breach"
    total = verdicts_of(RULE, known, CONFIG, ())
    assert next(v.outcome for v in total if v.subject.label == "label 0") == "ok"


def test_a_band_of_scores_is_a_segment_of_every_source():
    def only_high(rows: int, kept: float) -> Counts:
        outcome = np.repeat([0.85, kept], rows)
        return counts_from_rows(np.repeat([0.85, 0.97], rows), outcome, automate_at=0.8)

    weeks = [{"a": only_high(50, 0.8), "b": only_high(50, 0.97)} for _ in range(6)]
    parts = [segment_promises(labels, {}) for labels in weeks]
    past = tuple(
        PastWindow(window(back), {k: promises_of(v) for k, v in weeks[back].items()}, segments=parts[back])
        for back in range(1, 6)
    )
    known = SourceData("tickets", WindowCounts(window(), weeks[0], segments=parts[0]), past=past)
    found = verdicts(known, segments=("score_band",))
    assert (found["a"].outcome, found["b"].outcome) == ("breach", "ok")
    assert {tuple(line[:2]) for line in found["a"].detail["segments_named"]} == {
        ("score_band", "from 0.9"), ("score_band", "from 0.95"),
    }  # fmt: skip
    assert plain_words(found["a"]).startswith("a is overconfident in scores from 0.9: 80% correct")


def test_the_evidence_of_a_label_is_the_mean_of_its_segments():
    known = data({**FINE, "web": 0.8}, {**FINE, "mail": 0.8}, FINE)
    found = verdicts(known, segments=("channel",))["label 0"]
    runs = [
        [p.segments["label 0"]["channel", channel]["automated"] for p in reversed(known.past)]
        + [known.current.segments["label 0"]["channel", channel]["automated"]]
        for channel in CHANNELS
    ]
    expected = np.mean([math.exp(restarted(run, 0.02)[-1]) for run in runs])
    assert found.detail["evidence"] == pytest.approx(expected, rel=1e-3)
    assert found.detail["path"][-1][-1] == found.detail["evidence"]
    assert found.detail["segments"] == 4


def test_small_segments_are_said_to_be_too_small_and_no_row_at_all_is_said_too():
    few = verdicts(data({"web": 1.0}, rows=4), segments=("channel",))["label 0"]
    assert (few.outcome, few.reason) == ("not_evaluated", Reason.TOO_FEW_ROWS)
    assert (few.detail["segments_judged"], few.detail["segments"]) == (0, 1)
    known = data(FINE)
    none = replace(known, current=replace(known.current, segments={}))
    assert verdicts(none)["label 0"].reason == Reason.NO_ROWS


def test_the_only_value_of_a_column_which_all_rows_have_is_named_as_no_part_of_them():
    found = verdicts(data(*[{"web": 0.65}] * 4), segments=("channel",))["label 0"]
    assert (found.outcome, found.detail["segment"], found.detail["segments_named"]) == ("breach", None, [])
    assert plain_words(found) == "label 0 is overconfident: 65% correct, scores claimed 91% (4 weeks pooled)"
    in_bands = verdicts(data(*[{"web": 0.65}] * 4))["label 0"]
    assert in_bands.detail["segment"][0] == "score_band"
    assert {line[0] for line in in_bands.detail["segments_named"]} == {"score_band"}
    off = verdicts(data(*[{"web": 0.65}] * 4), segments=("channel",), turns_off="segments")["label 0"]
    assert off.detail["turns_off"] == [["channel", "web"]]  # what is beyond the threshold is off all the same


def test_an_ok_says_how_many_segments_could_be_judged():
    found = verdicts(data(*[FINE] * 20))["label 0"]
    assert found.outcome == "ok"
    said = f"7 of {found.detail['segments']} could have shown what matters"
    assert any(said in check.answer for check in explain(found, "r").checks)


def test_a_fault_that_was_fixed_is_forgotten_and_another_segment_does_not_take_its_blame():
    broken = [{**FINE, "web": 0.5}] * 10
    known = [data(*[{**FINE, "web": 0.93}] * good, *broken) for good in (0, 2, 8)]
    after = [verdicts(each, segments=("channel",))["label 0"] for each in known]
    assert after[0].outcome == "breach"
    assert all(v.detail["segment"] == ["channel", "web"] or v.outcome == "ok" for v in after)
    assert after[-1].outcome == "ok"


def test_a_rule_looks_only_at_the_columns_that_it_names_and_is_not_about_sources_without_them():
    known = data(*[{**FINE, "web": 0.65}] * 6)
    assert verdicts(known, segments=("score_band",))["label 0"].detail["segment"][0] == "score_band"
    assert verdicts(known, segments=("language",)) == {}
