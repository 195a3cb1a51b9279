"""Which rules may change the switch of a label."""

from __future__ import annotations

from monitor.config.model import Config, Rule, SourceKind
from monitor.metrics.names import can_give


def gives(rule: Rule, kind: SourceKind) -> bool:
    """Whether a source of this kind has the rule's metric; shift tests are of scores and labels."""
    if rule.metric is None:
        return kind != "regression"
    return can_give(kind, rule.metric)


def acting_rules(config: Config, source: str, label: str | None) -> tuple[Rule, ...]:
    """The rules of every schedule that may turn off a label or block its scores (None: the source's own switch)."""
    settings = config.sources.get(source)
    if settings is None:
        return ()
    critical = settings.is_critical(label)
    return tuple(
        rule
        for rule in config.rules
        if rule.acts and rule.applies_to(source, label, critical=critical) and gives(rule, settings.kind)
    )
