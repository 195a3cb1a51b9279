"""Which rules may change the switch of a label."""

from __future__ import annotations

from monitor.config.model import Config, Rule
from monitor.config.rule_sources import can_judge


def acting_rules(config: Config, source: str, label: str | None) -> tuple[Rule, ...]:
    """The rules of every schedule that may turn off a label or block its scores (None: the source's own switch)."""
    settings = config.sources.get(source)
    if settings is None:
        return ()
    critical = settings.is_critical(label)
    return tuple(
        rule
        for rule in config.rules
        if rule.acts and rule.applies_to(source, label, critical=critical) and can_judge(rule, settings)
    )
