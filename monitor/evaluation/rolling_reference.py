"""The weeks before as a reference, for rules that look for a step: a baseline that moves along. Pure.

Against the frozen baseline, a slow slope and a step look alike in the end. Against the weeks just before, a slope stays
small; a step is large until these weeks include it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import ROLLING, Baseline, edges_of
from monitor.core.counts import pool
from monitor.core.verdict_detail import VerdictDetail, WeeksBefore
from monitor.evaluation.data import RuleInput, WindowCounts


def rolling_baselines(
    source: str,
    labels: Sequence[str | None],
    earlier: Sequence[WindowCounts],
    frozen: Mapping[str | None, Baseline],
    evaluation: EvaluationConfig,
) -> dict[str | None, Baseline]:
    """The baseline of each label (None: the source as a whole) made of the ``earlier`` windows, newest first.

    A window in which the label's rows were rejected is left out; a label without rows in them has no baseline. Bins are
    those of the label's frozen baseline where it has one.
    """
    found: dict[str | None, Baseline] = {}
    for label in labels:
        parts = [part for part in earlier if label in part.labels and part.rejected.of(label) is None]
        if not parts:
            continue
        counts = pool([part.labels[label] for part in parts])
        edges = frozen[label].edges if label in frozen else edges_of(counts, evaluation)
        newest, oldest = parts[0].window, parts[-1].window
        found[label] = Baseline(
            source, label, ROLLING, oldest.start, newest.end, oldest.name, newest.name, counts, edges,
            pinned_at=newest.end, pinned_by="", reason="",
        )  # fmt: skip
    return found


def against_weeks_before(rule: Rule, rule_input: RuleInput, rolling: Mapping[str | None, Baseline]) -> RuleInput:
    """The input with the weeks before as its baseline, and with no other window to pool."""
    baseline = rolling.get(rule_input.subject.label)
    reference: WeeksBefore = {"weeks": rule.reference_weeks}
    if baseline is not None:
        rows = baseline.counts.rows
        reference |= {"first": baseline.first_window, "last": baseline.last_window, "rows": rows}
    detail: VerdictDetail = {**rule_input.detail, "reference": reference}
    return replace(rule_input, counts=rule_input.counts[:1], baseline=baseline, detail=detail)
