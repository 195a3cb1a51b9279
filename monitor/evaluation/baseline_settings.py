"""What a rule does with a baseline that was pinned under other settings of the source. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from monitor.config.model import Rule, SourceConfig
from monitor.core.baseline import References
from monitor.core.records import Where
from monitor.core.source_settings import SettingChange, as_detail
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.data import RuleInput
from monitor.metrics.names import EXPECTED
from monitor.metrics.selective import OF_AUTOMATED

_ANOTHER = "another value"
"""What stands for the `automate_at` of a baseline, which is known only by its rows."""


def against_baseline(rule: Rule, rule_input: RuleInput, references: References, source: SourceConfig) -> RuleInput:
    """The input of a rule that compares with the baseline, with what has changed of the source since it was pinned.

    Where numbers cannot be compared the baseline is left out, and the changes are in the detail ``settings``; where
    only names have changed, these are in the detail ``renamed``. A rule that needs no baseline gets neither.
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
    return replace(rule_input, detail={**rule_input.detail, **more})


def with_labels_pinned(rule: Rule, rule_input: RuleInput, pinned: Collection[str | None]) -> RuleInput:
    """The input of a rule, without its baseline where it is about the mix of labels and no label has one.

    The mix is compared label by label, so that the baseline of the source as a whole is none for it.
    """
    if not rule.is_of_mix or rule_input.baseline is None or any(label is not None for label in pinned):
        return rule_input
    return replace(rule_input, baseline=None, detail={**rule_input.detail, "mix_of": rule.column})


def is_about_automated(metric: str | None, where: Where) -> bool:
    """Whether a metric is of automated rows alone, so that another `automate_at` changes it."""
    return where == "automated" or metric in OF_AUTOMATED
