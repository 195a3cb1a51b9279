"""Which incidents the diagnoses of one run are about: one a label, one of many at once, one of a vanished one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from monitor.core.diagnoses import Diagnosis, DiagnosisState, LabelProblem, Notes, NotTold
from monitor.core.records import Incident, Severity, Verdict, Window
from monitor.core.windows import day, week
from monitor.incidents.findings import MANY, USUAL, decisions, gone, newest
from monitor.incidents.life import IncidentDecision, resolve
from tests.fakes import judged

UTC = ZoneInfo("UTC")
HOURS = timedelta(hours=7)


def window(number: int) -> Window:
    return week(f"2026-W{number:02d}", UTC)


def told(label: str | None, state: DiagnosisState, number: int = 10, **more: object) -> Diagnosis:
    problem = LabelProblem.LESS_ACCURATE if state in (DiagnosisState.UNSAFE, DiagnosisState.DEGRADED) else None
    return Diagnosis("mail", label, window(number), state, problem, **more)  # type: ignore[arg-type]


def trouble(label: str | None, number: int = 10, **more: object) -> Diagnosis:
    return told(label, DiagnosisState.DEGRADED, number, **more)


def fine(label: str | None, number: int = 10) -> Diagnosis:
    return told(label, DiagnosisState.FINE, number)


def without_rows(label: str, number: int = 10, *, usual: int | None = 100, last: str = "2026-W09") -> Diagnosis:
    notes = Notes(last_rows=last, usual_rows=usual)
    return told(label, DiagnosisState.CANNOT_TELL, number, reason=NotTold.NO_ROWS, notes=notes)


def run(diagnoses: Sequence[Diagnosis], known: Sequence[Incident] = (), **verdicts: Verdict) -> list[IncidentDecision]:
    return decisions(diagnoses, verdicts, known, diagnoses[0].window.end + HOURS)


def incidents(made: Sequence[IncidentDecision], known: Sequence[Incident] = ()) -> list[Incident]:
    """The incidents after the decisions."""
    changed = {d.incident.id: d.incident for d in made if d.incident is not None and d.changes}
    return list(({incident.id: incident for incident in known} | changed).values())


def kinds(made: Sequence[IncidentDecision]) -> list[tuple[str, str, str | None]]:
    return [(d.kind, d.incident.kind, d.incident.label) for d in made if d.incident is not None and d.changes]


def labels(count: int) -> list[str]:
    return [f"label{at}" for at in range(count)]


def verdict(id: str, rule: str, severity: Severity, of: Window) -> Verdict:
    return judged.verdict("breach", of, id=id, rule=rule, severity=severity)


def test_a_daily_finding_that_rests_on_a_week_alone_brings_back_nothing_that_a_person_ended() -> None:
    found = {"w": verdict("w", "weekly", "warning", window(10))}
    (made,) = run([trouble("billing", because=("w",))], **found)
    ended = resolve(made.incident, "ana", "mended", window(10).end + HOURS).incident
    tuesday = replace(trouble("billing", because=("w",)), window=day("2026-03-10", UTC))
    assert kinds(run([tuesday], [ended], **found)) == []
    found["d"] = replace(verdict("d", "daily", "warning", tuesday.window), id="d")
    again = run([replace(tuesday, because=("w", "d"))], [ended], **found)
    assert kinds(again) == [("reopen", "label", "billing")]


@pytest.mark.parametrize(("count", "kind"), [(MANY, "label"), (MANY + 1, "burst")])
def test_more_than_five_new_ones_of_a_source_are_one_incident_with_its_labels(count: int, kind: str) -> None:
    made = run([*map(trouble, labels(count)), fine("other")])
    assert {decision.incident.kind for decision in made if decision.incident and decision.changes} == {kind}
    assert sum(decision.calls for decision in made) == (1 if kind == "burst" else count)
    if kind == "burst":
        assert made[0].incident.labels == tuple(labels(count))


def test_labels_that_had_an_incident_keep_it_when_many_others_are_new() -> None:
    known = incidents(run([trouble("old", 9)]))
    made = run([*map(trouble, labels(MANY + 1)), trouble("old")], known)
    assert sorted(kinds(made)) == [("continue", "label", "old"), ("open", "burst", None)]


def test_a_burst_ends_when_all_of_its_labels_are_fine_and_one_alone_opens_nothing_beside_it() -> None:
    names = labels(MANY + 1)
    known = incidents(run(list(map(trouble, names))))
    made = run([trouble(names[0], 11), *(fine(name, 11) for name in names[1:])], known)
    assert kinds(made) == [("continue", "burst", None)]
    ended = run([fine(name, 12) for name in names], incidents(made, known))
    assert kinds(ended) == [("resolve", "burst", None)]
    later = run([trouble(names[0], 13), *(fine(name, 13) for name in names[1:])], incidents(ended, known))
    assert kinds(later) == [("open", "label", names[0])]


def test_a_label_whose_rows_stop_is_told_once_and_is_over_when_they_are_back() -> None:
    opened = run([without_rows("rare"), fine("other")])
    assert kinds(opened) == [("open", "vanished", "rare")]
    known = incidents(opened)
    (goes_on,) = [d for d in run([without_rows("rare", 11), fine("other", 11)], known) if d.changes]
    assert (goes_on.kind, goes_on.calls) == ("continue", False)
    assert kinds(run([fine("rare", 11), fine("other", 11)], known)) == [("resolve", "vanished", "rare")]
    ended = resolve(known[0], "ana", "its product has ended", window(11).end).incident
    for number in (11, 12, 17, 18, 30):  # nobody is called again for the same end, also when it is not recalled
        recalled = [ended] if number < 19 else []
        assert kinds(run([without_rows("rare", number), fine("other", number)], recalled)) == []
    again = run([without_rows("rare", 14, last="2026-W12"), fine("other", 14)], [ended])
    assert kinds(again) == [("reopen", "vanished", "rare")]


def test_a_label_whose_rows_are_back_is_over_also_where_many_others_are_new() -> None:
    known = incidents(run([without_rows("rare"), fine("other")]))
    many = [trouble(name, 11) for name in labels(MANY + 1)]
    assert sorted(kinds(run([fine("rare", 11), *many], known))) == [
        ("open", "burst", None),
        ("resolve", "vanished", "rare"),
    ]
    assert sorted(kinds(run([without_rows("rare", 11), *many], known))) == [
        ("continue", "vanished", "rare"), ("open", "burst", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "diagnoses",
    [
        [without_rows("rare", usual=USUAL - 1), fine("other")],
        [without_rows("rare", usual=None, last=""), fine("other")],
        [without_rows("rare"), without_rows("other")],
        [replace(without_rows("rare"), window=day("2026-03-08", UTC)), fine("other")],
        [replace(without_rows("rare"), label=None), fine("other")],
        [told("rare", DiagnosisState.CANNOT_TELL, reason=NotTold.TOO_FEW_ROWS), fine("other")],
    ],
    ids=["few rows", "never had rows", "no rows at all", "a day", "the source as a whole", "few this week"],
)
def test_nobody_is_called_for_a_label_without_rows_where_chance_or_the_source_explains_it(
    diagnoses: list[Diagnosis],
) -> None:
    assert kinds(run(diagnoses)) == []


@pytest.mark.parametrize("reason", [NotTold.SOURCE_NOT_READ, NotTold.REJECTED_ROWS])
def test_a_label_that_vanished_is_not_said_to_be_back_because_its_source_was_not_read(reason: NotTold) -> None:
    known = incidents(run([without_rows("rare"), fine("other")]))
    unread = [told(name, DiagnosisState.CANNOT_TELL, 11, reason=reason) for name in ("rare", "other")]
    assert kinds(run(unread, known)) == []


def test_a_label_in_trouble_whose_rows_stop_has_no_second_incident() -> None:
    known = incidents(run([trouble("rare", 9), fine("other", 9)]))
    made = run([without_rows("rare"), fine("other")], known)
    assert [(d.kind, d.reason.value) for d in made if d.changes] == [("continue", "cannot_tell")]


def test_labels_that_nobody_checks_are_one_incident_until_one_item_of_each_has_a_truth() -> None:
    def unchecked(label: str, number: int = 10) -> Diagnosis:
        silent = told(label, DiagnosisState.CANNOT_TELL, number, reason=NotTold.NO_TRUTH_WHERE_IT_ACTS)
        return replace(silent, notes=Notes(unchecked=212))

    opened = run([unchecked("billing"), fine("other"), unchecked("refund")])
    assert kinds(opened) == [("open", "unchecked", None)]
    (known,) = incidents(opened)
    assert (known.labels, known.reason, known.severity) == (
        ("billing", "refund"), "no_truth_where_it_acts", "warning",
    )  # fmt: skip
    (goes_on,) = [d for d in run([unchecked("billing", 11), fine("refund", 11)], [known]) if d.changes]
    assert (goes_on.kind, goes_on.calls, goes_on.incident and goes_on.incident.labels) == (
        "continue", False, ("billing",),
    )  # fmt: skip
    unread = told("billing", DiagnosisState.CANNOT_TELL, 11, reason=NotTold.SOURCE_NOT_READ)
    assert kinds(run([unread], [known])) == []
    assert kinds(run([fine("billing", 11), fine("refund", 11)], [known])) == [("resolve", "unchecked", None)]
    a_day = replace(unchecked("billing"), window=day("2026-03-08", UTC))
    first = told("billing", DiagnosisState.CANNOT_TELL, reason=NotTold.NO_TRUTH_WHERE_IT_ACTS)
    assert kinds(run([a_day])) == kinds(run([first])) == []


def test_a_silence_that_is_over_ends_before_the_window_is_counted() -> None:
    (incident,) = incidents(run([trouble("billing", 9)]))
    silent = replace(incident, state="silenced", silenced_until=window(10).end, silenced_by="ana")
    made = [decision.kind for decision in run([trouble("billing")], [silent])]
    assert made == ["wake", "continue"]


def test_open_incidents_of_labels_without_any_rule_are_gone_and_those_of_other_sources_are_not() -> None:
    known = incidents(run([trouble("billing"), trouble("refund"), trouble(None)]))
    watched = {("mail", "billing")}
    assert {each.label for each in gone(known, watched, {"mail"})} == {"refund", None}
    assert gone(known, watched, {"other"}) == []
    burst = incidents(run(list(map(trouble, labels(MANY + 1)))))
    assert gone(burst, {("mail", "label3")}, {"mail"}) == []
    assert gone(burst, set(), {"mail"}) == burst


def test_the_current_incident_of_a_subject_is_the_open_one_else_the_last() -> None:
    (incident,) = incidents(run([trouble("billing")]))
    older = replace(incident, id="older", state="resolved", window_end=window(12).end)
    assert newest([older, incident]) == {incident.fingerprint: incident}
    ended = replace(incident, state="resolved")
    assert newest([older, ended]) == {incident.fingerprint: older}


def of_its_labels(number: int = 10) -> Diagnosis:
    return trouble(None, number, notes=Notes(explained_by=("billing",)))


def test_a_source_that_its_labels_explain_opens_no_incident_of_its_own() -> None:
    assert kinds(run([of_its_labels(), trouble("billing")])) == [("open", "label", "billing")]
    assert kinds(run([trouble(None), trouble("billing")])) == [("open", "label", None), ("open", "label", "billing")]
