"""What a label that has another name now hands over: its switch, and the evidence behind it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from monitor.automation.evidence import newest_windows
from monitor.automation.segments import RUNS
from monitor.core.records import RuleEvidence, SwitchEvent, SwitchState

RENAMES = "rename:"
"""How the keys of the events begin with which an operator renames a label."""


Change: TypeAlias = tuple[SwitchState, SwitchState, SwitchEvent]
"""A switch before and after, and the event of the change."""


def handed_over(old: SwitchState, new: SwitchState, *, by: str, reason: str, now: datetime, key: str) -> list[Change]:
    """The old name is off for good, and the new one is as the old one was; what is off there is not turned on.

    Raises ValueError for a missing name or reason, and where the new name is on: its own evidence turned it on.
    """
    if not by.strip() or not reason.strip():
        raise ValueError("a change of the switch needs a name and a reason")
    if new.state == "on":
        raise ValueError(f"automation of {new.label} is on already, so that nothing can be handed over to it")
    off = replace(
        old, state="off", blocked=(), segments=(), lease_until=None, hold_until=None, by_operator=True, actor=by,
        reason=f"renamed to {new.label}: {reason}", verdict=None, ok_streak=0, changed_at=now, version=old.version + 1,
        counts="", not_evaluated=None, kept=None,
    )  # fmt: skip
    changes = [_change(old, off, f"{RENAMES}{key}:old")]
    off_by_run = new.state == "off" and new.actor in RUNS.values()
    if (new.state == "never_set" and old.state != "never_set") or (off_by_run and old.state == "off"):
        why = f"renamed from {old.label}: {reason}"
        after = replace(
            old,
            label=new.label,
            actor=by,
            reason=why,
            counts=old.counted_run,
            changed_at=now,
            version=new.version + 1,
            verdict=new.verdict or old.verdict,
        )
        changes.append(_change(new, after, f"{RENAMES}{key}:new"))
    return changes


def _change(before: SwitchState, after: SwitchState, key: str) -> Change:
    assert after.changed_at is not None  # noqa: S101 - both callers have just set it
    kind = "enabled" if after.state == "on" else "disabled"
    facts = {"actor": after.actor, "reason": after.reason, "verdict": after.verdict}
    return before, after, SwitchEvent.of(before, after, key=key, at=after.changed_at, kind=kind, **facts)


def joined(old: Sequence[RuleEvidence], new: Sequence[RuleEvidence], label: str | None) -> list[RuleEvidence]:
    """The evidence on the new name where that on the old one adds to it: a breach is not forgotten with a name."""
    by_rule = {each.rule: each for each in new}
    return [_joined(each, by_rule.get(each.rule, replace(each, label=label, windows=(), version=0))) for each in old]


def _joined(old: RuleEvidence, new: RuleEvidence) -> RuleEvidence:
    ends = {each.window_end for each in new.windows}
    windows = [*new.windows, *(each for each in old.windows if each.window_end not in ends)]
    judged = [each for each in (old.judged_until, new.judged_until) if each is not None]
    return replace(new, windows=newest_windows(windows), judged_until=max(judged, default=None))
