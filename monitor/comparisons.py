"""(rule, counts, baseline) -> evidence: what was seen, against what, and how sure one can be.

A :class:`~monitor.records.Comparison` says nothing about other labels: the family-wise adjustment
and the outcome are the work of ``verdicts.py``. Here windows are chosen and pooled; what is seen
in them is the work of ``looks.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

from monitor.baselines import Baseline
from monitor.counts import Counts, pool
from monitor.inference.memory import kept_with
from monitor.looks import Look, beyond_alone, looked_at, past, rows_of, see
from monitor.records import Comparison, Reason, ShiftResult, Subject, Window
from monitor.rules.model import EvaluationConfig, Rule


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """All that a rule may look at for one subject.

    ``counts`` are newest first: the window itself, then the windows before it that may be pooled
    with it (not past the baseline's end, not across model versions). ``problem`` says why there is
    nothing to look at.
    """

    subject: Subject
    window: Window
    counts: tuple[Counts, ...] = ()
    baseline: Baseline | None = None
    shifts: tuple[ShiftResult, ...] = ()
    problem: Reason | None = None

    @property
    def in_baseline(self) -> bool:
        """Whether the window lies in the time its own baseline was made from."""
        return self.baseline is not None and self.baseline.overlaps(self.window)


def compare(rule: Rule, material: Material, evaluation: EvaluationConfig) -> Comparison:
    """The evidence for one rule on one subject.

    Windows are pooled until the rows could show a change that matters; where even all of them
    could not, the evidence of all of them is returned with ``adequate`` False.
    """
    problem = _problem(rule, material)
    if problem is not None:
        return _without_evidence(material, problem)
    if rule.test is not None:
        return _shift_evidence(rule, material, evaluation)
    deepest = max(1, len(material.counts) // rule.for_windows)
    for depth in range(1, deepest + 1):
        look = _look(rule, material, evaluation, depth, last=depth == deepest)
        if look is not None and (look.adequate or depth == deepest):
            return _evidence(look, material, material.counts[: depth * rule.for_windows])
    return _without_evidence(material, Reason.NO_ROWS)


def _look(rule: Rule, material: Material, evaluation: EvaluationConfig, depth: int, *, last: bool) -> Look | None:
    """So many pooled windows for each one that the rule asks for; None where they are not worth a look.

    Rows without weight say nothing, and too few rows nothing where more of them can be had.
    """
    sample = rows_of(rule, pooled(material.counts[: depth * rule.for_windows]))
    look = Look(sample, rule, material.subject, material.window, material.baseline, evaluation, depth)
    if not sample.w.any() or not (last or look.enough):
        return None
    return looked_at(look, last=last)


def pooled(counts: Sequence[Counts]) -> Counts:
    """The windows as one sample, pooled once for all rules."""
    newest, *older = counts
    if not older:
        return newest
    # weak references: what is kept with a window must not keep the windows before it
    return kept_with(newest, ("pool", *map(ref, older)), lambda: pool(counts))


def _problem(rule: Rule, material: Material) -> Reason | None:
    if material.problem is not None:
        return material.problem
    if not any(rows_of(rule, counts).w.any() for counts in material.counts):
        return Reason.NO_ROWS
    if material.in_baseline:
        return Reason.IN_BASELINE
    # Only comparisons need a baseline: a level rule goes on protecting people without one.
    compares = rule.condition == "increase" or rule.test is not None
    return Reason.NO_BASELINE if compares and material.baseline is None else None


def _without_evidence(material: Material, problem: Reason) -> Comparison:
    rows = material.counts[0].rows if material.counts else 0
    return Comparison(
        material.subject, material.window, n=rows, problem=problem,
        baseline_version=material.baseline.version if material.baseline else None,
        data_digest=digest_of(material.counts[:1]),
    )  # fmt: skip


def digest_of(counts: Sequence[Counts]) -> str:
    """A hash of the cells of several windows."""
    return hashlib.sha256(" ".join(kept_with(c, "digest", c.digest) for c in counts).encode()).hexdigest()[:16]


def _evidence(look: Look, material: Material, used: Sequence[Counts]) -> Comparison:
    """All that is said of the windows that were chosen."""
    if look.aligned is not None and not look.aligned.usable:
        return replace(
            _without_evidence(material, Reason.SCORES_MOVED),
            n=look.sample.rows,
            windows=len(used),
            detail={"moved_share": look.aligned.moved_share, "comparable": look.aligned.comparable},
        )
    rule, seen = look.rule, see(look)
    now, then = seen.now, seen.then
    alone = _alone(look, used)
    return Comparison(
        material.subject, material.window,
        value=now.value, low=now.low, high=now.high, plug_in=now.plug_in,
        baseline=then.value if then is not None else None,
        change=seen.change, change_low=seen.limits[0], change_high=seen.limits[1],
        p_value=seen.p_value, p_rate=seen.p_rate, detectable=look.detectable,
        n=look.sample.rows, windows=len(used), beyond=past(rule, now, then),
        streak=rule.for_windows == 1 or (len(alone) == rule.for_windows and all(group["beyond"] for group in alone)),
        adequate=look.adequate, baseline_version=material.baseline.version if material.baseline else None,
        data_digest=digest_of(used),
        detail={**seen.detail, **_asked(look), **_behind(look.sample), "asks": rule.for_windows, "groups": alone},
    )  # fmt: skip


def _asked(look: Look) -> dict[str, Any]:
    return {"confidence": look.evaluation.confidence, "rows_needed": look.minimum, "seen_at_most": look.largest_allowed}


def _behind(sample: Counts) -> dict[str, float]:
    """What stands behind every number of a sample, kept so that a verdict can be explained years later."""
    total = float(sample.w.sum())
    return {
        "promised": float(sample.ws.sum()) / total,
        "kept": float(sample.wy.sum()) / total,
        "effective_rows": sample.effective_rows,
        "design_effect": sample.design_effect,
    }


def _alone(look: Look, used: Sequence[Counts]) -> list[dict[str, Any]]:
    """Each of the windows, or groups of windows, that a `for` rule looks at: is it past the threshold by itself?"""
    if look.rule.for_windows == 1:
        return []
    groups = [used[i : i + look.depth] for i in range(0, len(used), look.depth)]
    return [{"windows": len(group), **beyond_alone(look, pooled(group))} for group in groups]


def _shift_evidence(rule: Rule, material: Material, evaluation: EvaluationConfig) -> Comparison:
    """A rule on a distribution test: the effect size against the threshold."""
    column = rule.column or "score"
    found = [s for s in material.shifts if s.test == rule.test and s.column == column]
    if not found or found[0].statistic is None:
        return _without_evidence(material, Reason.TOO_FEW_ROWS)
    result, statistic = found[0], found[0].statistic
    minimum = rule.min_samples if rule.min_samples is not None else evaluation.min_samples
    return Comparison(
        material.subject, material.window, value=statistic, plug_in=statistic,
        p_value=result.p_value, n=result.n, beyond=_past(statistic, rule), adequate=result.n >= minimum,
        baseline_version=material.baseline.version if material.baseline else None,
        data_digest=digest_of(material.counts[:1]),
        detail={**result.detail, "rows_needed": minimum, "n_baseline": result.n_baseline},
    )  # fmt: skip


def _past(statistic: float, rule: Rule) -> bool:
    return statistic < rule.threshold if rule.condition == "below" else statistic > rule.threshold
