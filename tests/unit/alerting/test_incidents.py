"""When an incident opens, goes on, is resolved, and when nothing happens, each with its reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.incidents import (
    FLAPPING_FROM,
    GOOD_WINDOWS,
    RECALL,
    IncidentStep,
    acknowledge,
    corrected,
    decide,
    event_of,
    last_reported,
    newest,
    news_key,
    repeat_due,
    resolve,
    silence,
    steps_of,
    still_waits,
    wake,
)
from monitor.core import wording
from monitor.core.records import Incident, IncidentReason, Outcome, Reason, Subject, Verdict, Window

START = datetime(2026, 11, 9, tzinfo=UTC)
NOW = datetime(2026, 11, 16, 7, tzinfo=UTC)


def verdict(outcome: Outcome, week: int = 0, *, id: str | None = None, label: str | None = "billing") -> Verdict:
    start = START + timedelta(weeks=week)
    reasons = {
        "ok": Reason.WITHIN_THRESHOLD, "breach": Reason.INCREASED, "not_evaluated": Reason.TOO_FEW_ROWS,
        "unconfirmed": Reason.NOT_SIGNIFICANT_IN_FAMILY,
    }  # fmt: skip
    return Verdict(
        id=id or f"v{week}", rule="ece-increase", subject=Subject("tickets", label),
        window=Window(start, start + timedelta(weeks=1), f"2026-W{46 + week}", "weekly"), metric="ece", where="all",
        outcome=outcome, reason=reasons[outcome], severity="warning", threshold=0.02,
    )  # fmt: skip


def opened(week: int = 0):
    incident = decide(verdict("breach", week), None, NOW).incident
    assert incident is not None
    return incident


def test_a_first_breach_opens_an_incident():
    decision = decide(verdict("breach"), None, NOW)
    assert (decision.kind, decision.reason) == ("open", "first breach")
    incident = decision.incident
    assert incident is not None
    assert (incident.state, incident.breaches, incident.opened_window) == ("open", 1, "2026-W46")
    assert (incident.first_verdict, incident.last_verdict, incident.reason) == ("v0", "v0", "increased")
    assert (incident.opened_at, incident.last_window_start) == (NOW, START)


def test_the_next_breach_continues_the_incident():
    decision = decide(verdict("breach", 1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("continue", "still breaching")
    assert decision.incident is not None
    assert (decision.incident.breaches, decision.incident.last_verdict) == (2, "v1")
    assert (decision.incident.id, decision.incident.first_verdict) == (opened().id, "v0")


def test_an_incident_that_waits_for_truths_stays_open_and_says_nothing():
    waiting = replace(verdict("not_evaluated", 1), reason=Reason.NOT_MATURE)
    decision = decide(waiting, opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "waits for truths: stays open")
    assert IncidentStep(decision, waiting).is_quiet


def test_late_truths_correct_an_open_incident_once():
    """Only the window that it counted last, on other rows, and while it is open."""
    again = verdict("breach", id="v0-again")
    step = IncidentStep(decide(again, opened(), NOW), again)
    after = corrected(step)
    assert (after.decision.kind, after.decision.reason) == (
        "continue",
        "still breaching: late truths gave other numbers",
    )
    assert after.decision.incident is not None
    assert (after.decision.incident.last_verdict, after.decision.incident.breaches) == ("v0-again", 1)
    assert after.decision.incident.version == 2
    same = IncidentStep(decide(verdict("breach"), opened(), NOW), verdict("breach"))
    other = IncidentStep(decide(verdict("breach", 1), opened(), NOW), verdict("breach", 1))
    assert (corrected(same), corrected(other)) == (same, other)
    done = IncidentStep(decide(again, after.decision.incident, NOW), again)
    assert corrected(done) == done


def test_ok_resolves_it_and_names_the_window():
    decision = decide(verdict("ok", 1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("resolve", "within threshold again")
    assert decision.incident is not None
    assert (decision.incident.state, decision.incident.resolved_window) == ("resolved", "2026-W47")
    assert decision.incident.resolved_at == NOW
    assert decision.incident.last_verdict == "v0"


def test_late_truths_that_clear_the_last_window_resolve_it():
    assert decide(verdict("ok", 0, id="again"), opened(), NOW).kind == "resolve"


def test_what_could_not_be_evaluated_leaves_it_open():
    decision = decide(verdict("not_evaluated", 1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "not evaluated: stays open")
    assert decision.incident == opened()


@pytest.mark.parametrize("id", ["v0", "judged-again"])
def test_the_same_window_counts_once(id: str):
    decision = decide(verdict("breach", 0, id=id), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "already counted")
    assert decision.incident == opened()


HOURS_APART = [timedelta(hours=-1), timedelta(hours=5)]  # Berlin, New York


def elsewhere(verdict: Verdict, apart: timedelta) -> Verdict:
    """The same week, judged after `timezone` was changed in alerts.yaml."""
    window = replace(verdict.window, start=verdict.window.start + apart, end=verdict.window.end + apart)
    return replace(verdict, id="elsewhere", window=window)


@pytest.mark.parametrize("apart", HOURS_APART, ids=str)
def test_a_week_counts_once_in_two_time_zones(apart: timedelta):
    decision = decide(elsewhere(verdict("breach"), apart), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "already counted")
    good = decide(elsewhere(verdict("ok"), apart), opened(), NOW)
    assert good.incident is not None
    assert (good.kind, good.incident.breaches) == ("resolve", 0)
    following = decide(elsewhere(verdict("breach", 1), apart), opened(), NOW)
    assert following.incident is not None
    assert (following.kind, following.incident.breaches) == ("continue", 2)


def test_a_late_run_of_an_older_window_that_is_not_judged_hides_no_newer_one():
    weeks = [verdict("not_evaluated", 3), verdict("not_evaluated", 2)]
    steps = [IncidentStep(decide(each, opened(), NOW), each) for each in weeks]
    events = [e for k, step in enumerate(steps) if (e := event_of(step, NOW + timedelta(hours=k))) is not None]
    last = last_reported(opened(), events)
    assert (len(events), last and last.window) == (2, weeks[0].window.name)


def test_above_the_limit_without_proof_neither_resolves_nor_counts_as_a_breach():
    decision = decide(verdict("unconfirmed", 1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "above the limit, not confirmed: stays open")
    assert decision.incident == opened()


def test_an_unconfirmed_window_can_still_become_a_breach_or_good_by_late_truths():
    # so it must not move last_window_start: the window would be "already counted", and the one before "older"
    before = opened()
    after = decide(verdict("unconfirmed", 1), before, NOW).incident
    assert after is not None
    assert decide(verdict("breach", 1, id="again"), after, NOW).kind == "continue"
    assert decide(verdict("ok", 1, id="again"), after, NOW).kind == "resolve"


def test_an_unconfirmed_window_is_neither_good_nor_bad_for_an_incident_that_flaps():
    flapping = opened()
    for week in range(2, 2 * FLAPPING_FROM + 1, 2):
        for outcome, at in (("ok", week - 1), ("breach", week)):
            after = decide(verdict(outcome, at), flapping, NOW).incident
            assert after is not None
            flapping = after
    held = decide(verdict("ok", 5), flapping, NOW)
    assert (held.kind, held.reason) == ("hold", "held back: flapping")
    between = decide(verdict("unconfirmed", 6), held.incident, NOW)
    assert (between.kind, between.incident) == ("nothing", held.incident)
    ended = decide(verdict("ok", 7), between.incident, NOW)
    assert (ended.kind, ended.reason) == ("resolve", "within threshold again, and steady")


def pooled(week: int, *, beyond: bool = False, too_few: bool = False) -> Verdict:
    alone = {"value": 0.03 if beyond else 0.01, "n": 700, "beyond": beyond, "too_few": too_few}
    return replace(verdict("breach", week), windows=4, detail={"newest_alone": alone})


def test_a_pooled_breach_goes_on_only_where_the_newest_window_is_beyond_or_too_small_to_decide():
    for found, kind in ((pooled(1, beyond=True), "continue"), (pooled(1, too_few=True), "continue")):
        decision = decide(found, opened(), NOW)
        assert (decision.kind, decision.reason) == (kind, "still breaching")
    decision = decide(pooled(1), opened(), NOW)
    assert (decision.kind, decision.incident) == ("nothing", opened())
    assert decision.reason == "the newest window alone is within the threshold: stays open"


def test_weeks_that_are_healthy_by_themselves_are_not_counted_as_in_breach():
    incident = opened()
    for week in range(1, 11):
        after = decide(pooled(week, beyond=week <= 3), incident, NOW).incident
        assert after is not None
        incident = after
    assert (incident.breaches, incident.state) == (4, "open"), "four bad weeks, though pooled it is a breach in eleven"
    assert decide(verdict("ok", 11), incident, NOW).kind == "resolve"


def test_old_weeks_in_a_pooled_breach_bring_no_resolved_incident_back_but_may_open_one():
    resolved = decide(verdict("ok", 1), opened(), NOW).incident
    decision = decide(pooled(2), resolved, NOW)
    assert (decision.kind, decision.reason) == ("nothing", "the newest window alone is within the threshold")
    assert decide(pooled(2, beyond=True), resolved, NOW).kind == "reopen"
    assert decide(pooled(2), None, NOW).kind == "open", "pooled, it is a breach"


def test_an_open_incident_that_is_not_confirmed_or_old_by_now_is_reported_once_by_its_event():
    for found in (verdict("unconfirmed", 1), pooled(1)):
        step = IncidentStep(decide(found, opened(), NOW), found)
        event = event_of(step, NOW)
        assert not step.is_quiet
        assert event is not None
        assert (event.kind, event.reason, event.window) == ("continued", step.decision.reason.value, "2026-W47")


def test_an_unconfirmed_window_does_not_keep_an_old_incident_in_mind():
    resolved = decide(verdict("ok", 1), opened(), NOW).incident
    for week in range(2, 9):
        decision = decide(verdict("unconfirmed", week), resolved, NOW)
        assert (decision.kind, decision.reason) == ("nothing", "above the limit, not confirmed")
        resolved = decision.incident or resolved
    assert decide(verdict("breach", 9), resolved, NOW).kind == "open"


@pytest.mark.parametrize("outcome", ["ok", "breach", "not_evaluated", "unconfirmed"])
def test_an_older_window_changes_nothing(outcome: Outcome):
    decision = decide(verdict(outcome, -1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "older window")
    assert decision.incident == opened()


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [("ok", "within threshold"), ("not_evaluated", "not evaluated"),
     ("unconfirmed", "above the limit, not confirmed")],
)  # fmt: skip
def test_without_an_incident_only_a_breach_does_anything(outcome: Outcome, reason: str):
    decision = decide(verdict(outcome), None, NOW)
    assert (decision.kind, decision.reason, decision.incident) == ("nothing", reason, None)


def test_the_id_depends_on_the_subject_and_the_first_window_only():
    later = decide(verdict("breach", 0, id="other"), None, NOW + timedelta(days=1)).incident
    assert later is not None
    assert later.id == opened().id
    others = {opened(1).id, decide(verdict("breach", label=None), None, NOW).incident.id}  # type: ignore[union-attr]
    assert opened().id not in others
    assert len(others) == 2


DAY = timedelta(days=1)


def after(*outcomes: Outcome) -> Incident:
    """The incident after these weeks."""
    incident: Incident | None = None
    for week, outcome in enumerate(outcomes):
        incident = decide(verdict(outcome, week), incident, NOW + timedelta(weeks=week)).incident
    assert incident is not None
    return incident


def test_a_breach_soon_after_the_end_reopens_the_same_incident():
    ended = after("breach", "ok")
    decision = decide(verdict("breach", 2), ended, NOW)
    assert (decision.kind, decision.reason) == ("reopen", "came back: reopened")
    again = decision.incident
    assert again is not None
    assert (again.id, again.state, again.reopened, again.breaches) == (ended.id, "open", 1, 2)
    assert (again.resolved_at, again.resolved_window, again.ok_windows) == (None, None, 0)


@pytest.mark.parametrize(("weeks", "kind"), [(RECALL["weekly"], "reopen"), (RECALL["weekly"] + 1, "open")])
def test_a_breach_long_after_the_end_is_another_incident(weeks: int, kind: str):
    decision = decide(verdict("breach", 1 + weeks), after("breach", "ok"), NOW)
    assert decision.kind == kind
    assert decision.incident is not None
    assert (decision.incident.id == after("breach").id) == (kind == "reopen")


def test_a_window_that_late_truths_turn_round_and_back_is_in_breach_once():
    second = after("breach", "breach")
    good = decide(verdict("ok", 1, id="later"), second, NOW).incident
    assert good is not None
    assert (good.state, good.breaches) == ("resolved", 1)
    back = decide(verdict("breach", 1, id="later still"), good, NOW).incident
    assert back is not None
    assert (back.breaches, wording.in_breach(back, verdict("breach", 1))) == (
        2, "in breach for 2 weeks (since 2026-W46); came back once",
    )  # fmt: skip
    again = decide(verdict("breach", 2), back, NOW).incident
    assert again is not None
    assert again.breaches == 3


def test_late_truths_that_make_the_only_breach_good_resolve_it_by_later_outcomes():
    ended = decide(verdict("ok", 0, id="later"), opened(), NOW)
    assert ended.incident is not None
    assert ended.incident.breaches == 0
    told = wording.incident_state(
        ended.incident, verdict("breach"), event_of(IncidentStep(ended, verdict("ok", 0)), NOW)
    )
    assert told == "Resolved in 2026-W46: within the limit, by later outcomes"


def test_how_long_it_has_been_in_breach_leaves_out_a_last_window_that_is_good_by_now():
    flapping = after("breach", "ok", "breach", "ok", "breach")
    held = decide(verdict("ok", 4, id="later"), flapping, NOW).incident
    assert held is not None
    assert (held.state, held.breaches) == ("open", 2)
    assert wording.in_breach(held, verdict("breach", 4)) == "came back twice"
    assert wording.in_breach(flapping, verdict("breach", 4)) == (
        "in breach in 3 of 5 weeks since 2026-W46, last in 2026-W50; came back twice"
    )


def test_late_truths_that_turn_a_resolved_window_round_reopen_it_and_count_once():
    decision = decide(verdict("breach", 1, id="again"), after("breach", "ok"), NOW)
    assert decision.kind == "reopen"
    assert decide(verdict("breach", 1, id="again"), decision.incident, NOW).reason == "already counted"
    assert decide(verdict("ok", 1), after("breach", "ok"), NOW).reason == "already counted"


def test_from_the_second_return_on_one_good_window_is_held_back_and_two_in_a_row_end_it():
    flapping = after("breach", "ok", "breach", "ok", "breach")
    assert flapping.reopened == 2
    held = decide(verdict("ok", 5), flapping, NOW)
    assert (held.kind, held.reason) == ("hold", "held back: flapping")
    assert held.incident is not None
    assert (held.incident.state, held.incident.ok_windows) == ("open", 1)
    assert decide(verdict("ok", 5), held.incident, NOW).kind == "nothing"  # the same window is no second one
    ended = decide(verdict("ok", 6), held.incident, NOW)
    assert (ended.kind, ended.reason) == ("resolve", "within threshold again, and steady")
    broken = decide(verdict("breach", 6), held.incident, NOW)
    assert broken.incident is not None
    assert (broken.kind, broken.incident.ok_windows) == ("continue", 0)
    assert GOOD_WINDOWS == 2


def test_a_label_that_disappeared_stays_open_and_says_so():
    gone = replace(verdict("not_evaluated", 1), reason=Reason.NO_ROWS, n=0)
    decision = decide(gone, opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "label disappeared: not evaluated, stays open")
    other_rows = replace(gone, n=700)  # outcomes came, but none of the rule's population
    assert decide(other_rows, opened(), NOW).reason == "not evaluated: stays open"
    assert decide(gone, after("breach", "ok"), NOW).reason == "not evaluated"


def test_somebody_acknowledges_once_and_is_notified_that_it_goes_on():
    taken = acknowledge(opened(), "ana", NOW)
    assert taken.kind == "acknowledge"
    assert taken.incident is not None
    assert (taken.incident.state, taken.incident.acknowledged_by, taken.incident.version) == ("acknowledged", "ana", 2)
    assert acknowledge(taken.incident, "ben", NOW).reason == "already acknowledged"
    assert decide(verdict("breach", 1), taken.incident, NOW).reason == "still breaching, acknowledged"


def test_what_came_back_has_been_acknowledged_by_nobody():
    taken = acknowledge(opened(), "ana", NOW).incident
    ended = decide(verdict("ok", 1), taken, NOW).incident
    again = decide(verdict("breach", 2), ended, NOW).incident
    assert again is not None
    assert (again.state, again.acknowledged_by) == ("open", None)


def test_a_silence_ends_by_itself_and_not_a_moment_before():
    quiet = silence(opened(), "ana", NOW + DAY, NOW)
    assert quiet.words == "silenced until 2026-11-17 07:00 UTC"
    assert quiet.incident is not None
    assert decide(verdict("breach", 1), quiet.incident, NOW).words == (
        "still breaching, silenced until 2026-11-17 07:00 UTC"
    )
    assert wake(quiet.incident, NOW + DAY - timedelta(seconds=1)).kind == "nothing"
    woken = wake(quiet.incident, NOW + DAY)
    assert (woken.kind, woken.reason) == ("wake", "the silence has ended")
    assert woken.incident is not None
    assert (woken.incident.state, woken.incident.silenced_until) == ("open", None)


def test_an_acknowledged_incident_is_acknowledged_again_when_its_silence_ends():
    taken = acknowledge(opened(), "ana", NOW).incident
    assert taken is not None
    quiet = silence(taken, "ana", NOW + DAY, NOW).incident
    assert quiet is not None
    woken = wake(quiet, NOW + DAY).incident
    assert woken is not None
    assert woken.state == "acknowledged"


def test_a_longer_silence_replaces_a_shorter_one_and_not_the_other_way_round():
    week = silence(opened(), "ana", NOW + 7 * DAY, NOW).incident
    assert week is not None
    assert silence(week, "ben", NOW + DAY, NOW).reason == "already silenced as long"
    longer = silence(week, "ben", NOW + 8 * DAY, NOW)
    assert longer.incident is not None
    assert (longer.kind, longer.incident.silenced_by) == ("silence", "ben")


def test_what_comes_back_during_its_silence_stays_silent_until_that_ends():
    quiet = silence(opened(), "ana", NOW + 30 * DAY, NOW).incident
    ended = decide(verdict("ok", 1), quiet, NOW + 7 * DAY).incident
    again = decide(verdict("breach", 2), ended, NOW + 14 * DAY)
    assert again.reason == "came back while silenced"
    assert again.incident is not None
    assert again.incident.state == "silenced"
    later = decide(verdict("breach", 2), ended, NOW + 30 * DAY)
    assert later.incident is not None
    assert (later.reason, later.incident.silenced_until) == ("came back: reopened", None)


def test_a_person_resolves_with_a_reason_and_the_same_window_does_not_reopen_it():
    ended = resolve(opened(), "ana", "the label is retired", NOW)
    assert (ended.kind, ended.reason) == ("resolve", "resolved by hand")
    assert decide(verdict("breach", 0), ended.incident, NOW).reason == "already counted"
    assert decide(verdict("breach", 1), ended.incident, NOW).kind == "reopen"


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (acknowledge(opened(), "  ", NOW), "a name is needed"),
        (silence(opened(), "", NOW + DAY, NOW), "a name is needed"),
        (silence(opened(), "ana", NOW, NOW), "a silence must end in the future"),
        (silence(after("breach", "ok"), "ana", NOW + DAY, NOW), "already resolved"),
        (acknowledge(after("breach", "ok"), "ana", NOW), "already resolved"),
        (resolve(opened(), "ana", " ", NOW), "a reason is needed"),
        (resolve(opened(), "", "gone", NOW), "a name is needed"),
    ],
)
def test_what_may_not_be_done_is_refused_with_its_reason_and_changes_nothing(refused, reason: str):
    assert (refused.kind, refused.reason, refused.changes) == ("refuse", reason, False)
    assert refused.incident in (opened(), after("breach", "ok"))


def test_an_evaluation_first_ends_the_silences_whose_time_has_come():
    quiet = silence(opened(), "ana", NOW + DAY, NOW).incident
    assert quiet is not None
    steps = steps_of([verdict("breach", 1)], {quiet.fingerprint: quiet}, NOW + 7 * DAY)
    assert [step.decision.kind for step in steps] == ["wake", "continue"]
    assert [step.decision.incident.version for step in steps if step.decision.incident] == [3, 4]


def test_the_incident_a_verdict_is_about_is_the_one_not_resolved_else_the_last():
    old = after("breach", "ok")
    later = replace(opened(8), id="later", state="resolved")
    assert newest([later, old])[old.fingerprint].id == "later"
    assert newest([later, replace(old, state="open"), old])[old.fingerprint].state == "open"


@pytest.mark.parametrize(
    ("states", "hours", "due"),
    [
        (["open"], 24, True),
        (["open"], 23, False),
        (["acknowledged", "silenced", "resolved"], 99, False),
        (["acknowledged", "open"], 24, True),
    ],
)
def test_people_are_called_again_while_something_is_open_and_the_time_has_come(states, hours: int, due: bool):
    waiting = [replace(opened(), state=state) for state in states]
    assert repeat_due(waiting, NOW, DAY, NOW + timedelta(hours=hours)) is due
    assert not repeat_due(waiting, NOW, None, NOW + 1000 * DAY)


@pytest.mark.parametrize("by_hand", [acknowledge, lambda i, who, now: silence(i, who, now + DAY, now)])
def test_news_has_the_same_name_whatever_people_did_to_the_incident_before(by_hand):
    after = by_hand(opened(), "ana", NOW).incident
    going_on = verdict("breach", 1)
    assert len({news_key(IncidentStep(decide(going_on, i, NOW), going_on)) for i in (opened(), after)}) == 1


def test_each_evaluation_of_one_window_that_did_something_has_its_own_name():
    incident, names = opened(), []
    for outcome in ("ok", "breach") * 3:  # late truths
        step = IncidentStep(decide(verdict(outcome), incident, NOW), verdict(outcome))
        incident = step.decision.incident
        names.append(news_key(step))
    for id in ("a", "b"):
        again = verdict("breach", id=id)
        step = corrected(IncidentStep(decide(again, incident, NOW), again))
        incident = step.decision.incident
        names.append(news_key(step))
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("state", "acknowledged", "waits"),
    [("open", None, True), ("acknowledged", 1, False), ("acknowledged", -1, True), ("silenced", -1, False),
     ("silenced", None, False), ("resolved", -1, False), ("resolved", None, False)],
)  # fmt: skip
def test_a_call_is_needed_until_somebody_takes_the_incident_after_it_was_written(state, acknowledged, waits: bool):
    at = None if acknowledged is None else NOW + timedelta(hours=acknowledged)
    assert still_waits(replace(opened(), state=state, acknowledged_at=at), NOW) is waits


def test_an_event_is_kept_once_for_each_change_and_names_its_reason():
    decision = decide(verdict("breach"), None, NOW)
    event = event_of(IncidentStep(decision, verdict("breach")), NOW)
    assert event is not None
    assert (event.kind, event.reason, event.actor, event.window) == ("opened", "first breach", "run", "2026-W46")
    assert event.key == event_of(IncidentStep(decision, verdict("breach")), NOW + DAY).key  # type: ignore[union-attr]
    assert event_of(IncidentStep(decide(verdict("ok"), None, NOW), verdict("ok")), NOW) is None
    assert event_of(IncidentStep(decide(verdict("breach"), opened(), NOW), verdict("breach")), NOW) is None


def test_every_reason_has_its_line_in_the_docs():
    page = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text("utf-8")
    assert [reason.value for reason in IncidentReason if f"| {reason.value} |" not in page] == []
