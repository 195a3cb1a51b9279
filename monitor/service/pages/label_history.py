"""What the history has about one label: read once, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from monitor.config.model import Rule, SourceConfig
from monitor.config.rule_sources import rules_on
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts
from monitor.core.page_paths import drift_file, drift_path
from monitor.core.records import Estimate, ShiftResult, Subject, Verdict, Where, Window
from monitor.core.wording import maturity_words
from monitor.evaluation.shift.findings import ShiftFinding, findings
from monitor.history.store import Store
from monitor.metrics.registry import METRICS
from monitor.report import words
from monitor.report.compared_baseline import ComparedBaseline, compared_baseline
from monitor.report.figures.reliability import Reliability, reliability_beside
from monitor.report.figures.trend import Trend, stored_trends
from monitor.service.pages.base import PageContext

Series = tuple[str, Where]
STANDARD: tuple[Series, ...] = (("ece", "all"), ("mce", "all"), ("roc_auc", "all"), ("overconfidence", "automated"))
OF_NUMBERS: tuple[Series, ...] = (("rmse", "all"), ("r_squared", "all"), ("interval_coverage", "all"))
"""The standard metrics of a source of numbers, which has no labels and no scores."""
BASELINE = "baseline"
SEGMENTS = 24


@dataclass(frozen=True)
class LabelHistory:
    """What the page reads about one label; each part is read once."""

    context: PageContext
    subject: Subject
    windows: Sequence[Window]
    """Those of the trend, oldest first; the last is the week shown."""

    @property
    def store(self) -> Store:
        """The history."""
        return self.context.store

    @property
    def about(self) -> tuple[str, str | None]:
        """Its source and its name."""
        return self.subject.source, self.subject.label

    @property
    def of_weeks(self) -> dict[str, Any]:
        """What selects its weekly evaluations in the history."""
        return {"schedule": "weekly", "source": self.subject.source, "label": self.subject.label}

    @property
    def week(self) -> Window:
        """The week shown."""
        return self.windows[-1]

    @property
    def source(self) -> SourceConfig | None:
        """Its source in alerts.yaml; None where it was removed."""
        return self.context.config.sources.get(self.subject.source)

    @property
    def has_scores(self) -> bool:
        """Whether anything can act from a score: numbers, as of a regression, have none."""
        return self.source is None or self.source.kind != "regression"

    @property
    def automate_at(self) -> float:
        """The score from which the label acts."""
        return 1.0 if self.source is None else self.source.automate_from(self.subject.label)

    @cached_property
    def rules(self) -> list[Rule]:
        """The weekly rules on the label."""
        return rules_on(self.context.config, "weekly", *self.about)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """All current verdicts."""
        return self.store.verdicts(**self.of_weeks, between=(self.windows[0].start, self.week.start))

    @cached_property
    def estimates(self) -> list[Estimate]:
        """All estimates of the week shown."""
        return self.store.estimates(**self.of_weeks, window_start=self.week.start)

    @cached_property
    def baselines(self) -> list[Baseline]:
        """Every version of its baseline, the newest last."""
        return sorted(self.store.baselines(*self.about), key=lambda b: b.version)

    @cached_property
    def compared(self) -> ComparedBaseline | None:
        """The newest version of its baseline that the week shown may be compared with."""

        def of_source(version: int) -> dict[str | None, Baseline]:
            return {each.label: each for each in self.store.baselines(self.subject.source, version=version)}

        settings = self.store.settings_of("weekly", self.week.start, self.subject.source)
        return compared_baseline(
            self.baselines, self.counts, settings, self.source,
            self.context.config.evaluation, of_source=of_source,
        )  # fmt: skip

    @cached_property
    def trends(self) -> list[Trend]:
        """The trends of the standard metrics and of those of its rules, where they have a value."""
        named = [(rule.metric, rule.where) for rule in self.rules]
        watched: list[Series] = [(metric, where) for metric, where in named if metric is not None and metric in METRICS]
        series = list(dict.fromkeys((*(STANDARD if self.has_scores else OF_NUMBERS), *watched)))
        beside = [words.MEASURED[each] for each in series if each in words.MEASURED]
        verdicts, compared = self.verdicts, self.compared
        stored = stored_trends(
            self.store, self.subject, dict.fromkeys((*series, *beside)), verdicts, windows=self.windows,
            rules=self.rules,
            baseline=lambda metric, where: None if compared is None else compared.value(metric, where, verdicts),
        )  # fmt: skip
        found = {(trend.metric, trend.where): trend for trend in stored if not trend.empty}
        expected = {of: found[known].points for of, known in words.MEASURED.items() if known in found}
        return [replace(found[each], expected=expected.get(each, ())) for each in series if each in found]

    @cached_property
    def counts(self) -> Counts | None:
        """The counts of the week shown."""
        return self._counts(self.week)

    def _counts(self, window: Window) -> Counts | None:
        found = self.store.counts_of("weekly", window.start, *self.about)
        return found if found is not None and found.rows else None

    @cached_property
    def other(self) -> tuple[str, Counts | None]:
        """What the week is compared with: its name, and its counts. Raises RequestRefused for an unknown week."""
        name = self.context.text("against") or BASELINE
        if name != BASELINE:
            return name, self._counts(self.context.week_named(name))
        if self.compared is None:
            return "", None
        newest = self.compared.baseline
        return f"baseline {newest.version} ({newest.first_window} to {newest.last_window})", newest.counts

    @cached_property
    def shifts(self) -> tuple[list[ShiftResult], list[ShiftFinding]]:
        """Its shift tests of the week shown, and those that found a shift; all tests of its source are one family."""
        every = self.store.shifts("weekly", self.week.start, self.subject.source)
        found = findings(every, self.context.config.evaluation.false_discovery_rate)
        return (
            [shift for shift in every if shift.subject == self.subject],
            [each for each in found if each.result.subject == self.subject],
        )

    @cached_property
    def truths(self) -> str:
        """The label maturity of the week shown; "" where the source does not count rows without a truth."""
        start = self.week.start
        known = self.store.maturities("weekly", self.subject.source, since=start, until=start)
        found = known.get((start, self.subject.label))
        return "" if found is None else maturity_words(found)

    @cached_property
    def reliability(self) -> Reliability | None:
        """The week's bins and those of the baseline or of another week, on the baseline's edges if it has one."""
        if self.counts is None:
            return None
        baseline = None if self.compared is None else self.compared.baseline
        return reliability_beside(self.counts, self.other[1], baseline, self.context.config.evaluation)

    @cached_property
    def segments(self) -> list[tuple[str, str, float | None, int]]:
        """The largest segments of the week shown, with their ECE and rows, by column and size."""
        source, label = self.about
        of_week = self.store.grid_numbers(
            [self.week.start], source, [label], [("ece", "all")], schedule="weekly", segments=True
        )
        rows = ((*row.segment, row.value, row.n) for row in of_week if row.segment is not None)
        largest = sorted(rows, key=lambda each: -each[3])[:SEGMENTS]
        return sorted(largest, key=lambda each: (each[0], -each[3]))

    @property
    def drift(self) -> str:
        """The address of the page on features of its source; "" where no run of the week shown kept one."""
        kept = self.context.settings.report_dir / "weekly" / self.week.name / drift_file(self.subject.source)
        return drift_path(self.subject.source, self.week.name) if kept.is_file() else ""
