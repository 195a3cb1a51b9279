"""Faults that were once seen, each put back: the checks must find it. `seed` is of a history that shows it soon."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from benchmarks.timing import ONE_THREAD
from monitor.alerting import compose
from monitor.alerting.slack import blocks, incident_message
from monitor.alerting.slack.links import Links
from monitor.core.diagnoses import DiagnosisState, Since
from monitor.core.records import IncidentReason
from monitor.evaluation import diagnosis, trouble
from monitor.incidents import findings, life
from monitor.operations import act, diagnose
from monitor.story import label, switch
from tests.truth.checker import check_seed
from tests.truth.histories import pinned
from tests.truth.world import KINDS

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def everywhere(old: Any, new: Any) -> None:
    """Replace a function wherever a module of the program holds it; the process ends after the history."""
    for name, module in list(sys.modules.items()):
        if name.startswith("monitor") and module is not None:
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)


def three_different_sinces(_: Any) -> Any:
    return lambda since: "" if since is None else "since 2026-W01"


def a_since_of_its_own(real: Any) -> Any:
    """A message says since when its incident is open as if the trouble had begun then."""
    return lambda story, incident: [*real(story, incident), f"In trouble since {incident.window}."]


def a_since_that_moves_later(real: Any) -> Any:
    """The beginning is that of the newest window, whatever was told before."""

    def told(found: Any, problem: Any, lead: Any, facts: Any) -> Any:
        window = facts.window.name
        return replace(real(found, problem, lead, facts), since=Since(window, window, window))

    return told


def an_acknowledgement_is_dropped(real: Any) -> Any:
    """A run of the other schedule, or any later one, forgets who works on it."""

    def again(finding: Any, before: Any, counted: Any, now: Any) -> Any:
        made = real(finding, before, counted, now)
        if made.kind != "continue":
            return made
        return replace(made, incident=life.unmarked(made.incident))

    return again


def resolved_by_hand_for_ever(real: Any) -> Any:
    """What a person resolved does not come back with rows that were not known then."""

    def again(finding: Any, before: Any, counted: Any, now: Any) -> Any:
        if before.last == IncidentReason.RESOLVED_BY_HAND and not before.is_open:
            return life.IncidentDecision("nothing", IncidentReason.ALREADY_COUNTED, before)
        return real(finding, before, counted, now)

    return again


def all_clear_by_a_run_of_another_source(real: Any) -> Any:
    def every(monitor: Any, parts: Any, diagnoses: Any) -> Any:
        now, mine = monitor.clock(), {part.source for part in parts}

        def clear() -> Any:
            others = [each for each in monitor.store.unresolved_incidents() if each.source not in mine]
            cleared = [
                life.IncidentDecision(
                    "resolve", IncidentReason.FINE_AGAIN, life.resolved(replace(i, version=i.version + 1), now)
                )
                for i in others
                if i.is_open and not i.is_of_monitor
            ]
            return compose.compose(monitor, cleared)

        compose.stored(monitor, clear)
        return real(monitor, parts, diagnoses)

    return every


def fine_where_nothing_was_judged(real: Any) -> Any:
    def outline(*args: Any) -> Any:
        made = real(*args)
        return replace(made, state=DiagnosisState.FINE) if made.state is DiagnosisState.CANNOT_TELL else made

    return outline


def fine_in_words(real: Any) -> Any:
    return lambda found, name, *rest: (
        f"{name} is fine" if found.state is DiagnosisState.CANNOT_TELL else real(found, name, *rest)
    )


def not_judged_is_recovered(real: Any) -> Any:
    return lambda finding, *rest: real(replace(finding, state=DiagnosisState.FINE), *rest)


def on_while_it_is_off(_: Any) -> Any:
    return lambda *_: switch.SwitchStory("Automation is on", "on")


def messages_that_show_an_old_switch(_: Any) -> Any:
    return lambda *_, **__: []


def enabled_by_nobody(_: Any) -> Any:
    return lambda *_, **__: switch.SwitchStory("Automation is on", "on")


def automation_of_one_label_for_many(_: Any) -> Any:
    return lambda stories: min(stories, key=lambda story: list(DiagnosisState).index(story.state))


def harm_while_automation_was_off(_: Any) -> Any:
    return lambda *_: {(): 1.0}


def harm_that_did_happen(real: Any) -> Any:
    """What acted is told as if it only would have."""
    return lambda found, lead: real(found, lead).replace("that acted", "that would have acted")


def numbers_the_other_way_round(real: Any) -> Any:
    def turned(found: Any, lead: Any) -> str:
        cost = found.cost
        return real(
            found if cost is None else replace(found, cost=replace(cost, correct=cost.claimed, claimed=cost.correct)),
            lead,
        )

    return turned


def causes_that_are_none(_: Any) -> Any:
    return lambda *_: "model version 9.0 arrived in 2026-W01 (99% of the change)"


def a_command_that_does_not_run(_: Any) -> Any:
    return lambda source, label, *, enable: (
        f"calmon automation {'enable' if enable else 'disable'} {source} {label} --now"
    )


def reminders_for_a_or_b(real: Any) -> Any:
    def either(*args: Any, **kwargs: Any) -> Any:
        made = real(*args, **kwargs)
        for block in made["blocks"]:
            if "text" in block:
                block["text"]["text"] = block["text"]["text"].replace(
                    "`calmon incidents ack ", "`calmon incidents ack --or A "
                )
        return made

    return either


def reminders_without_ids(real: Any) -> Any:
    return lambda story, incident, **more: (
        real(story, replace(incident, id="a" * 16), **more) | {"incidents": [incident.id]}
    )


def a_vanished_label_is_not_called_so(_: Any) -> Any:
    return lambda *_: []


def two_incidents_of_one_label(real: Any) -> Any:
    """A label in an incident of many gets one of its own as well."""

    def both(diagnoses: Any, verdicts: Any, known: Any) -> Any:
        made = real(diagnoses, verdicts, known)
        together = {label for each in made for label in each.labels}
        return [*made, *(findings._of_label(d, verdicts) for d in diagnoses if d.label in together and d.is_trouble)]

    return both


def the_window_that_opened_it(real: Any) -> Any:
    """The footer stays at the first window."""

    def message_of(incident: Any, *about: Any, footer: str, **more: Any) -> Any:
        return real(incident, *about, footer=footer.replace(incident.window, incident.opened_window), **more)

    return message_of


def acknowledge_once_more(real: Any) -> Any:
    return lambda incident, *others: real(replace(incident, state="open"), *others)


def dead_links(_: Any) -> Any:
    return lambda self, *_: self.dashboard and f"{self.dashboard}/docs/label.md"


def nothing_said_of_what_was_not_judged(_: Any) -> Any:
    return lambda _: ""


def forgotten_evidence(real: Any) -> Any:
    """A breach turns nothing off."""

    def decide(*args: Any, **more: Any) -> Any:
        made = real(*args, **more)
        return replace(made, event=None) if made.event is not None and made.event.kind == "disabled" else made

    return decide


@dataclass(frozen=True)
class Fault:
    """A function that is replaced, in which history this shows, and as which kinds of false claims."""

    put_back: Wrap
    owner: Any
    name: str
    kinds: tuple[str, ...]
    seed: int = 0


FAULTS = [
    Fault(three_different_sinces, label, "since_words", ("since in words",)),
    Fault(a_since_of_its_own, incident_message, "_lines", ("one since",), 0),
    Fault(a_since_that_moves_later, trouble, "with_trouble", ("since moves later",), 4),
    Fault(an_acknowledgement_is_dropped, life, "_in_trouble", ("state by its events",), 4),
    Fault(resolved_by_hand_for_ever, life, "_in_trouble", ("an incident for a trouble",), 67),
    Fault(all_clear_by_a_run_of_another_source, act, "_incidents", ("changed by a run of another source",), 4),
    Fault(fine_where_nothing_was_judged, diagnosis, "outline_of", ("state",), 1),
    Fault(fine_in_words, label, "headline_of", ("fine where nothing was judged",), 1),
    Fault(not_judged_is_recovered, life, "_out", ("fine again",), 2),
    Fault(on_while_it_is_off, switch, "_off", ("automation in words", "automation in a message"), 1),
    Fault(messages_that_show_an_old_switch, compose, "show_switches", ("message as it stands",), 4),
    Fault(enabled_by_nobody, switch, "_on", ("on by whom, until when and why",), 5),
    Fault(automation_of_one_label_for_many, label, "story_of_many", ("automation in a message of many labels",), 4),
    Fault(harm_while_automation_was_off, diagnose, "times_on", ("cost",)),
    Fault(harm_that_did_happen, label, "facts_of", ("harm while automation was off",), 5),
    Fault(numbers_the_other_way_round, label, "facts_of", ("facts",)),
    Fault(causes_that_are_none, label, "cause_words", ("cause in words",)),
    Fault(a_command_that_does_not_run, switch, "command_for", ("command runs as printed",)),
    Fault(reminders_for_a_or_b, incident_message, "repeat_message", ("command runs as printed",), 4),
    Fault(reminders_without_ids, incident_message, "repeat_message", ("id in a reminder",), 4),
    Fault(a_vanished_label_is_not_called_so, findings, "_missed", ("a vanished label is called so",), 5),
    Fault(two_incidents_of_one_label, findings, "findings", ("two incidents of one label",), 4),
    Fault(the_window_that_opened_it, incident_message, "message_of", ("newest window of a message",), 4),
    Fault(acknowledge_once_more, blocks, "incident_buttons", ("whether it can be acknowledged",), 4),
    Fault(dead_links, Links, "label", ("link",), 4),
    Fault(nothing_said_of_what_was_not_judged, label, "doubt_of", ("doubt in words",), 1),
    Fault(forgotten_evidence, act, "after_run", ("on against a breach",), 4),
]  # fmt: skip


def is_found(number: int) -> list[str]:
    """The false claims that show a fault."""
    fault = FAULTS[number]
    old = getattr(fault.owner, fault.name)
    setattr(fault.owner, fault.name, fault.put_back(old))
    everywhere(old, getattr(fault.owner, fault.name))
    for seed in dict.fromkeys((fault.seed, *range(6))):
        false = [claim for claim in check_seed(seed, fault.kinds).false if claim.kind in fault.kinds]
        if false:
            return [f"seed {seed}: {false[0]}"]
    return []


def in_a_copy(number: int) -> list[str]:
    """The same in a copy of this process, which has all modules and baselines, and keeps none of the faults."""
    pinned(FAULTS[number].seed % KINDS)
    with multiprocessing.get_context("fork").Pool(1) as copy:
        return copy.apply(is_found, (number,))


@pytest.fixture(scope="module")
def origin() -> Iterator[ProcessPoolExecutor]:
    """One process that is copied for each fault."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ONE_THREAD:
            patched.setenv(name, "1")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            yield pool


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[fault.put_back.__name__ for fault in FAULTS])
def test_a_fault_that_is_put_back_is_found(number: int, origin: ProcessPoolExecutor) -> None:
    assert origin.submit(in_a_copy, number).result(), f"none of {FAULTS[number].kinds} is false in 6 histories"
