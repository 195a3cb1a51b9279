"""One rule with another threshold over past weeks: a replay of alerts.yaml with only that change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.config.model import Config, Rule
from monitor.core.records import Window
from monitor.history.store import Store
from monitor.operations.replay.model import LeftOut, Pair
from monitor.operations.replay.plan import ReplayPlan, plan_of
from monitor.operations.replay.replay import replay


@dataclass(frozen=True, slots=True)
class OtherThreshold:
    """The incidents of a rule with its present threshold and with another one, and what could not be replayed.

    ``pairs`` are the incidents of this rule; those that only one threshold opens come first. ``windows`` is the number
    of windows without counts, over all sources; ``left_out`` says why the rule was not replayed on some source.
    """

    rule: Rule
    threshold: float
    weeks: tuple[Window, ...]
    pairs: tuple[Pair, ...]
    windows: int
    left_out: tuple[LeftOut, ...]

    @property
    def now(self) -> int:
        """The number of incidents with the present threshold."""
        return sum(pair.present is not None for pair in self.pairs)

    @property
    def then(self) -> int:
        """The number of incidents with the other threshold."""
        return sum(pair.proposed is not None for pair in self.pairs)


def with_threshold(config: Config, rule: str, threshold: float) -> Config:
    """The configuration with another threshold for one rule. Raises KeyError for an unknown rule."""
    if rule not in {each.id for each in config.rules}:
        raise KeyError(rule)
    rules = tuple(r.model_copy(update={"threshold": threshold}) if r.id == rule else r for r in config.rules)
    return config.model_copy(update={"rules": rules})


def plan_other(config: Config, rule: str, threshold: float, last: Window, weeks: int) -> ReplayPlan:
    """The plan for ``weeks`` weeks up to ``last``, with both thresholds. Raises KeyError for an unknown rule."""
    return plan_of(config, with_threshold(config, rule, threshold), last, weeks)


def replay_other(
    store: Store, plan: ReplayPlan, rule: str, progress: Callable[[str], None] = lambda _: None
) -> OtherThreshold:
    """Judge the plan and keep the results of ``rule``; ``progress`` gets the name of each window that is done."""
    found = replay(store, plan, progress)
    proposed_rule = next(each for each in plan.proposed.rules if each.id == rule)
    pairs = tuple(pair for pair in found.pairs if pair.either.incident.rule == rule)
    left_out = tuple(dict.fromkeys(each.reason for each in found.omitted if each.rule == rule))
    missing = sum(each.windows for each in found.missing if each.schedule == proposed_rule.schedule)
    return OtherThreshold(proposed_rule, proposed_rule.threshold, plan.weeks, pairs, missing, left_out)
