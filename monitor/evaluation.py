"""One source in one window, from counts to verdicts. Pure: what it needs is handed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.baselines import Baseline, edges_of
from monitor.comparisons import Material, compare
from monitor.counts import Counts
from monitor.estimates import Sample, estimate
from monitor.records import Estimate, Quality, Reason, ShiftResult, Subject, Verdict, Window
from monitor.rules.model import Config, Rule, SourceConfig
from monitor.shift.counts_tests import source_shifts
from monitor.verdicts import decide

ByLabel = Mapping[str | None, Counts]  # None: the source as a whole
DAYS_POOLED = 7


@dataclass(frozen=True, slots=True, eq=False)
class WindowCounts:
    """What one source held in one window; ``versions`` maps model version -> rows."""

    window: Window
    labels: ByLabel = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)

    @property
    def main_version(self) -> str | None:
        """The model version most rows came from (None where the relation does not tell)."""
        return max(sorted(self.versions), key=lambda v: self.versions[v]) if self.versions else None


@dataclass(frozen=True, slots=True, eq=False)
class SourceData:
    """All that is known of one source when a window is judged.

    ``earlier`` holds the windows before, newest first; ``switched`` the labels that have a switch;
    ``problem`` is set where the source could not be read, with ``error`` saying why in words.
    """

    name: str
    current: WindowCounts
    earlier: tuple[WindowCounts, ...] = ()
    segments: Mapping[tuple[str, str], Mapping[str, Counts]] = field(default_factory=dict)
    baselines: Mapping[str | None, Baseline] = field(default_factory=dict)
    quality: tuple[Quality, ...] = ()
    rows: int = 0
    problem: Reason | None = None
    error: str = ""
    switched: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """What judging one source in one window gave."""

    source: str
    window: Window
    estimates: tuple[Estimate, ...]
    verdicts: tuple[Verdict, ...]
    shifts: tuple[ShiftResult, ...]
    quality: tuple[Quality, ...]
    problem: Reason | None = None
    error: str = ""


def evaluate(data: SourceData, config: Config, extra_shifts: tuple[ShiftResult, ...] = ()) -> Evaluated:
    """Estimates, shift tests and verdicts of one source in one window.

    ``extra_shifts`` are tests that need rows (drift of feature samples), done by the caller.
    """
    window = data.current.window
    estimates = () if data.problem else tuple(estimate(samples_of(data, config), window, config.evaluation))
    shifts = (
        () if data.problem else (*source_shifts(data.name, window, data.current.labels, data.baselines), *extra_shifts)
    )
    verdicts = [
        verdict for rule in config.rules_for(window.schedule) for verdict in verdicts_of(rule, data, config, shifts)
    ]  # fmt: skip
    return Evaluated(
        data.name, window, estimates, tuple(verdicts), shifts, data.quality, data.problem, data.error
    )  # fmt: skip


def samples_of(data: SourceData, config: Config) -> list[Sample]:
    """One sample a label, one for the source as a whole, one a (segment, label).

    Bins are the baseline's where there is one, else the window's own; a segment is looked at
    through its label's bins.
    """
    edges = {
        label: data.baselines[label].edges if label in data.baselines else edges_of(counts, config.evaluation)
        for label, counts in data.current.labels.items()
    }
    whole = [
        Sample(Subject(data.name, label), counts, edges[label])
        for label, counts in sorted(data.current.labels.items(), key=_label_order)
    ]
    parts = [
        Sample(Subject(data.name, label, segment), counts, edges[label])
        for segment, labels in sorted(data.segments.items())
        for label, counts in sorted(labels.items())
        if label in edges
    ]
    return whole + parts


def _label_order(item: tuple[str | None, object]) -> tuple[bool, str]:
    return item[0] is None, item[0] or ""


def subjects(data: SourceData, source: SourceConfig) -> list[str | None]:
    """Every label that is there, was there when a baseline was pinned, is configured, or may act alone.

    Without the last, automation of a label that vanished would go on with no verdict saying so.
    """
    known = {*data.current.labels, *data.baselines, *source.labels, *data.switched, None}
    return sorted(known, key=lambda label: (label is None, label or ""))


def verdicts_of(rule: Rule, data: SourceData, config: Config, shifts: tuple[ShiftResult, ...]) -> list[Verdict]:
    """The verdicts of one rule on all that it applies to, whatever else is judged: its family is whole."""
    source = config.sources[data.name]
    labels = [
        label
        for label in subjects(data, source)
        if rule.applies_to(data.name, label, critical=source.is_critical(label))
    ]
    family = [compare(rule, material_of(data, config, label, shifts), config.evaluation) for label in labels]
    if not family and data.problem and rule.match.source in (None, data.name):
        # nothing is known of its labels: one verdict for the source says that it was not evaluated
        family = [compare(rule, material_of(data, config, None, shifts), config.evaluation)]
    rules = sum(r.metric is not None for r in config.rules_for(data.current.window.schedule))
    rate = config.evaluation.false_discovery_rate
    return decide(
        rule, family, rate=rate, decision_rules=rules, revision=config.revision, acts_from=source.least_automate_at
    )


def material_of(data: SourceData, config: Config, label: str | None, shifts: tuple[ShiftResult, ...]) -> Material:
    """What a rule may look at for one label."""
    baseline = data.baselines.get(label)
    window = data.current.window
    chain = [data.current, *poolable(data, baseline, config)] if label in data.current.labels else []
    counts = tuple(part.labels[label] for part in chain if label in part.labels)
    mine = tuple(s for s in shifts if s.subject == Subject(data.name, label))
    return Material(Subject(data.name, label), window, counts, baseline, mine, data.problem)


def poolable(data: SourceData, baseline: Baseline | None, config: Config) -> list[WindowCounts]:
    """The windows before that may be pooled with this one, newest first.

    Pooling crosses neither the baseline's end nor a change of the main model version.
    """
    most = windows_needed(config, data.current.window) - 1
    kept: list[WindowCounts] = []
    for part in data.earlier[:most]:
        if baseline is not None and part.window.start < baseline.end:
            break
        if part.versions and part.main_version != data.current.main_version:
            break
        kept.append(part)
    return kept


def windows_needed(config: Config, window: Window) -> int:
    """How many windows, with the judged one, a run of this schedule looks at."""
    pooled = config.evaluation.pool_weeks if window.schedule == "weekly" else DAYS_POOLED
    return max([pooled, *(rule.for_windows for rule in config.rules_for(window.schedule))])


def summary(evaluated: Evaluated) -> Counter[str]:
    """How many verdicts had each outcome."""
    return Counter(verdict.outcome for verdict in evaluated.verdicts)
