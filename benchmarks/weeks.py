"""Weeks and days of one source with twenty labels, judged by the shipped rules with the functions of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.populations import Bools, Ints, Population, counted
from monitor.config.load import load_config
from monitor.config.model import Config, Rule
from monitor.core import windows
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts
from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import Incident, Schedule, Verdict, Window
from monitor.evaluation.data import SourceData, WindowCounts, windows_needed
from monitor.evaluation.evaluate import verdicts_of
from monitor.incidents.life import Finding, IncidentDecision, decide

SOURCE = "mail"  # the shipped source with a rule on one label by name
BASELINE_ENDS = "2026-W01"  # the first judged week, at whose start the baseline ends
DAYS = 7
SHIPPED = Path(__file__).parents[1] / "alerts.yaml"

Cells = npt.NDArray[np.int16]
Open = dict[tuple[str, str | None], Incident]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one label in the order of time: ``cells`` and ``outcomes``, both of shape (rows,).

    ``starts`` (windows + 1,) has the index of each window's first row, and the number of rows at its end.
    """

    population: Population
    cells: Cells
    outcomes: Bools
    starts: Ints

    def counts(self, index: int) -> Counts:
        """The counts of one window."""
        return _counts(self, index)

    def in_days(self) -> Rows:
        """The same rows, with each week divided into seven days of equal numbers of rows, or one more."""
        within = np.arange(DAYS) / DAYS
        starts = np.floor(self.starts[:-1, None] + np.diff(self.starts)[:, None] * within).astype(np.int64)
        return Rows(self.population, self.cells, self.outcomes, np.append(starts, self.starts[-1]))


@lru_cache(maxsize=256)  # later windows pool a window: enough for twenty labels and all windows that may be pooled
def _counts(rows: Rows, index: int) -> Counts:
    part = slice(rows.starts[index], rows.starts[index + 1])
    return counted(rows.cells[part], rows.outcomes[part], rows.population.automate_at)


ByLabel = Mapping[str, Rows]


def drawn(populations: Iterable[Population], windows: int, n: int, rng: np.random.Generator) -> dict[str, Rows]:
    """``n`` random rows of every population in each of ``windows`` windows."""
    found = {}
    for population in populations:
        cells, outcomes = population.rows(rng, windows * n)
        found[population.name] = Rows(population, cells.astype(np.int16), outcomes, np.arange(windows + 1) * n)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What judging one year needs besides its rows: rules, baselines, and the windows (days or weeks)."""

    config: Config
    baselines: Mapping[str | None, Baseline]
    windows: Sequence[Window]

    def data(self, rows: ByLabel, index: int) -> SourceData:
        """The data of a run of one window: its counts, and those of the windows before that it may pool."""
        back = windows_needed(self.config, self.windows[index]) - 1
        parts = [self._counts(rows, at) for at in range(index, max(index - back, 0) - 1, -1)]
        return SourceData(SOURCE, parts[0], tuple(parts[1:]), baselines=self.baselines)

    def _counts(self, rows: ByLabel, index: int) -> WindowCounts:
        return WindowCounts(self.windows[index], {name: part.counts(index) for name, part in rows.items()})


@cache
def shipped() -> Config:
    """The shipped alerts.yaml."""
    return load_config(SHIPPED)


def setting(
    populations: Sequence[Population], n: int, count: int, rng: np.random.Generator, *, schedule: Schedule = "weekly"
) -> Setting:
    """Baselines of as many weeks as the shipped file says (more, if too few rows), then ``count`` windows.

    ``n`` is the number of rows of a label in a *week*.
    """
    config = shipped()
    weeks = max(config.baseline.weeks, ceil(config.baseline.min_pairs / n))
    first = windows.week(BASELINE_ENDS, config.zone)
    span = [windows.previous(first, config.zone)]
    while len(span) < weeks:
        span.append(windows.previous(span[-1], config.zone))
    baselines: dict[str | None, Baseline] = {
        each.name: _pinned(each, weeks * n, (span[-1], span[0]), config, rng) for each in populations
    }
    start = windows.containing(schedule, first.start, config.zone)
    return Setting(config, baselines, list(islice(_following(start, config), count)))


def _following(window: Window, config: Config) -> Iterator[Window]:
    while True:
        yield window
        window = windows.following(window, config.zone)


def _pinned(
    label: Population, rows: int, span: tuple[Window, Window], config: Config, rng: np.random.Generator
) -> Baseline:
    counts, (first, last) = label.draw(rng, rows), span
    return Baseline(
        SOURCE, label.name, 1, first.start, last.end, first.name, last.name, counts,
        edges_of(counts, config.evaluation), last.end, "simulation", "simulation",
    )  # fmt: skip


def by_day(weekly: Setting) -> Setting:
    """The same baselines, with the days of the same weeks as windows."""
    first = windows.containing("daily", weekly.windows[0].start, weekly.config.zone)
    days = list(islice(_following(first, weekly.config), DAYS * len(weekly.windows)))
    return Setting(weekly.config, weekly.baselines, days)


def judged(data: SourceData, config: Config, rules: Iterable[Rule]) -> list[Verdict]:
    """The verdicts of rules on metrics. The bootstrap is done only if it can matter.

    The outcomes equal those of a run; a test compares them.
    """
    return [verdict for rule in rules for verdict in verdicts_of(rule, data, config, (), outcomes_only=True)]


def opened(verdicts: Iterable[Verdict], open_now: Open) -> Counter[str]:
    """How many incidents each rule would open if it were the only one of its label. Updates ``open_now``.

    ``open_now`` also has resolved incidents: a breach soon after brings back the same incident.
    """
    found: Counter[str] = Counter()
    for verdict in verdicts:
        found[verdict.rule] += decided(verdict, open_now).kind == "open"
    return found


_STATES = {"breach": DiagnosisState.DEGRADED, "ok": DiagnosisState.FINE}


def decided(verdict: Verdict, open_now: Open) -> IncidentDecision:
    """What one verdict would do to the incident of its label, as the diagnosis of a label with this rule alone."""
    key = (verdict.rule, verdict.subject.label)
    state = _STATES.get(verdict.outcome, DiagnosisState.CANNOT_TELL)
    finding = Finding(
        verdict.rule, verdict.subject.source, verdict.subject.label, verdict.window, state, severity=verdict.severity,
        within_limits=not verdict.detail.get("beyond"),
    )  # fmt: skip
    decision = decide(finding, open_now.get(key), verdict.window.end)
    if decision.incident is not None:
        open_now[key] = decision.incident
    return decision
