"""The keys that alerts.yaml allows at each place: one model for each kind of mapping with fixed keys."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monitor.config.model import (
    AutomationConfig,
    BaselineConfig,
    Config,
    CostConfig,
    EvaluationConfig,
    HistoryConfig,
    LabelConfig,
    ReEnableAfter,
    Route,
    RouteMatch,
    Rule,
    RuleMatch,
    ScoreFrom,
    SourceConfig,
    Strict,
    TopKConfig,
    TruthConfig,
    WideConfig,
)
from monitor.config.yaml_document import Path

Pattern = tuple[str, ...]
"""A path in which ``*`` stands for any name or position: ``("rules", "*", "match")``."""

SECTIONS: Mapping[Pattern, type[Strict]] = MappingProxyType(
    {
        (): Config,
        ("sources", "*"): SourceConfig,
        ("sources", "*", "score"): ScoreFrom,
        ("sources", "*", "costs"): CostConfig,
        ("sources", "*", "truth"): TruthConfig,
        ("sources", "*", "wide"): WideConfig,
        ("sources", "*", "labels", "*"): LabelConfig,
        ("sources", "*", "labels", "*", "costs"): CostConfig,
        ("evaluation",): EvaluationConfig,
        ("evaluation", "top_k"): TopKConfig,
        ("baseline",): BaselineConfig,
        ("history",): HistoryConfig,
        ("rules", "*"): Rule,
        ("rules", "*", "match"): RuleMatch,
        ("automation",): AutomationConfig,
        ("automation", "re_enable"): ReEnableAfter,
        ("routes", "*"): Route,
        ("routes", "*", "match"): RouteMatch,
    }
)

_NAMES_BELOW = {("sources",), ("sources", "*", "labels"), ("sources", "*", "columns"), ("sources", "*", "types")}


def pattern(path: Path) -> Pattern:
    """The path with ``*`` for names that the file gives and for positions.

    >>> pattern(("sources", "mail", "labels", "phishing", "critical"))
    ('sources', '*', 'labels', '*', 'critical')
    """
    found: Pattern = ()
    for step in path:
        found = (*found, "*" if isinstance(step, int) or found in _NAMES_BELOW else step)
    return found


def known_keys(path: Path) -> tuple[str, ...]:
    """The keys that are allowed in the mapping at ``path``, which has fixed ones.

    >>> known_keys(("baseline",))
    ('weeks', 'min_pairs')
    """
    return tuple(field.alias or name for name, field in SECTIONS[pattern(path)].model_fields.items())
