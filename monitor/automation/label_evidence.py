"""The evidence on one label under the rules of alerts.yaml, and what of it no good window brings back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from monitor.automation.segments import RUNS, open_breaches
from monitor.config.model import Config, ReEnableAfter
from monitor.config.rule_sources import acting_rules
from monitor.core.records import RuleEvidence, SwitchState
from monitor.core.wording import count_of


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


def stays_off(state: SwitchState, config: Config, known: Iterable[RuleEvidence] = ()) -> str:
    """Why what a run turned off or blocked does not come back by itself, as a sentence without its full stop.

    ``known`` is the evidence of the label's acting rules: with as many good windows as are wanted, it stays off while
    a rule had none since its breach. "" where good windows may bring it back, where none ever could
    (``re_enable: manual``), where a person turned it off, and for a source that alerts.yaml does not have.
    """
    is_restricted = bool(state.blocked) or (state.state == "off" and not state.by_operator)
    if not is_restricted or state.source not in config.sources:
        return ""
    what = "it does not come back by itself" if state.state == "off" else "its blocked scores stay blocked"
    schedules = {rule.schedule for rule in acting_rules(config, state.source, state.label)}
    if not schedules:
        return f"No rule acts on it any more, so {what}"
    counted = next((schedule for schedule, run in RUNS.items() if run == state.counted_run), None)
    re_enable = config.automation.re_enable
    if not isinstance(re_enable, ReEnableAfter) or counted is None:
        return ""
    if counted not in schedules:
        return f"No {counted} rule acts on it any more, so {what}"
    in_breach = [rule.rule for rule, _ in open_breaches(known, state.segments)]
    if state.ok_streak < re_enable.after or not in_breach:
        return ""
    good = count_of(state.ok_streak, "good window")
    return f"{good}, but no window of {in_breach[0]} was within its threshold since its breach, so {what}"
