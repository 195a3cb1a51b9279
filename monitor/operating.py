"""What an operator may do to the switch, and which labels there are to do it to."""

from __future__ import annotations

import uuid
from datetime import datetime

from monitor.adapters import Monitor
from monitor.automation.switch import operator_change


def known_labels(opened: Monitor, source: str) -> list[str | None]:
    """Labels seen by a run, pinned in a baseline, configured, or switched before."""
    labels: set[str | None] = set(opened.config.sources[source].labels)
    labels |= set(opened.store.latest_baselines(source))
    labels |= {v.subject.label for v in opened.store.verdicts(source=source)}
    labels |= {s.label for s in opened.store.switches() if s.source == source}
    return sorted(labels, key=lambda label: (label is None, label or ""))


def change_switch(
    opened: Monitor,
    source: str,
    label: str | None,
    *,
    enable: bool,
    by: str,
    reason: str,
    until: datetime | None = None,
) -> str:
    """One operator's change, stored with its event; gives back what became of it."""
    key = f"operator:{uuid.uuid4().hex}"
    opened.store.publish_thresholds(opened.config.thresholds, opened.clock())  # the gate needs them as well
    while True:
        before = opened.store.switch(source, label)
        decision = operator_change(
            before, enable=enable, by=by, reason=reason, now=opened.clock(), until=until,
            automation=opened.config.automation, key=key,
        )  # fmt: skip
        if decision.event is None:
            return decision.reason
        if opened.store.apply_switch(before, decision.after, decision.event) != "conflict":
            return decision.reason
