"""Weeks of one source with twenty labels, judged by the shipped rules as a weekly run judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from benchmarks.populations import LABELS, Population, raised
from monitor import incidents, windows
from monitor.baselines import Baseline, edges_of
from monitor.comparisons import compare
from monitor.counts import Counts, bin_counts
from monitor.evaluation import SourceData, WindowCounts, material_of
from monitor.metrics.calibration import ece
from monitor.records import Incident, Verdict, Window
from monitor.rules.load import load_config
from monitor.rules.model import Config, Rule
from monitor.verdicts import decide

SOURCE = "simulated"
ZONE = ZoneInfo("UTC")
FIRST_WEEK = "2026-W01"
BASELINE_WEEKS = 8
TEXTBOOK = "textbook: plug-in E1 - E0 > .02"
TEXTBOOK_THRESHOLD = 0.02
SHIPPED = Path(__file__).parents[1] / "alerts.yaml"


@dataclass(frozen=True, slots=True)
class Series:
    """A baseline of eight weeks and then ``weeks`` weeks of ``n`` rows a label.

    The labels in ``planted`` have a true ECE that is larger by ``rise`` from the first of those on.
    """

    number: int
    n: int
    weeks: int
    seed: int
    planted: tuple[str, ...] = ()
    rise: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules said in some series, each counter by rule; ``label_weeks`` counts those looked at.

    ``found`` are breaches of labels with a planted rise (``planted_weeks`` in all), ``breaches`` and
    ``not_evaluated`` those of all other labels; ``incidents`` are runs of breaches there, as a person is
    told of them.
    """

    n: int
    label_weeks: int = 0
    planted_weeks: int = 0
    weeks: int = 0
    breaches: Counter[str] = field(default_factory=Counter)
    incidents: Counter[str] = field(default_factory=Counter)
    not_evaluated: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Judged) -> Judged:
        return Judged(
            self.n,
            self.label_weeks + other.label_weeks,
            self.planted_weeks + other.planted_weeks,
            self.weeks + other.weeks,
            self.breaches + other.breaches,
            self.incidents + other.incidents,
            self.not_evaluated + other.not_evaluated,
            self.found + other.found,
        )


def shipped() -> Config:
    """alerts.yaml as it is shipped."""
    return load_config(SHIPPED)


def rules_of(config: Config) -> tuple[Rule, ...]:
    """The weekly `metric:` rules that these labels have (a rule on one label by name is about another)."""
    return tuple(
        rule
        for rule in config.rules_for("weekly")
        if rule.metric is not None and rule.applies_to(SOURCE, LABELS[0].name, critical=False)
    )


def judge(series: Series) -> Judged:
    """Draw the baseline, then week after week: the family of each rule, its verdicts, its incidents."""
    config = shipped()
    rng = np.random.default_rng((series.seed, series.n, series.number))
    span = _span(BASELINE_WEEKS + series.weeks)
    baselines = {label.name: _pinned(label, series, span, config, rng) for label in LABELS}
    now = {label.name: _now(label, series) for label in LABELS}
    earlier: tuple[WindowCounts, ...] = ()
    open_now: dict[tuple[str, str], Incident] = {}
    fired: frozenset[str] = frozenset()
    total = Judged(series.n)
    for window in span[BASELINE_WEEKS:]:
        current = WindowCounts(window, {name: population.draw(rng, series.n) for name, population in now.items()})
        data = SourceData(SOURCE, current, earlier, baselines=baselines)
        verdicts = [verdict for rule in rules_of(config) for verdict in _family(rule, data, config)]
        fires = _textbook(data)
        total += _counted(series, verdicts, open_now) + _textbook_counted(series, fires, fired)
        fired = fires
        earlier = (current, *earlier)[: config.evaluation.pool_weeks]
    return total


def _span(count: int) -> list[Window]:
    found = [windows.week(FIRST_WEEK, ZONE)]
    while len(found) < count:
        found.append(windows.following(found[-1], ZONE))
    return found


def _now(label: Population, series: Series) -> Population:
    return raised(label, series.rise) if label.name in series.planted else label


def _pinned(
    label: Population, series: Series, span: Sequence[Window], config: Config, rng: np.random.Generator
) -> Baseline:
    counts = label.draw(rng, BASELINE_WEEKS * series.n)
    first, last = span[0], span[BASELINE_WEEKS - 1]
    return Baseline(
        SOURCE, label.name, 1, first.start, last.end, first.name, last.name, counts,
        edges_of(counts, config.evaluation), last.end, "simulation", "simulation",
    )  # fmt: skip


def _family(rule: Rule, data: SourceData, config: Config) -> list[Verdict]:
    """One rule on all labels, with the adjustment that a run of the shipped file makes."""
    evidence = [compare(rule, material_of(data, config, label.name, ()), config.evaluation) for label in LABELS]
    decision_rules = sum(each.metric is not None for each in config.rules_for("weekly"))
    rate = config.evaluation.false_discovery_rate
    return decide(rule, evidence, rate=rate, decision_rules=decision_rules, revision=config.revision)


def _textbook(data: SourceData) -> frozenset[str]:
    """The labels for which the textbook's rule fires, on the same rows and bins."""
    return frozenset(
        str(label)
        for label, baseline in data.baselines.items()
        if _plug_in(data.current.labels[label], baseline) - _plug_in(baseline.counts, baseline) > TEXTBOOK_THRESHOLD
    )


def _plug_in(counts: Counts, baseline: Baseline) -> float:
    return ece(bin_counts(counts, baseline.edges["all"])) or 0.0


def _counted(series: Series, verdicts: Sequence[Verdict], open_now: dict[tuple[str, str], Incident]) -> Judged:
    breaches: Counter[str] = Counter()
    opened: Counter[str] = Counter()
    silent: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for verdict in verdicts:
        kind = _incident(verdict, open_now)
        if verdict.subject.label in series.planted:
            found[verdict.rule] += verdict.outcome == "breach"
            continue
        breaches[verdict.rule] += verdict.outcome == "breach"
        opened[verdict.rule] += kind == "open"
        silent[verdict.rule] += verdict.outcome == "not_evaluated"
    calm = len(LABELS) - len(series.planted)
    return Judged(series.n, calm, len(series.planted), 1, breaches, opened, silent, found)


def _textbook_counted(series: Series, fires: frozenset[str], before: frozenset[str]) -> Judged:
    """The textbook's alarms of a week; it opens an incident where it did not fire the week ``before``."""
    calm = fires - set(series.planted)
    return Judged(
        series.n,
        breaches=Counter({TEXTBOOK: len(calm)}),
        incidents=Counter({TEXTBOOK: len(calm - before)}),
        found=Counter({TEXTBOOK: len(fires - calm)}),
    )


def _incident(verdict: Verdict, open_now: dict[tuple[str, str], Incident]) -> str:
    """What the verdict does to the incident of its rule and label, by the rules of a real run."""
    key = (verdict.rule, str(verdict.subject.label))
    decision = incidents.decide(verdict, open_now.get(key), verdict.window.end)
    if decision.incident is None or decision.kind == "resolve":
        open_now.pop(key, None)
    else:
        open_now[key] = decision.incident
    return decision.kind
