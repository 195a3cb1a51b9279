"""An operator says that a label has another name now, which takes over what the history knows of the old one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from monitor.alerting import compose
from monitor.automation.renaming import Change, handed_over, joined
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.records import VANISHED, Incident
from monitor.history.renames import Renaming
from monitor.incidents.life import IncidentDecision, rename, resolve
from monitor.operations.change_switch import ChangeRefused, known_labels
from monitor.story.switch import command_for

TRIES = 20


def rename_label(monitor: Monitor, source: str, old: str, new: str, *, by: str, reason: str) -> list[Incident]:
    """Hand over switch, evidence, baseline and open incidents, all or nothing; returns the incidents that changed.

    Raises :class:`ChangeRefused`, and RuntimeError where others kept changing them.
    """
    _refuse_unknown(monitor, source, old, new)
    _refuse_other_rules(monitor.config, source, old, new)
    key = uuid.uuid4().hex
    for _ in range(TRIES):
        renaming = _renaming(monitor, source, old, new, by, reason, key)
        if monitor.store.rename_label(renaming) == "applied":
            for label in (old, new):
                compose.show_switches(monitor, source, label)
            return list(renaming.incidents)
    raise RuntimeError(f"{source}/{old} kept changing under {TRIES} tries; try again")


def _refuse_unknown(monitor: Monitor, source: str, old: str, new: str) -> None:
    known = known_labels(monitor, source)
    missing = next((label for label in (old, new) if label not in known), None)
    if missing is not None:
        raise ChangeRefused(f"neither alerts.yaml nor a run of {source} knows the label {missing!r}")
    if old == new:
        raise ChangeRefused("the old and the new name are the same")


def _refuse_other_rules(config: Config, source: str, old: str, new: str) -> None:
    """What alerts.yaml says of the old name must hold for the new one, or it would act by other rules."""
    settings = config.sources[source]
    rules = {
        label: {r.id for r in config.rules if r.applies_to(source, label, critical=settings.is_critical(label))}
        for label in (old, new)
    }
    differ = sorted(rules[old] ^ rules[new])
    if differ:
        raise ChangeRefused(
            f"alerts.yaml has other rules for {old} than for {new} ({', '.join(differ)}): change it first"
        )
    before, after = settings.automate_from(old), settings.automate_from(new)
    if before != after:
        raise ChangeRefused(f"in alerts.yaml {old} acts from {before:g} and {new} from {after:g}: change it first")


def _renaming(monitor: Monitor, source: str, old: str, new: str, by: str, reason: str, key: str) -> Renaming:
    store, now = monitor.store, monitor.clock()
    with store.one_moment():
        seen = store.evidence(source, old)
        changes = _switches(monitor, source, old, new, by, reason, key)
        made = compose.compose(monitor, _incidents(monitor, source, old, new, by, reason))
        evidence = joined(seen, store.evidence(source, new), new)
    return Renaming(
        source, old, new, now, by, reason, changes, seen, evidence,
        made.updated, made.deliveries, made.events,
    )  # fmt: skip


def _switches(monitor: Monitor, source: str, old: str, new: str, by: str, reason: str, key: str) -> list[Change]:
    before, after = (monitor.store.switch(source, label) for label in (old, new))
    try:
        return handed_over(before, after, by=by, reason=reason, now=monitor.clock(), key=key)
    except ValueError as error:
        first = f"; first: `{command_for(source, new, enable=False)}`" if after.state == "on" else ""
        raise ChangeRefused(f"{error}{first}") from error


def _incidents(monitor: Monitor, source: str, old: str, new: str, by: str, reason: str) -> Sequence[IncidentDecision]:
    """An open incident goes on under the new name; it ends where that has one, or where only its rows were missed."""
    unresolved, now = monitor.store.unresolved_incidents(source), monitor.clock()
    taken = {(each.kind, each.label) for each in unresolved}
    ends = [each for each in unresolved if each.label == old and (each.kind == VANISHED or (each.kind, new) in taken)]
    moves = [each for each in unresolved if each not in ends and old in (each.label, *each.labels)]
    return [
        *(resolve(each, by, f"renamed to {new}: {reason}", now) for each in ends),
        *(rename(each, old, new, by, f"{old} is called {new} now: {reason}") for each in moves),
    ]
