"""What a rule compares with: a baseline, also one pinned under other settings of the source, or the weeks before. Pure.

Against the frozen baseline, a slow slope and a step look alike in the end. Against the weeks just before, a slope stays
small; a step is large until these weeks include it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from monitor.config.model import EvaluationConfig, Rule, SourceConfig
from monitor.core.baseline import ROLLING, Baseline, Baselines, References, edges_of
from monitor.core.counts import pool
from monitor.core.records import Where
from monitor.core.source_settings import SettingChange, as_detail
from monitor.core.verdict_detail import VerdictDetail, WeeksBefore
from monitor.evaluation.data import RuleInput, SourceData
from monitor.metrics.names import EXPECTED
from monitor.metrics.selective import OF_AUTOMATED

_ANOTHER = "another value"
"""What stands for the `automate_at` of a baseline, which is known only by its rows."""


def against_baseline(
    rule: Rule,
    rule_input: RuleInput,
    references: References,
    source: SourceConfig,
    pinned: Collection[str | None],
) -> RuleInput:
    """The input of a rule that compares with the baseline, with what has changed of the source since it was pinned.

    Where numbers cannot be compared the baseline is left out, and the changes are in the detail ``settings``; where
    only names have changed, these are in the detail ``renamed``. A rule that needs no baseline gets neither. The mix of
    labels is compared label by label: without any of them among the ``pinned`` that of the source as a whole is none.
    """
    if not (rule.compares or rule.test is not None or rule.metric in EXPECTED):
        return rule_input
    label = rule_input.subject.label
    changed = references.refused.get(label, ())
    if not changed and label in references.not_cut and is_about_automated(rule.metric, rule.where):
        changed = (SettingChange("automate_at", _ANOTHER, f"{source.automate_at:g}"),)
    if changed:
        return replace(rule_input, baseline=None, detail={**rule_input.detail, "settings": as_detail(changed)})
    renamed = references.renamed.get(label, ())
    more: VerdictDetail = {"renamed": as_detail(renamed)} if renamed else {}
    if rule.is_of_mix and rule_input.baseline is not None and all(each is None for each in pinned):
        return replace(rule_input, baseline=None, detail={**rule_input.detail, **more, "mix_of": rule.column})
    return replace(rule_input, detail={**rule_input.detail, **more})


def is_about_automated(metric: str | None, where: Where) -> bool:
    """Whether a metric is of automated rows alone, so that another `automate_at` changes it."""
    return where == "automated" or metric in OF_AUTOMATED


# --- the weeks before


def rolling_baselines(
    rule: Rule, data: SourceData, labels: Sequence[str | None], evaluation: EvaluationConfig
) -> dict[str | None, Baseline]:
    """The baseline of each label (None: the source as a whole) made of the windows before.

    A window in which the label's rows were rejected is left out; a label without rows in them has no baseline. Bins are
    those of the label's frozen baseline where it has one.
    """
    found: dict[str | None, Baseline] = {}
    for label in labels:
        before = data.earlier[: rule.reference_weeks]
        parts = [part for part in before if label in part.labels and part.rejected.of(label) is None]
        if not parts:
            continue
        counts = pool([part.labels[label] for part in parts])
        edges = data.baselines[label].edges if label in data.baselines else edges_of(counts, evaluation)
        newest, oldest = parts[0].window, parts[-1].window
        found[label] = Baseline(
            data.name, label, ROLLING, oldest.start, newest.end, oldest.name, newest.name, counts, edges,
            pinned_at=newest.end, pinned_by="", reason="",
        )  # fmt: skip
    return found


def against_weeks_before(rule: Rule, rule_input: RuleInput, rolling: Baselines) -> RuleInput:
    """The input with the weeks before as its baseline, and with no other window to pool."""
    baseline = rolling.get(rule_input.subject.label)
    reference: WeeksBefore = {"weeks": rule.reference_weeks}
    if baseline is not None:
        rows = baseline.counts.rows
        reference |= {"first": baseline.first_window, "last": baseline.last_window, "rows": rows}
    detail: VerdictDetail = {**rule_input.detail, "reference": reference}
    return replace(rule_input, counts=rule_input.counts[:1], baseline=baseline, detail=detail)
