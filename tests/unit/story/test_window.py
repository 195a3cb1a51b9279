"""What a run tells of all labels: those that need somebody first, each doubt with why, and one line of counts."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from rich.console import Console

from monitor.core.diagnoses import (
    Cost,
    Diagnosis,
    DiagnosisState,
    LabelProblem,
    LikelyCause,
    NextStep,
    Notes,
    NotTold,
    Since,
)
from monitor.core.records import OF_LABEL, Action, Reason, RejectedRows, SwitchState
from monitor.core.windows import week
from monitor.evaluation.evaluate import Evaluated
from monitor.incidents.life import Finding, decide
from monitor.report.terminal import run_summary
from monitor.story.label import LabelStory, label_story, story_lines
from monitor.story.switch import switch_story
from monitor.story.window import ALONE, counts_words, doubts, needing
from tests.fakes import judged

WEEK = week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 7, tzinfo=UTC)
UNSAFE = Diagnosis(
    "tickets", "billing", WEEK, DiagnosisState.UNSAFE, LabelProblem.OVERCONFIDENT, Since("W41", "W40", "W42"), "W42",
    Cost(412, 0.58, 0.91, 130, 110, 151), ("channel", "web"), LikelyCause("version", "2.1", "2026-W41", 0.8),
    NextStep("recalibrate", "platt", before=0.1, after=0.02),
)  # fmt: skip
DEGRADED = replace(UNSAFE, label="fax", state=DiagnosisState.DEGRADED, cost=Cost(90, 0.8, 0.9, 900, 1, 2), advice=None)
FINE = Diagnosis("tickets", "login", WEEK, DiagnosisState.FINE)
CHANCE = replace(FINE, label="spam", notes=Notes(unconfirmed=("ece-increase",)))
RARE = Diagnosis(
    "tickets", "rare", WEEK, DiagnosisState.CANNOT_TELL, reason=NotTold.TOO_FEW_ROWS, notes=Notes(weeks=3)
)  # fmt: skip


def told(*diagnoses: Diagnosis) -> list[LabelStory]:
    def story(diagnosis: Diagnosis) -> LabelStory:
        switch = switch_story(SwitchState(diagnosis.source, diagnosis.label), NOW, whole=None)
        trouble = diagnosis if diagnosis.is_trouble else None
        return label_story(diagnosis, as_of=NOW, trouble=trouble, switch=switch)

    return [story(each) for each in diagnoses]


def test_a_trouble_that_is_not_over_needs_somebody_though_nothing_could_be_judged():
    unseen = replace(RARE, label="billing")
    (story,) = [label_story(unseen, as_of=NOW, trouble=UNSAFE)]
    assert needing([story]) == [story]
    assert story.sentence == (
        "billing cannot be judged: it has too few rows in 2026-W46; 3 weeks together would be enough; "
        "its trouble since W41 (W40 to W42) is not over"
    )
    assert needing([label_story(unseen, as_of=NOW)]) == []
    explained = replace(UNSAFE, notes=Notes(explained_by=("fax",)))
    assert needing([label_story(unseen, as_of=NOW, trouble=explained)]) == [], "its labels tell of it"


def test_what_a_label_misses_is_told_and_not_how_many_of_its_items_are_right():
    missing = replace(UNSAFE, problem=LabelProblem.MISSES)
    numbers = {"threshold": 0.02, "value": 0.19, "low": 0.15, "high": 0.23, "n": 400}
    lead = judged.verdict("breach", WEEK, metric="false_negative_rate", detail={"condition": "above"}, **numbers)
    facts = label_story(missing, as_of=NOW, trouble=missing, lead=lead).facts
    assert "19" in facts
    assert "claimed" not in facts
    assert "91%" in label_story(UNSAFE, as_of=NOW, trouble=UNSAFE, lead=lead).facts


def test_a_step_that_is_a_command_is_for_its_own_label():
    without = replace(RARE, label="it support", reason=NotTold.NO_BASELINE, advice=NextStep("pin_again"))
    (story,) = told(without)
    assert story.next_step == "pin a baseline of it: `calmon baseline pin --source tickets --label 'it support'`"


def printed(stories: list[LabelStory], *actions: Action, width: int = 200, **more: object) -> str:
    part = replace(Evaluated("tickets", WEEK, (), (), (), ()), **more)  # type: ignore[arg-type]  # fields of it
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(run_summary([part], stories, actions))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def test_a_label_in_trouble_is_told_in_three_lines_of_its_story_alone():
    (story,) = told(UNSAFE)
    first, why, do = story_lines(story)
    assert (
        first
        == "billing must not act alone: 58% right, scores claimed 91% (412 items that acted); since W41 (W40 to W42)"
    )
    assert why == (
        "about 130 more wrong than the scores claimed (110 to 151); in channel = web; "
        "model version 2.1 arrived in 2026-W41 (80% of the change)"
    )
    assert do.startswith("Automation is off: it was never turned on; ")
    assert do.endswith("next: recalibrate by platt: ECE 0.100 to 0.020")


def test_a_run_prints_who_needs_somebody_worst_first_then_doubts_counts_data_and_actions():
    quality = (RejectedRows("tickets", "duplicate", 40), RejectedRows("tickets", "score_missing", 1))
    done = [Action("disable_automation", "tickets", "billing", "turned off"), Action("slack", "tickets", None, "sent")]
    lines = printed(told(FINE, DEGRADED, RARE, CHANCE, UNSAFE), *done, quality=quality).splitlines()
    assert lines[0].startswith("billing must not act alone: ")
    assert lines[3].startswith("fax is overconfident: ")
    assert lines[6:] == [
        "rare cannot be judged: it has too few rows in 2026-W46; 3 weeks together would be enough.",
        "2026-W46: 5 labels: 1 must not act alone, 1 degraded, 1 cannot tell, 2 fine "
        "(1 of them with a value beyond its limit that can be chance).",
        "tickets 2026-W46: 41 rows rejected, 40 of them duplicates or in no window.",
        "Done: automation off: turned off (billing); message: sent (all of tickets).",
    ]


def test_many_labels_that_cannot_be_judged_for_one_reason_are_one_line():
    few = [replace(RARE, label=f"rare{number}") for number in range(ALONE + 1)]
    assert len(doubts(told(*few[:ALONE]))) == ALONE
    (line,) = doubts(told(*few))
    assert line == (
        "7 labels of tickets cannot be judged: they have too few rows in 2026-W46 "
        "(rare0, rare1, rare2, rare3, rare4, rare5 and 1 more)"
    )


def test_of_two_labels_as_bad_the_costlier_is_first_and_a_source_is_no_label():
    cheap = replace(UNSAFE, label="a", cost=Cost(412, 0.58, 0.91, 3, 1, 5))
    whole = replace(UNSAFE, label=None)
    assert [story.label for story in needing(told(cheap, UNSAFE, FINE))] == ["billing", "a"]
    assert counts_words(told(whole, FINE)) == "1 label: 1 fine"
    assert counts_words(told(whole)) == "no label was judged"


def test_a_source_that_could_not_be_read_is_said_to_be_so_and_names_move_no_cursor():
    text = printed(told(replace(UNSAFE, label="a\x1b[2J[red]b")), problem=Reason.RELATION_ERROR, error="no column")
    assert "tickets 2026-W46: not evaluated, relation error" in text
    assert "a[2J[red]b must not act alone" in text
    assert max(map(len, printed(told(UNSAFE, DEGRADED), width=60).splitlines())) <= 60


def test_a_source_that_its_labels_explain_needs_nobody_unless_it_has_an_incident():
    whole = replace(DEGRADED, label=None, notes=Notes(explained_by=("billing", "fax")))
    (story,) = told(whole)
    said = "tickets (all labels): what is wrong is in billing, fax; of the rest nothing is confirmed"
    assert (story.sentence, story.needs_somebody, story.do_now) == (said, False, "")
    assert needing(told(whole, UNSAFE)) == told(UNSAFE)
    found = Finding(OF_LABEL, "tickets", None, WEEK, DiagnosisState.DEGRADED)
    assert replace(story, incident=decide(found, None, NOW).incident).needs_somebody
