"""Whether a replay of the present file says of each stored verdict what its run said."""

from __future__ import annotations

from monitor.core.records import Outcome, Subject
from monitor.evaluation.row_comparisons import needs_whole_rows
from monitor.history.store import Store
from monitor.operations.replay.plan import ReplayPlan
from monitor.operations.replay.replay import judge_part

Said = dict[tuple[str, str, Subject], Outcome]


def said_and_said_again(store: Store, plan: ReplayPlan) -> tuple[Said, Said]:
    """The outcomes that runs by this file gave in the plan's windows, and those that a replay gives to the same."""
    rules = {rule.id for rule in plan.present.rules if not needs_whole_rows(rule)}
    given = []
    again = []
    for part in plan.parts:
        for judged in judge_part(store, plan, part):
            window = judged.window
            given += store.verdicts(schedule=part.schedule, source=part.source, window_start=window.start)
            again += judged.verdicts.get("present", ())
    given = [each for each in given if each.rules_revision == plan.present.revision and each.rule in rules]
    said, replayed = ({(v.rule, v.window.name, v.subject): v.outcome for v in of} for of in (given, again))
    return said, {key: outcome for key, outcome in replayed.items() if key in said}
