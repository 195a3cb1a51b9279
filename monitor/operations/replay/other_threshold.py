"""One rule under another threshold over the past weeks: a replay of alerts.yaml beside itself with that one change."""

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
    """What a rule would have opened under its threshold and under another one, and what could not be replayed.

    ``pairs`` are the incidents of this rule, those first that only one of the two opens. ``windows`` counts the windows
    without counts of all sources together, ``left_out`` says why the rule was not replayed on some source.
    """

    rule: Rule
    threshold: float
    weeks: tuple[Window, ...]
    pairs: tuple[Pair, ...]
    windows: int
    left_out: tuple[LeftOut, ...]

    @property
    def now(self) -> int:
        """Incidents under the present threshold."""
        return sum(pair.present is not None for pair in self.pairs)

    @property
    def then(self) -> int:
        """Incidents under the other one."""
        return sum(pair.proposed is not None for pair in self.pairs)


def with_threshold(config: Config, rule: str, threshold: float) -> Config:
    """The configuration with another threshold of one rule. Raises KeyError for an unknown rule."""
    if rule not in {each.id for each in config.rules}:
        raise KeyError(rule)
    rules = tuple(r.model_copy(update={"threshold": threshold}) if r.id == rule else r for r in config.rules)
    return config.model_copy(update={"rules": rules})


def plan_other(config: Config, rule: str, threshold: float, last: Window, weeks: int) -> ReplayPlan:
    """The work: the weeks that end with ``last``, judged by both. Raises KeyError for an unknown rule."""
    return plan_of(config, with_threshold(config, rule, threshold), last, weeks)


def replay_other(
    store: Store, plan: ReplayPlan, rule: str, progress: Callable[[str], None] = lambda _: None
) -> OtherThreshold:
    """Judge the plan and keep what is about the rule; ``progress`` gets each window that is done."""
    found = replay(store, plan, progress)
    own = next(each for each in plan.proposed.rules if each.id == rule)
    pairs = tuple(pair for pair in found.pairs if pair.either.incident.rule == rule)
    left_out = tuple(dict.fromkeys(each.reason for each in found.omitted if each.rule == rule))
    missing = sum(each.windows for each in found.missing if each.schedule == own.schedule)
    return OtherThreshold(own, own.threshold, plan.weeks, pairs, missing, left_out)
