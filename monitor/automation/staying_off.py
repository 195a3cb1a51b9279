"""What no good window brings back, since alerts.yaml has lost the rules that would judge it. Pure."""

from __future__ import annotations

from monitor.automation.segments import RUNS
from monitor.config.model import Config
from monitor.config.rule_sources import acting_rules
from monitor.core.records import SwitchState


def stays_off(state: SwitchState, config: Config) -> str:
    """Why what a run turned off or blocked cannot come back by itself any more, as a sentence without its full stop.

    "" where good windows may bring it back, where none ever could (``re_enable: manual``), where a person turned it
    off, and for a source that alerts.yaml does not have.
    """
    is_restricted = bool(state.blocked) or (state.state == "off" and not state.by_operator)
    if not is_restricted or state.source not in config.sources:
        return ""
    what = "it does not come back by itself" if state.state == "off" else "its blocked scores stay blocked"
    schedules = {rule.schedule for rule in acting_rules(config, state.source, state.label)}
    if not schedules:
        return f"No rule acts on it any more, so {what}"
    counted = next((schedule for schedule, run in RUNS.items() if run == state.counted_run), None)
    if config.automation.re_enable == "manual" or counted is None or counted in schedules:
        return ""
    return f"No {counted} rule acts on it any more, so {what}"
