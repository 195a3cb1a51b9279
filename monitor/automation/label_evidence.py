"""The evidence on one label, for a run or a person that decides about its switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from monitor.config.model import Config
from monitor.config.rule_sources import acting_rules
from monitor.core.records import RuleEvidence, SwitchState


def known_of(
    config: Config, state: SwitchState, stored: Mapping[tuple[str | None, str], RuleEvidence], now: datetime
) -> tuple[RuleEvidence, ...]:
    """The evidence of the acting rules of a switch's label in alerts.yaml; a new rule starts now, with empty evidence.

    ``stored`` is by (label, rule). Rules that are no longer in alerts.yaml are left out. The schedule is that of
    alerts.yaml, which may give a rule another one than it had when its evidence was stored. Evidence that accumulates
    starts anew where an operator turned the label on.
    """
    source, label = state.source, state.label
    rules = acting_rules(config, source, label)
    new = {rule.id: RuleEvidence(source, label, rule.id, rule.schedule, since=now) for rule in rules}
    known = tuple(replace(stored.get((label, rule.id), new[rule.id]), schedule=rule.schedule) for rule in rules)
    if state.state != "on" or not state.by_operator or state.changed_at is None:
        return known
    return started_anew(config, known, state.changed_at)


def started_anew(config: Config, known: Sequence[RuleEvidence], at: datetime) -> tuple[RuleEvidence, ...]:
    """The evidence without the windows that ended by ``at``, of rules whose evidence accumulates."""
    lasting = {rule.id for rule in config.rules if rule.accumulates}
    return tuple(
        replace(each, windows=tuple(window for window in each.windows if window.window_end > at))
        if each.rule in lasting
        else each
        for each in known
    )
