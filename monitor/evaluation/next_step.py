"""The one next step that a trouble asks for, with what it should gain on windows that were not used to fit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monitor.config.model import EvaluationConfig
from monitor.core.counts import CELLS, Counts, pool
from monitor.core.diagnoses import LabelProblem, NextStep, NotTold
from monitor.inference.sampling import Proportion
from monitor.inference.selective import threshold_for
from monitor.metrics.selective import looked_at
from monitor.recalibration.choice import choose
from monitor.recalibration.gain import gains_on_unseen

OF_SCORES = frozenset({LabelProblem.OVERCONFIDENT, LabelProblem.UNDERCONFIDENT, LabelProblem.MISCALIBRATED})
"""Problems that other scores for the same decisions may mend."""
FALLS_SHORT = 0.5
"""A recalibration that leaves more than this part of the ECE is not the next step where another one is offered."""


def advice_for_silence(reason: NotTold | None) -> NextStep | None:
    """What to do about a label of which nothing can be told; None where waiting is all."""
    if reason in (NotTold.SOURCE_NOT_READ, NotTold.REJECTED_ROWS, NotTold.NO_ROWS):
        return NextStep("repair_data")
    return NextStep("pin_again") if reason is NotTold.NO_BASELINE else None


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
    if recalibrated is not None and _mends(recalibrated):
        return recalibrated
    higher = higher_score(counts, target) if problem is not LabelProblem.MISSES else None
    return higher or recalibrated or NextStep("retrain")


def _mends(advice: NextStep) -> bool:
    return advice.after is not None and advice.before is not None and advice.after <= FALLS_SHORT * advice.before


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
    rows = looked_at(counts[0])
    acting = rows.take(rows.cell >= round(point.threshold * CELLS))
    if not acting.effective_rows > 0:
        return None
    kept, before = (float(part.wy.sum() / part.w.sum()) for part in (acting, rows))
    low, high = Proportion(kept, acting.effective_rows).interval(0.95)
    if high is not None and high < target:
        return None
    return NextStep(
        "act_from_score", "", point.threshold, float(acting.w.sum()), before, kept, low, high, unseen="windows"
    )
