"""Which changes rules can detect, in words: one line a label, and what to change if a rule is not evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from monitor.config.model import Config
from monitor.core.wording import clean
from monitor.evaluation.data import pooled_at_most
from monitor.evaluation.visible_changes import Typical, Visible, visible_changes
from monitor.operations.propose_evaluation import Tuning
from monitor.operations.starter_files import section_lines

ALL_LABELS = "(all labels)"
CANNOT_OCCUR = "cannot occur"
_UNITS = {"weekly": "w", "daily": "d"}


def cell_of(found: Visible, config: Config, *, with_rows: bool = False) -> str:
    """The smallest detectable value or change, and the windows (and rows) it takes; in brackets if these are too many.

    Where no truth can be beyond the threshold, nothing could be seen with more rows either: ``cannot occur``.

    >>> from monitor.config.model import Rule
    >>> from monitor.core.records import Subject
    >>> from monitor.operations.starter_files import starter_config
    >>> from monitor.config.load import parse_config
    >>> config = parse_config(starter_config("a", "b", {"score_is": "probability_of_label"}, "UTC"))
    >>> rule = Rule(id="x", metric="ece", condition="increase", threshold=0.02)
    >>> cell_of(Visible(rule, Subject("a", "b"), 600, 2, 0.031), config)
    '+0.031 2w'
    >>> cell_of(Visible(rule, Subject("a", "b"), 100, 13, 0.031), config)
    '(13w)'
    >>> cell_of(Visible(rule, Subject("a", "b"), 600, 1, 0.0, out_of_reach=True), config)
    'cannot occur'
    """
    if found.lacks == "baseline":
        return "no baseline"
    if found.windows is None or found.detectable is None:
        return "never"
    rows = f" {found.windows * found.rows:,.0f} rows" if with_rows else ""
    windows = f"{found.windows}{_UNITS[found.rule.schedule]}{rows}"
    if not found.within(config.evaluation):
        return f"({windows})"
    if found.out_of_reach:
        return CANNOT_OCCUR
    return f"{_change(found)} {windows}"


def _change(found: Visible) -> str:
    rule, distance = found.rule, found.detectable or 0.0
    if rule.compares:
        return f"{'−' if rule.condition == 'decrease' else '+'}{distance:.3f}"
    return f"<{rule.threshold - distance:.3f}" if rule.condition == "below" else f">{rule.threshold + distance:.3f}"


LEGEND = (
    "the smallest change (+) or value (>, <) that is seen 4 times in 5, and how many weeks (w) or days (d) are pooled "
    "for it; in brackets: more than may be pooled, so that only a larger one is seen"
)
_OUT_OF_REACH = f"; {CANNOT_OCCUR}: with these scores no truth is beyond the threshold"


def legend_of(lines: Sequence[Sequence[str]]) -> str:
    """What the cells of these lines mean."""
    return LEGEND + (_OUT_OF_REACH if any(CANNOT_OCCUR in line for line in lines) else "")


def lines_of(
    found: Sequence[Visible], typical: Typical, config: Config, *, with_rows: bool = False
) -> tuple[list[str], list[list[str]]]:
    """The ids of the rules, and for each label its name, its rows a week and a cell for each rule; most rows first."""
    rules = list(dict.fromkeys(each.rule.id for each in found))
    cells: Mapping[tuple[str, str | None], str] = {
        (each.rule.id, each.subject.label): cell_of(each, config, with_rows=with_rows) for each in found
    }
    labels = sorted(typical.labels, key=lambda label: (label is None, -typical.labels[label].rows, label or ""))
    lines = [
        [ALL_LABELS if label is None else clean(label), f"{typical.labels[label].rows / typical.weeks:,.0f}"]
        + [cells.get((rule, label), "") for rule in rules]
        for label in labels
    ]
    return rules, lines


def remarks(name: str, config: Config, found: Sequence[Visible], typical: Typical, tuning: Tuning) -> Iterator[str]:
    """Sentences about what cannot be seen at this volume, and what to write so that it can."""
    yield from _unseen(config, found)
    better = tuning.applied(config)
    if _evaluated(visible_changes(name, better, typical), better) > _evaluated(found, config):
        lines = section_lines(tuning.beside(config.evaluation, config.baseline))
        yield f"with these lines in alerts.yaml more can be seen: {'; '.join(lines)}"
    rows = typical.labels[None].rows / typical.weeks
    if not any(each.subject.label is None and each.within(config.evaluation) for each in found):
        yield (
            f"no rule is about all labels together ({rows:,.0f} rows a week): what each label has too few rows for is "
            "seen there first. Add source-ece (`calmon docs source-ece`)"
        )


def _unseen(config: Config, found: Sequence[Visible]) -> Iterator[str]:
    """For each rule, of how many of its labels a small change cannot be seen, and why."""
    for rule in dict.fromkeys(each.rule for each in found):
        of_rule = [each for each in found if each.rule is rule]
        unseen = [each for each in of_rule if not each.within(config.evaluation)]
        baseless = [each for each in unseen if each.lacks == "baseline"]
        seldom = [each for each in unseen if each.lacks != "baseline"]
        unit = "week" if rule.schedule == "weekly" else "day"
        if baseless:
            needed, weeks, text = config.baseline.min_pairs, config.baseline.weeks, _which(baseless, of_rule)
            yield f"{rule.id}: no baseline can be pinned for {text}: fewer than {needed:,} pairs in {weeks} weeks"
        if seldom:
            pooled, most = pooled_at_most(rule.schedule, config.evaluation), max(each.rows for each in seldom)
            rows = f"{most:,.0f} rows a {unit} or fewer" if most >= 1 else f"less than 1 row a {unit}"
            yield (
                f"{rule.id}: for {_which(seldom, of_rule)}, having {rows} that the rule is about, a small change "
                f"cannot be seen even in {pooled} {unit}s: a large one is a breach, but nothing is said to be fine"
            )


def _which(some: Sequence[Visible], of_rule: Sequence[Visible]) -> str:
    """``2 of 9 labels``, or the only one by its name."""
    if len(of_rule) > 1:
        return f"{len(some)} of {len(of_rule)} labels"
    return of_rule[0].subject.label or "all labels together"


def _evaluated(found: Sequence[Visible], config: Config) -> int:
    return sum(each.within(config.evaluation) for each in found)
