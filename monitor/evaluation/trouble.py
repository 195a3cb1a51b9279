"""Since when a label is in trouble, in which part of its rows, why, what it costs, and what to do next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from monitor.config.model import EvaluationConfig
from monitor.core.counts import CELLS, Counts, pool
from monitor.core.diagnoses import Cost, Diagnosis, LabelProblem, NextStep, Since
from monitor.core.episodes import episodes
from monitor.core.promises import Promise, pooled_promise
from monitor.core.records import Subject, Verdict
from monitor.core.windows import days_of, nominal
from monitor.evaluation.estimates import generator
from monitor.evaluation.label_facts import LabelFacts
from monitor.evaluation.shift.onset import onset
from monitor.evaluation.trouble_cause import likely_cause
from monitor.evaluation.weekly_evidence import (
    TroubledSegment,
    WeeklyEvidence,
    breaks_at,
    troubled_segments,
    weekly_evidence,
)
from monitor.inference.sampling import Proportion
from monitor.inference.selective import threshold_for
from monitor.metrics.selective import looked_at
from monitor.recalibration.gain import choose, gains_on_unseen

LARGEST_MARGIN = 0.05
"""A part of the rows must differ from the rest by the threshold of the rule, or by this where that is larger."""
SURE = 3.0
"""How many standard deviations the overconfidence must be away from 0 to give a wrong calibration its direction."""
BEFORE = 8
"""What was kept before a trouble is that of so many windows, at most."""


def with_trouble(found: Diagnosis, problem: LabelProblem, lead: Verdict, facts: LabelFacts) -> Diagnosis:
    """The diagnosis with its problem, and all that the windows behind its leading verdict say."""
    runs = episodes(facts.past)
    episode = runs[-1] if runs and runs[-1].ended is None else None
    evidence, history = (weekly_evidence(problem, lead, facts, each) for each in (runs, ()))
    margin = min(lead.threshold, LARGEST_MARGIN)
    of_label = _since(evidence, (), lead, facts)
    segments = troubled_segments(evidence, margin, _near(evidence, of_label))
    since = _since(evidence, segments[:1], lead, facts) if segments else of_label
    told = episode.last if episode else None
    # the beginning as it was told before, unless the trouble surely began earlier
    if told and told.since and days_of(since.high)[1] >= days_of(told.since.window)[0]:
        since = told.since
    named = segments[0].segment if segments else None
    windows = facts.windows.get(lead.window.schedule, ())
    cause = likely_cause(facts.label, evidence, history, since, named, windows, facts.annotations)
    if cause is None and told and told.since == since and told.cause and told.cause.kind == "version":
        cause = told.cause  # it came then, though a later version may have taken the rows that it could be compared by
    shown = replace(
        found, problem=problem, since=since, segment=named, cause=cause,
        found=episode.first.window.name if episode else facts.window.name,
        notes=replace(found.notes, segments=tuple(each.segment for each in segments[1:])),
    )  # fmt: skip
    parts, first = facts.acted(lead.window.schedule), days_of(since.window)[0]
    first = min(first, max((nominal(window) for window, _, _ in parts), default=first))  # a day of the newest week
    before = [p for window, p, _ in parts if nominal(window) < first and p.effective > 0][-BEFORE:]
    cost = cost_of(
        [each for window, _, acted in parts if nominal(window) >= first for each in acted], facts.evaluation.confidence
    )
    usual = pooled_promise(before).kept if before else cost.claimed if cost else 0.0
    behind = {each.window.name for each in windows if nominal(each.window) >= first}
    counts = [each for name, each in facts.counts.items() if name in behind]
    rng = generator(facts.evaluation.seed, Subject(facts.source, facts.label), "recalibration", facts.window.name)
    return replace(shown, cost=cost, advice=next_step(problem, counts, usual - margin, facts.evaluation, rng))


def direction_of(verdict: Verdict, facts: LabelFacts) -> LabelProblem:
    """Whether wrongly calibrated scores are too high or too low as a whole, in the newest window; or neither."""
    windows = facts.windows.get(verdict.window.schedule, ())
    promise = windows[-1].labels.get(facts.label, {}).get(verdict.where) if windows else None
    if promise is None or not promise.effective > 0:
        return LabelProblem.MISCALIBRATED
    off, deviation = promise.overconfidence, Proportion(promise.kept, promise.effective).variance ** 0.5
    if abs(off) <= SURE * deviation:
        return LabelProblem.MISCALIBRATED
    return LabelProblem.OVERCONFIDENT if off > 0 else LabelProblem.UNDERCONFIDENT


# --- since when


def _since(evidence: WeeklyEvidence, named: Sequence[TroubledSegment], lead: Verdict, facts: LabelFacts) -> Since:
    """When it began: in the segment where one is named, else in the label, by the metric that is wrong."""
    judged = Since(lead.window.name, lead.window.name, lead.window.name)
    if named:
        began = onset(*evidence.levels(1 + evidence.segments.index(named[0].segment)), rising=True)
        arrived = evidence.windows[named[0].at]
        return began or Since(arrived, arrived, arrived)
    known = [each for each in facts.levels.get((lead.metric, lead.where), ()) if each.window in evidence.windows]
    if lead.detail.get("condition") in ("below", "decrease"):  # worse upwards
        known = [replace(each, value=-each.value) for each in known]
    before, levels = (None, known) if known else evidence.levels()
    began = onset(before, levels, rising=True)
    return began or judged


def _near(evidence: WeeklyEvidence, since: Since) -> tuple[int, int] | None:
    """The windows in which a label's trouble may have begun, where it surely did; None if it is in parts only."""
    if since.window not in evidence.windows or not breaks_at(evidence, 0, evidence.windows.index(since.window)):
        return None
    low, high = (evidence.windows.index(name) for name in (since.low, since.high))
    return low - 1, high + 1


# --- what it costs, and what to do


def cost_of(parts: Sequence[tuple[Promise, float]], confidence: float) -> Cost | None:
    """What windows cost, each with its promise and the share of its time that automation was on.

    If it was off all the time, what they would have cost. None without rows.

    >>> found = cost_of([(Promise(400, 400.0, 0.95, 0.85), 0.5), (Promise(400, 400.0, 0.95, 0.85), 0.0)], 0.95)
    >>> round(found.items), round(found.extra_errors), found.acted
    (200, 20, True)
    """
    acted = any(share > 0 for _, share in parts)
    weights = [(promise, share if acted else 1.0) for promise, share in parts]
    kept = [replace(p, effective=p.effective * share) for p, share in weights if p.effective * share > 0]
    if not kept:
        return None
    items = sum(promise.rows * share for promise, share in weights)
    total = pooled_promise(kept)
    low, high = Proportion(total.kept, total.effective, offset=total.promised, scale=-1.0).interval(confidence)
    extra = items * total.overconfidence
    return Cost(items, total.kept, total.promised, extra, items * low, items * high, acted)


# --- the one next step that a trouble asks for, with what it should gain on windows that were not used to fit


OF_SCORES = frozenset({LabelProblem.OVERCONFIDENT, LabelProblem.UNDERCONFIDENT, LabelProblem.MISCALIBRATED})
"""Problems that other scores for the same decisions may mend."""
FALLS_SHORT = 0.5
"""A recalibration that leaves more than this part of the ECE is not the next step where another one is offered."""


def next_step(
    problem: LabelProblem,
    counts: Sequence[Counts],
    target: float,
    evaluation: EvaluationConfig,
    rng: np.random.Generator,
) -> NextStep:
    """The step for a trouble; ``counts`` are those of the label's windows since it began, newest first.

    Scores are recalibrated if that mends them. Else, where some scores can be shown to be right in ``target`` of the
    cases, only these act. Else the model must be trained again.
    """
    if problem is LabelProblem.SHIFTED:
        return NextStep("pin_again")
    recalibrated = recalibration(counts, evaluation, rng) if problem in OF_SCORES and counts else None
    if (
        recalibrated is not None
        and recalibrated.after is not None
        and recalibrated.before is not None
        and recalibrated.after <= FALLS_SHORT * recalibrated.before
    ):
        return recalibrated
    higher = higher_score(counts, target) if problem is not LabelProblem.MISSES else None
    return higher or recalibrated or NextStep("retrain")


def recalibration(counts: Sequence[Counts], evaluation: EvaluationConfig, rng: np.random.Generator) -> NextStep | None:
    """What `calmon recalibrate` takes on these windows, with its gain on rows not seen; None where none helps."""
    gains = gains_on_unseen(counts, rng, evaluation)
    method = choose(gains).method
    if method is None:
        return None
    gain = gains[method]
    if gain.after is None:
        return None
    after = gain.after.ece
    return NextStep(
        "recalibrate", method, None, None, gain.before.ece.value, after.value, after.low, after.high, gain.unseen
    )


def higher_score(counts: Sequence[Counts], target: float) -> NextStep | None:
    """The lowest score from which ``target`` is shown to be met in the older windows, with what the newest one says.

    None with a single window, where nothing is shown, or where the newest window refutes it.
    """
    if len(counts) < 2 or not 0 < target < 1:
        return None
    point = threshold_for(pool(counts[1:]), target)
    if point.threshold is None:
        return None
    rows, acts = looked_at(counts[0]), counts[0].where("automated")
    if acts.rows and round(point.threshold * CELLS) <= acts.cell.min():
        return None  # from a lower score more would act
    acting = rows.take(rows.cell >= round(point.threshold * CELLS))
    if not acting.effective_rows > 0:
        return None
    kept, before = (float(part.wy.sum() / part.w.sum()) for part in (acting, acts if acts.rows else rows))
    low, high = Proportion(kept, acting.effective_rows).interval(0.95)
    if high is not None and high < target:
        return None
    return NextStep(
        "act_from_score", "", point.threshold, float(acting.w.sum()), before, kept, low, high, unseen="windows"
    )
