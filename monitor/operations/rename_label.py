"""An operator says that a label has another name now, which takes over what the history knows of the old one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.alerting import compose
from monitor.automation.renaming import Change, handed_over, joined
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.records import VANISHED, Incident, WrongRequest
from monitor.history.renames import Renaming
from monitor.incidents.life import IncidentDecision, rename, resolve
from monitor.operations.change_switch import check_label
from monitor.story.switch import command_for

TRIES = 20


@dataclass(frozen=True, slots=True)
class Rename:
    """What an operator says: a label of a source has another name, and why."""

    source: str
    old: str
    new: str
    by: str
    reason: str


def rename_label(monitor: Monitor, asked: Rename) -> list[Incident]:
    """Hand over switch, evidence, baseline and open incidents, all or nothing; returns the incidents that changed.

    Raises :class:`WrongRequest`, and RuntimeError where others kept changing them.
    """
    for label in (asked.old, asked.new):
        check_label(monitor, asked.source, label)
    if asked.old == asked.new:
        raise WrongRequest("the old and the new name are the same")
    _refuse_other_rules(monitor.config, asked)
    key = uuid.uuid4().hex
    for _ in range(TRIES):
        renaming = _renaming(monitor, asked, key)
        if monitor.store.rename_label(renaming) == "applied":
            for label in (asked.old, asked.new):
                compose.show_switches(monitor, asked.source, label)
            return list(renaming.incidents)
    raise RuntimeError(f"{asked.source}/{asked.old} kept changing under {TRIES} tries; try again")


def _refuse_other_rules(config: Config, asked: Rename) -> None:
    """What alerts.yaml says of the old name must hold for the new one, or it would act by other rules."""
    settings, old, new = config.sources[asked.source], asked.old, asked.new
    rules = {
        label: {r.id for r in config.rules if r.applies_to(asked.source, label, critical=settings.is_critical(label))}
        for label in (old, new)
    }
    differ = sorted(rules[old] ^ rules[new])
    if differ:
        raise WrongRequest(
            f"alerts.yaml has other rules for {old} than for {new} ({', '.join(differ)}): change it first"
        )
    before, after = settings.automate_from(old), settings.automate_from(new)
    if before != after:
        raise WrongRequest(f"in alerts.yaml {old} acts from {before:g} and {new} from {after:g}: change it first")


def _renaming(monitor: Monitor, asked: Rename, key: str) -> Renaming:
    store, now = monitor.store, monitor.clock()
    with store.one_moment():
        seen, of_new = (store.evidence(asked.source, label) for label in (asked.old, asked.new))
        changes = _switches(monitor, asked, key)
        made = compose.compose(monitor, _incidents(monitor, asked))
    return Renaming(
        asked.source, asked.old, asked.new, now, asked.by, asked.reason, changes, seen, joined(seen, of_new, asked.new),
        made.incidents, made.deliveries, made.events,
    )  # fmt: skip


def _switches(monitor: Monitor, asked: Rename, key: str) -> list[Change]:
    before, after = (monitor.store.switch(asked.source, label) for label in (asked.old, asked.new))
    try:
        return handed_over(before, after, by=asked.by, reason=asked.reason, now=monitor.clock(), key=key)
    except ValueError as error:
        turns_off = command_for(asked.source, asked.new, enable=False)
        raise WrongRequest(f"{error}; first: `{turns_off}`" if after.state == "on" else str(error)) from error


def _incidents(monitor: Monitor, asked: Rename) -> Sequence[IncidentDecision]:
    """An open incident goes on under the new name; it ends where that has one, or where only its rows were missed."""
    unresolved, now, old, new = monitor.store.unresolved_incidents(asked.source), monitor.clock(), asked.old, asked.new
    taken = {(each.kind, each.label) for each in unresolved}
    ends = [each for each in unresolved if each.label == old and (each.kind == VANISHED or (each.kind, new) in taken)]
    moves = [each for each in unresolved if each not in ends and old in (each.label, *each.labels)]
    return [
        *(resolve(each, asked.by, f"renamed to {new}: {asked.reason}", now) for each in ends),
        *(rename(each, old, new, asked.by, f"{old} is called {new} now: {asked.reason}") for each in moves),
    ]
