"""The baseline that a label is shown beside, as its source is configured now, and the values of metrics in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from monitor.config.model import EvaluationConfig, SourceConfig
from monitor.core.baseline import Baseline, Baselines, References, comparable_versions
from monitor.core.counts import Counts
from monitor.core.records import Subject, Verdict, Where, Window
from monitor.core.source_settings import Settings
from monitor.evaluation.estimates import Sample, estimate
from monitor.evaluation.other_thresholds import at_present_threshold
from monitor.evaluation.references import is_about_automated


@dataclass(frozen=True)
class ComparedBaseline:
    """``baseline`` with the rows that act by the present `automate_at`; not ``is_cut``: by that of its own time."""

    baseline: Baseline
    evaluation: EvaluationConfig
    is_cut: bool = True

    def value(self, metric: str, where: Where, verdicts: Iterable[Verdict]) -> float | None:
        """The value of a metric: that of the newest of ``verdicts`` that compared with it, else that of its rows."""
        key = metric, where, self.baseline.version
        compared = [v for v in verdicts if (v.metric, v.where, v.baseline_version) == key and v.baseline is not None]
        if compared:
            return max(compared, key=lambda v: v.window.start).baseline
        return None if is_about_automated(metric, where) and not self.is_cut else self._values.get((metric, where))

    @cached_property
    def _values(self) -> dict[tuple[str, Where], float | None]:
        pinned = self.baseline
        span = Window(pinned.start, pinned.end, pinned.last_window, "weekly")
        sample = Sample(Subject(pinned.source, pinned.label), pinned.counts, pinned.edges)
        found = estimate([sample], span, self.evaluation.model_copy(update={"interval": "analytic"}))
        return {(each.metric, each.where): each.interval.value for each in found}


def compared_baseline(
    pinned: Iterable[Baseline],
    counts: Counts | None,
    read_by: Settings | None,
    source: SourceConfig | None,
    evaluation: EvaluationConfig,
    *,
    of_source: Callable[[int], Baselines],
    used: Collection[int] = (),
) -> ComparedBaseline | None:
    """The newest of a label's versions of the same numbers, of those ``used`` if there are any; None if there is none.

    ``of_source`` gives a version of all labels of the source: the rows of the source as a whole that act are theirs.
    """
    versions = comparable_versions(pinned, counts, read_by)
    found = max([b for b in versions if b.version in used] or versions, key=lambda b: b.version, default=None)
    if found is None or source is None:
        return None if found is None else ComparedBaseline(found, evaluation)
    beside = of_source(found.version) if found.label is None else {}
    cut = at_present_threshold(References({**beside, found.label: found}), source, evaluation)
    return ComparedBaseline(cut.baselines[found.label], evaluation, found.label not in cut.not_cut)
