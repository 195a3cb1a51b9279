"""Evidence over a year of windows: what is looked at, what is found, and what a fixed fault leaves behind."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.promises import PastWindow, Promise, promises_of
from monitor.core.records import Reason, Verdict
from monitor.core.rejection_records import Rejection, RejectionCause, Rejections, Why
from monitor.evaluation.accumulated import dated_promises
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.inference.sequential import LONGEST, restarted
from tests.fakes.judged import config, pinned, window

RULE = Rule(
    id="lasting-overconfidence",
    metric="overconfidence",
    where="automated",
    condition="accumulated",
    threshold=0.02,
    min_samples=30,
)
CONFIG = config(RULE, evaluation=EvaluationConfig(resamples=100))
KEPT, BROKEN = 0.9, 0.75
LABELS = tuple(f"label {i}" for i in range(10))


def counts(kept: float, rows: int = 100) -> Counts:
    """Automated rows of score .9 of which so many came true, and as many others that nobody acts on."""
    hits = round(kept * rows)
    return counts_from_rows([0.9] * rows + [0.1] * rows, [1] * hits + [0] * (2 * rows - hits), automate_at=0.8)


def data(*kept: float, rows: int = 100, **more: Any) -> SourceData:
    """Weeks of ten labels, newest first; only label 0 is not as it should be."""
    others = {label: counts(KEPT, rows) for label in LABELS}
    current, *past = ({**others, "label 0": counts(each, rows)} for each in kept)
    known = (PastWindow(window(back), {k: promises_of(v) for k, v in of.items()}) for back, of in enumerate(past, 1))
    return SourceData("tickets", WindowCounts(window(), current), past=tuple(known), **more)


def judged(known: SourceData, rule: Rule = RULE) -> Verdict:
    verdicts = verdicts_of(rule, known, CONFIG.model_copy(update={"rules": (rule,)}), ())
    return next(v for v in verdicts if v.subject.label == "label 0")


def test_weeks_that_are_not_significant_alone_are_a_breach_together():
    rule = RULE.model_copy(update={"condition": "above"})
    few = [0.75] * 9
    assert judged(data(*few[:1], rows=20), rule).outcome != "breach"
    assert judged(data(*few[:5], rows=20)).outcome == "unconfirmed"
    found = judged(data(*few, *[KEPT] * 20, rows=20))
    assert (found.outcome, found.reason) == ("breach", Reason.ABOVE_THRESHOLD)
    assert (found.windows, found.n, found.detail["since"]) == (9, 180, "week-8")
    assert found.value == pytest.approx(0.15)
    assert (found.detail["promised"], found.detail["kept"]) == (pytest.approx(0.9), pytest.approx(0.75))
    assert found.p_value is found.p_adjusted is None


def test_the_evidence_is_that_of_every_window_since_the_oldest():
    kept = [0.85, 0.8, KEPT, 0.86, 0.8]
    found = judged(data(*kept))
    promises = [Promise(100, 100.0, 0.9, each) for each in reversed(kept)]
    assert found.detail["evidence"] == pytest.approx(math.exp(restarted(promises, 0.02)[-1]), rel=1e-3)
    assert [step[0] for step in found.detail["path"]] == [f"week-{back}" for back in (4, 3, 2, 1, 0)]
    assert found.detail["path"][-1][1:4] == [100, 0.9, 0.85]


@pytest.mark.parametrize("rows", [85, 340])
def test_a_confirmed_fault_that_has_healed_is_no_breach_after_two_weeks(rows: int):
    broken = judged(data(*[BROKEN] * 4, *[KEPT] * 8, rows=rows))
    assert broken.outcome == "breach"
    healed = judged(data(KEPT, KEPT, *[BROKEN] * 4, *[KEPT] * 8, rows=rows))
    assert healed.outcome != "breach"
    assert (healed.windows, healed.value, healed.detail["suspected"]) == (2, pytest.approx(0.0, abs=0.01), False)
    assert judged(data(BROKEN, BROKEN, BROKEN, KEPT, KEPT, *[BROKEN] * 4, rows=rows)).outcome == "breach"


def test_a_fault_that_is_not_confirmed_goes_on_adding_up_through_a_good_week():
    kept = [0.82, 0.82, 0.82, 0.93, 0.82, 0.82]
    promises = [Promise(50, 50.0, 0.9, round(each * 50) / 50) for each in reversed(kept)]
    found = judged(data(*kept, rows=50))
    assert found.outcome == "unconfirmed"
    assert found.detail["evidence"] == pytest.approx(math.exp(restarted(promises, 0.02)[-1]), rel=1e-3)


def test_evidence_starts_anew_where_an_operator_turned_the_label_on():
    broken = [BROKEN] * 4
    assert judged(data(*broken)).outcome == "breach"
    for at, windows in ((window(1).end + timedelta(days=2), 1), (window(2).start, 3), (window(2).end, 2)):
        known = data(*broken, enabled={"label 0": (window(9).end, at)})
        assert judged(known).detail["path"][0][0] == f"week-{windows - 1}"
    later = data(*broken, enabled={"label 0": (window().end + timedelta(hours=7),)})
    assert judged(later).outcome == "breach"  # when this window ended, nobody had
    assert judged(data(*broken, enabled={"label 1": (window(1).end,)})).outcome == "breach"


def test_evidence_starts_anew_with_a_version_that_all_rows_have_and_not_while_versions_are_mixed():
    def since(*versions: dict[str, int]) -> str:
        parts = [WindowCounts(window(back), {"label 0": counts(BROKEN)}, mix) for back, mix in enumerate(versions)]
        known = SourceData("tickets", parts[0], tuple(parts[1:]))
        return str(judged(known).detail["path"][0][0])

    old, new, mixed, late = {"v1": 100}, {"v2": 100}, {"v2": 60, "v1": 40}, {"v2": 96, "v1": 4}
    assert since(new, new, old, old) == "week-1"
    assert since(mixed, old, old) == "week-2"
    assert since(late, mixed, old) == "week-1"
    assert since(new, new, mixed, old) == "week-2"
    assert since(old, old, old) == "week-2"


def test_labels_that_keep_their_promise_are_ok_and_say_what_would_have_been_seen():
    found = judged(data(*[KEPT] * 30))
    assert (found.outcome, found.reason) == ("ok", Reason.WITHIN_THRESHOLD)
    assert found.windows == 30
    assert 0 < found.detectable < 0.1


def test_too_few_rows_for_any_overconfidence_are_not_evaluated():
    found = judged(data(1.0, rows=5))
    assert (found.outcome, found.reason) == ("not_evaluated", Reason.TOO_FEW_ROWS)


def test_a_label_without_automated_rows_has_no_rows():
    known = data(KEPT)
    labels = {**known.current.labels, "label 0": counts_from_rows([0.1] * 50, [0] * 50)}
    found = judged(replace(known, current=replace(known.current, labels=labels)))
    assert (found.outcome, found.reason) == ("not_evaluated", Reason.NO_ROWS)


def test_an_old_good_year_does_not_hide_a_new_fault():
    assert judged(data(*[BROKEN] * 3, *[KEPT] * 48)).outcome == "breach"


def test_a_fault_that_was_fixed_is_forgotten_and_the_value_is_of_the_weeks_since():
    """However long it lasted, since what is left of the evidence is capped."""
    after = [judged(data(*[0.92] * good, *[0.6] * 40)) for good in range(1, 4)]
    assert [verdict.outcome for verdict in after] == ["ok"] * 3
    assert [verdict.windows for verdict in after] == [1, 2, 3]
    slow = [judged(data(*[0.9] * good, *[0.82] * 40)) for good in range(1, 20)]
    assert slow[0].outcome == "breach"
    assert slow[0].detail["newest_alone"]["beyond"] is False
    assert slow[-1].outcome == "ok"
    assert slow[-1].windows < 20


def test_windows_before_the_end_of_the_baseline_and_of_another_version_are_not_looked_at():
    known = data(*[BROKEN] * 10)
    baselines = {"label 0": pinned(counts(KEPT), "label 0", end=window(4).end)}
    assert len(dated_promises(RULE, replace(known, baselines=baselines), "label 0")) == 4
    versions = [replace(past, versions={"v1" if place >= 2 else "v2": 10}) for place, past in enumerate(known.past)]
    current = replace(known.current, versions={"v2": 10})
    assert len(dated_promises(RULE, replace(known, current=current, past=tuple(versions)), "label 0")) == 3


def test_windows_whose_rows_were_rejected_are_left_out():
    known = data(*[BROKEN] * 5)
    rejected = Rejections({"label 0": Rejection(Why.SHARE, RejectionCause.OTHER, 50, 100)})
    past = (known.past[0], replace(known.past[1], rejected=rejected), *known.past[2:])
    assert [w.name for w, _ in dated_promises(RULE, replace(known, past=past), "label 0")] == [
        "week-4", "week-3", "week-1", "week-0",
    ]  # fmt: skip


def test_windows_that_are_known_in_full_are_not_counted_twice():
    """The newest ones come with their counts, read once more; the history may hold older ones of them."""
    known = data(*[BROKEN] * 4)
    again = WindowCounts(window(1), {label: counts(KEPT) for label in LABELS})
    found = dated_promises(RULE, replace(known, earlier=(again,)), "label 0")
    assert [(w.name, p.kept) for w, p in found] == [
        ("week-3", BROKEN), ("week-2", BROKEN), ("week-1", KEPT), ("week-0", BROKEN),
    ]  # fmt: skip


def test_late_truths_change_the_evidence_and_are_not_added_to_it():
    first, later = data(KEPT, 0.8, KEPT), data(KEPT, 0.86, KEPT)
    assert judged(later).detail["evidence"] < judged(first).detail["evidence"]
    assert judged(later).detail["evidence"] == judged(data(KEPT, 0.86, KEPT)).detail["evidence"]
    assert judged(later).id != judged(first).id


def test_no_more_than_a_year_is_looked_at():
    assert len(dated_promises(RULE, data(*[KEPT] * 80), "label 0")) == LONGEST


def test_several_labels_in_trouble_need_less_evidence_each():
    known = data(*[0.7] * 3)
    labels = {label: (counts(0.7) if label in LABELS[:5] else found) for label, found in known.current.labels.items()}
    past = tuple(
        replace(p, labels={k: (p.labels["label 0"] if k in LABELS[:5] else v) for k, v in p.labels.items()})
        for p in known.past
    )
    many = judged(replace(known, current=replace(known.current, labels=labels), past=past))
    assert many.detail["needed"] == pytest.approx(520 * len(LABELS) / 5)


def test_labels_too_small_to_be_judged_alone_are_found_as_a_source():
    """Sixty labels of two automated rows a week, each overconfident: none alone, all together."""
    rng = np.random.default_rng(4)
    names = [f"small {i}" for i in range(60)]

    def drawn() -> dict[str | None, Counts]:
        labels = {
            name: counts_from_rows([0.9] * 2, (rng.random(2) < 0.75).astype(float), automate_at=0.8) for name in names
        }
        return {**labels, None: pool(labels.values())}

    weeks = [drawn() for _ in range(8)]
    past = tuple(
        PastWindow(window(back), {label: promises_of(found) for label, found in labels.items()})
        for back, labels in enumerate(weeks)
        if back
    )
    known = SourceData("tickets", WindowCounts(window(), weeks[0]), past=past)
    alone = verdicts_of(RULE, known, CONFIG, ())
    assert {verdict.outcome for verdict in alone if verdict.subject.label in names} <= {"not_evaluated", "unconfirmed"}
    (whole,) = verdicts_of(RULE.model_copy(update={"scope": "source"}), known, CONFIG, ())
    assert (whole.subject.label, whole.outcome, whole.n) == (None, "breach", 960)
