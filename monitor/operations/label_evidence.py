"""The evidence on one label, for whoever decides about its switch: a run, or a person."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from monitor.config.model import Config
from monitor.config.switching import acting_rules
from monitor.core.records import RuleEvidence
from monitor.history.store import Store


def known_now(store: Store, config: Config, source: str, label: str | None, now: datetime) -> tuple[RuleEvidence, ...]:
    """What each acting rule of the label (None: of the source's own switch) found last, as it is stored now."""
    stored = {(each.label, each.rule): each for each in store.evidence(source, label)}
    return known_of(config, source, label, stored, now)


def known_of(
    config: Config, source: str, label: str | None, stored: Mapping[tuple[str | None, str], RuleEvidence], now: datetime
) -> tuple[RuleEvidence, ...]:
    """The evidence of the rules that act on the label by alerts.yaml; of a rule never asked for, an empty one from now.

    ``stored`` is by (label, rule), and may hold rules that alerts.yaml has lost: they count no longer.
    """
    return tuple(
        stored.get((label, rule.id), RuleEvidence(source, label, rule.id, rule.schedule, since=now))
        for rule in acting_rules(config, source, label)
    )
