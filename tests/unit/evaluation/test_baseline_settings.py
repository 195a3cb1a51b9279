"""Which rules do not compare with a baseline of other settings, or whose automated rows could not be cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.config.model import Rule, SourceConfig
from monitor.core.baseline import Baseline, References
from monitor.core.counts import counts_from_rows
from monitor.core.records import Reason, Subject, Window
from monitor.core.source_settings import SettingChange, from_detail, in_words
from monitor.evaluation.comparisons import gates
from monitor.evaluation.data import RuleInput
from monitor.evaluation.references import against_baseline

SOURCE = SourceConfig(relation="t", score_is="probability_of_label", automate_at=0.9)
WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
COUNTS = counts_from_rows([0.9, 0.2], [1, 0])
PINNED = Baseline("t", None, 3, WEEK.start - timedelta(weeks=9), WEEK.start - timedelta(weeks=1), "", "", COUNTS,
                  {"all": (10_000,)}, WEEK.start, "ana", "")  # fmt: skip
CHANGED = (SettingChange("score_scale", "", "100.0"),)
RISE = Rule(id="rise", metric="ece", condition="increase", threshold=0.02)
LEVEL = Rule(id="level", metric="ece", threshold=0.02)


def reason(rule: Rule, references: References) -> Reason | None:
    given = RuleInput(Subject("t", None), WEEK, (COUNTS,), references.baselines.get(None))
    return gates(rule, against_baseline(rule, given, references, SOURCE, ()), has_rows=True)[1]


def test_a_rule_that_compares_says_what_changed_and_another_needs_no_baseline():
    references = References({}, refused={None: CHANGED})
    assert (reason(RISE, references), reason(LEVEL, references)) == (Reason.SETTINGS_CHANGED, None)
    given = RuleInput(Subject("t", None), WEEK, (COUNTS,))
    assert against_baseline(RISE, given, references, SOURCE, ()).detail == {"settings": [["score_scale", "", "100.0"]]}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, None),
        ({"where": "automated"}, Reason.SETTINGS_CHANGED),
        ({"metric": "automated_accuracy", "condition": "decrease"}, Reason.SETTINGS_CHANGED),
    ],
    ids=str,
)
def test_only_of_automated_rows_it_matters_that_a_baseline_could_not_be_cut(
    more: dict[str, str], expected: Reason | None
):
    references = References({None: PINNED}, not_cut=frozenset({None}))
    assert reason(RISE.model_copy(update=more), references) is expected


def test_a_rename_is_kept_with_the_comparison():
    references = References({None: PINNED}, renamed={None: (SettingChange("relation", "t", "u"),)})
    given = RuleInput(Subject("t", None), WEEK, (COUNTS,), PINNED)
    assert against_baseline(RISE, given, references, SOURCE, ()).reference == {"renamed": [["relation", "t", "u"]]}
    assert reason(RISE, references) is None


def test_the_former_automate_at_of_a_baseline_that_could_not_be_cut_is_not_called_unset():
    rule, given = RISE.model_copy(update={"where": "automated"}), RuleInput(Subject("t", None), WEEK, (COUNTS,), PINNED)
    found = against_baseline(rule, given, References({None: PINNED}, not_cut=frozenset({None})), SOURCE, ())
    assert in_words(from_detail(found.detail["settings"])) == "automate_at: another value then, 0.9 now"
