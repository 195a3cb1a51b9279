"""``/compare?a=..&b=..``: two weeks or two model versions: what differs, and whether that is chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from markupsafe import Markup

from monitor.core.baseline import edges_of
from monitor.core.counts import Counts, bin_counts, pool
from monitor.core.records import Interval, Where, Window
from monitor.report.csv_table import Table
from monitor.report.figures.panels import reliability_svg
from monitor.report.figures.reliability import reliability_data
from monitor.report.side_by_side import Measured, SideDifference, SideKey, differences, mean_of
from monitor.service.pages.base import Page, PageContent, PageContext
from monitor.service.problems import ProblemReason, RequestRefused

Series = tuple[str, Where]
OF_WEEKS: tuple[Series, ...] = (
    ("ece", "all"),
    ("roc_auc", "all"),
    ("overconfidence", "automated"),
    ("error_rate", "all"),
)
OF_SEGMENTS: tuple[Series, ...] = (("ece", "all"), ("roc_auc", "all"), ("overconfidence", "all"), ("accuracy", "all"))
VERSION_WEEKS = 8
"""How many of its newest weeks stand for a model version, at most."""
_VERSION = "version:"


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side: a week, or the weeks of a model ``version``, of its ``segment`` where estimates are made for it."""

    name: str
    windows: tuple[Window, ...]
    segment: tuple[str, str] | None = None
    version: str = ""


@dataclass(frozen=True)
class Comparing:
    """What the page reads; each part is read once."""

    context: PageContext
    source: str
    windows: Sequence[Window]
    """Newest first."""

    @cached_property
    def versions(self) -> dict[str, list[Window]]:
        """Model version -> its weeks, newest first, in the order of their newest week."""
        found: dict[str, list[Window]] = {}
        at = {window.start: window for window in self.windows}
        for start, versions in self.context.store.versions_seen(self.source, min(at), max(at), schedule="weekly"):
            for version in versions if start in at else ():
                found.setdefault(version, []).append(at[start])
        return found

    def side(self, text: str) -> ComparedSide:
        """A side by its name. Raises RequestRefused for what the history does not have."""
        if text.startswith(_VERSION):
            version = text.removeprefix(_VERSION)
            windows = tuple(self.versions.get(version, ())[:VERSION_WEEKS])
            if not windows:
                raise RequestRefused(ProblemReason.REQUEST_INVALID, "no week of this source has rows of that version")
            name = f"version {version} ({windows[-1].name} to {windows[0].name})"
            source = self.context.config.sources.get(self.source)  # whether it has estimates for each model version
            of_segment = source is not None and "model_version" in source.segments
            return ComparedSide(name, windows, ("model_version", version) if of_segment else None, version)
        return ComparedSide(text, (self.context.week_named(text),))

    def measured(self, side: ComparedSide, labels: Sequence[str | None]) -> dict[SideKey, Measured]:
        """The numbers of one side."""
        series, starts = OF_SEGMENTS if side.segment else OF_WEEKS, [window.start for window in side.windows]
        rows = self.context.store.grid_numbers(
            starts, self.source, labels, series, schedule="weekly", segment=side.segment
        )
        weeks: dict[SideKey, list[Measured]] = {}
        for row in (row for row in rows if (row.metric, row.population) in series):
            one = Measured(Interval(row.value, row.low, row.high, None), row.n)
            weeks.setdefault((row.label, row.metric, row.population), []).append(one)
        means = {key: mean_of(parts) for key, parts in weeks.items()}
        return {key: mean for key, mean in means.items() if mean is not None}

    def counts(self, side: ComparedSide, label: str | None) -> Counts | None:
        """The rows of one label on one side; for a model version, of the weeks without rows of another version."""
        mixed = [w for version, windows in self.versions.items() if version != side.version for w in windows]
        windows = [w for w in side.windows if not side.version or w not in mixed]
        found = [self.context.store.counts_of("weekly", w.start, self.source, label) for w in windows]
        known = [counts for counts in found if counts is not None and counts.rows]
        return pool(known) if known else None

    def curves(self, a: ComparedSide, b: ComparedSide, label: str) -> Markup | None:
        """The reliability of ``b`` with that of ``a`` beside it, on the same bins; None where a side has no counts."""
        first, second, evaluation = self.counts(a, label), self.counts(b, label), self.context.config.evaluation
        if first is None or second is None:
            return None
        edges = edges_of(pool([first, second]), evaluation)["all"]
        data = reliability_data(bin_counts(second, edges), bin_counts(first, edges), confidence=evaluation.confidence)
        return reliability_svg(data, (b.name, a.name))


def make(context: PageContext) -> PageContent:
    """Both sides, the differences, and the reliability of one label. Raises RequestRefused for unknown names."""
    sources = list(context.config.sources)
    source, windows = context.choice("source", sources, sources[0]), context.weeks()
    if not windows:
        return PageContent("compare.html.j2", "Compare", {"sides": (), "source": source})
    reader = Comparing(context, source, windows)
    # without names, the newest week and the one before it
    a = reader.side(context.text("a") or windows[min(1, len(windows) - 1)].name)
    b = reader.side(context.text("b") or windows[0].name)
    labels = sorted(context.store.known_labels(source), key=lambda label: label or "")
    label = context.text("label")
    chosen = [each for each in labels if label in ("", each)]
    evaluation = context.config.evaluation
    both = reader.measured(a, chosen), reader.measured(b, chosen)
    found = differences(*both, confidence=evaluation.confidence, rate=evaluation.false_discovery_rate)
    values: dict[str, Any] = {
        "sides": (a, b), "source": source, "labels": labels, "label": label,
        "windows": windows, "versions": reader.versions, "found": found,
        "curves": reader.curves(a, b, label) if label else None,
    }  # fmt: skip
    return PageContent("compare.html.j2", "Compare", values, {"differences": lambda: _table(source, found)})


def _table(source: str, found: Iterable[SideDifference]) -> Table:
    sides = [
        f"{side}{name}={side}.{path}"
        for side in ("a", "b")
        for name, path in (("", "interval.value"), ("_low", "interval.low"), ("_high", "interval.high"), ("_n", "rows"))
    ]
    records = [{"source": source, **asdict(each), "worse": each.worse} for each in found]
    return Table.of(
        records, "source", "label", "metric", "where", *sides, "change", "low", "high", "p_adjusted", "significant",
        "worse",
    )  # fmt: skip


PAGE = Page("/compare", make, nav="Compare", query=frozenset({"a", "b", "source", "label"}))
