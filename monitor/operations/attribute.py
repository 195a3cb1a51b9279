"""The likely causes of a run's breaches: counts by segment, in the baseline and now, are read and compared."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.exc import InterfaceError, OperationalError

from monitor.context import Monitor
from monitor.core import windows
from monitor.core.baseline import Baseline
from monitor.core.causes import Began, Cause, Causes, as_json
from monitor.core.counts import Counts, bin_counts, pool
from monitor.core.counts_by_segment import CountsBySegment
from monitor.core.records import SEVERITY_RANK, WHERES, Subject, Verdict, Window
from monitor.core.wording import clean
from monitor.evaluation.evaluate import Evaluated
from monitor.evaluation.shift.causes import Metric, find_causes
from monitor.evaluation.shift.onset import Arrival, Level, level_of, may_have_come_with, onset
from monitor.inference.intervals import ece_intervals
from monitor.operations.collect import Collected
from monitor.warehouse.reader import WarehouseFailed, WarehouseTimeout

log = logging.getLogger(__name__)

LABELS_AT_MOST = 20
"""At most so many labels of a source have their breaches split in one run, the most severe first."""
WINDOWS_BACK, POOLED_AT_MOST = 26, 13
"""Windows searched for the onset of a change; windows of accumulated evidence that are read as one span, at most."""
NEW_VERSION, NEARLY_ALONE = 0.1, 0.9
"""The shares of a window's rows at which a model version has arrived, and has nearly replaced the others."""
_WIDTH = 2 * 1.96  # of a 95% interval, in standard deviations
_ECE = ("ece", "mce", "ace", "equal_width_ece")
_OF_OVERCONFIDENCE = ("overconfidence", "accuracy", "precision", "error_rate", "automated_accuracy", "excess_errors")


def with_causes(monitor: Monitor, source: Collected, evaluated: Evaluated) -> Evaluated:
    """The same results, with the causes of each breach of calibration in its ``detail["causes"]``.

    After a lost connection they are read once more. If they cannot be read, nothing is added and the log says why: a
    verdict never depends on its causes.
    """
    breaches = _breaches(evaluated, source.data.baselines)
    if not breaches or source.reading is None:
        return evaluated
    try:
        found = _once_more(lambda: _found(monitor, source, evaluated, breaches))
    except Exception:  # the warehouse does not answer, or odd data: the switch and the alerts must not wait
        log.exception("the causes of the breaches of %s were not found: they are reported without", evaluated.source)
        return evaluated
    dated = [
        replace(v, detail={**v.detail, "causes": as_json(found[v.id])}) if v.id in found else v
        for v in evaluated.verdicts
    ]
    return replace(evaluated, verdicts=tuple(dated))


def _found(monitor: Monitor, source: Collected, evaluated: Evaluated, breaches: Sequence[Verdict]) -> dict[str, Causes]:
    with monitor.warehouse.kept_open():
        return _Search(monitor, source, evaluated).of(breaches)


def _once_more(work: Callable[[], dict[str, Causes]]) -> dict[str, Causes]:
    """The result of ``work``, tried again after a lost connection, also the history's, but not after a time limit."""
    try:
        return work()
    except WarehouseTimeout:
        raise
    except (WarehouseFailed, OperationalError, InterfaceError):
        return work()


def _breaches(evaluated: Evaluated, baselines: Mapping[str | None, Baseline]) -> list[Verdict]:
    """The breaches that can be split: calibration of a label, compared with its baseline."""
    found = [
        v
        for v in evaluated.verdicts
        if v.outcome == "breach"
        and v.subject.label in baselines
        and v.subject.label is not None
        and v.subject.segment is None
        and v.detail.get("reference") is None
        and split_metric(v.metric) is not None
    ]
    labels = list(dict.fromkeys(v.subject.label for v in sorted(found, key=lambda v: SEVERITY_RANK[v.severity])))
    return [v for v in found if v.subject.label in labels[:LABELS_AT_MOST]]


def split_metric(metric: str) -> Metric | None:
    """The metric to split for a rule on ``metric``: "ece" or "overconfidence"; None if neither explains ``metric``.

    >>> split_metric("mce"), split_metric("accuracy"), split_metric("roc_auc")
    ('ece', 'overconfidence', None)
    """
    if metric in _ECE:
        return "ece"
    return "overconfidence" if metric in _OF_OVERCONFIDENCE else None


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for causes in one source and one run."""

    monitor: Monitor
    source: Collected
    evaluated: Evaluated

    def of(self, breaches: Sequence[Verdict]) -> dict[str, Causes]:
        """The causes of each breach, by its id."""
        found: dict[str, Causes] = {}
        before = self._baselines({v.subject.label or "" for v in breaches})
        for span, breaches_in_span in self._spans(breaches):
            now = self._read(span, {v.subject.label or "" for v in breaches_in_span})
            for verdict in breaches_in_span:
                label = verdict.subject.label or ""
                if label in now and label in before:
                    causes = self._split(verdict, now[label], before[label])
                    found |= {} if causes is None else {verdict.id: self._dated(causes, verdict, before[label])}
        return found

    def _split(self, verdict: Verdict, now: CountsBySegment, then: CountsBySegment) -> Causes | None:
        label, metric, evaluation = verdict.subject.label, split_metric(verdict.metric), self.monitor.config.evaluation
        if metric is None:
            raise AssertionError("such a breach is not split")
        baseline = self.source.data.baselines[label]
        return find_causes(
            _dependent(now, self.source.data.current.labels.get(label)),
            _dependent(then, baseline.counts),
            metric=metric,
            where=verdict.where,
            edges=baseline.edges[verdict.where],
            rate=evaluation.false_discovery_rate,
            confidence=evaluation.confidence,
        )

    # --- reading

    def _spans(self, breaches: Sequence[Verdict]) -> list[tuple[Window, list[Verdict]]]:
        """Each span of pooled windows, with the breaches found in it."""
        window, zone = self.evaluated.window, self.monitor.config.zone
        by_depth: dict[int, list[Verdict]] = {}
        for verdict in breaches:
            by_depth.setdefault(min(max(1, verdict.windows), POOLED_AT_MOST), []).append(verdict)
        firsts = {depth: [window, *windows.before(window, depth - 1, zone)][-1].start for depth in by_depth}
        return [(replace(window, start=firsts[depth]), of) for depth, of in sorted(by_depth.items())]

    def _read(self, span: Window, labels: Iterable[str]) -> Mapping[str, CountsBySegment]:
        name, monitor = self.source.data.name, self.monitor
        edges = {label: _fine_edges(self.source.data.baselines[label]) for label in sorted(labels)}
        return monitor.warehouse.by_segment(name, monitor.config.sources[name], span, edges, now=monitor.clock())

    def _baselines(self, labels: Iterable[str]) -> dict[str, CountsBySegment]:
        """The baselines' counts by segment, by label. Labels that were pinned on the same weeks are read together."""
        by_span: dict[Window, list[str]] = {}
        for label in labels:
            baseline = self.source.data.baselines[label]
            span = Window(baseline.start, baseline.end, baseline.last_window, self.evaluated.window.schedule)
            by_span.setdefault(span, []).append(label)
        return {
            label: counts
            for span, labels_of_span in by_span.items()
            for label, counts in self._read(span, labels_of_span).items()
        }

    # --- when it began

    def _dated(self, causes: Causes, verdict: Verdict, then: CountsBySegment) -> Causes:
        """The same causes with the onset of the change, and with the onset of each cause that has its own series.

        A value that all rows have now is a cause only if the change may have begun with it. If another model version
        came with it, that version is the cause. Where it is not known when the change began, since too few windows are
        stored, the value is a cause only if the judged window follows the baseline.
        """
        follows = verdict.window.start <= self.source.data.baselines[verdict.subject.label].end
        began, arrivals = self._began(causes.metric, verdict, verdict.subject, then)
        dated: list[Cause] = []
        for cause in causes.causes:
            if cause.kind == "replaced" and not (began is None and follows):
                dated += [] if began is None else self._replaced(cause, verdict, began, arrivals)
                continue
            segment = cause.segment[0] if len(cause.segment) == 1 and cause.kind == "rate" else None
            onset_of_cause = None
            if segment is not None:
                onset_of_cause, _ = self._began(causes.metric, verdict, replace(verdict.subject, segment=segment), then)
            dated.append(replace(cause, began=onset_of_cause))
        return replace(causes, began=began, causes=tuple(dated))

    def _replaced(self, cause: Cause, verdict: Verdict, began: Began, arrivals: Mapping[str, Arrival]) -> list[Cause]:
        """The cause with the window in which its value arrived; if that does not fit, the version that came then.

        That one had nearly all rows for a time: only then does the change of all rows since the baseline speak of it.
        """
        column, value = cause.segment[0]
        if column != "model_version":
            first = self._first_seen(verdict, (column, value))
            return [cause] if first is None or began.low <= first <= began.window else []
        fitting = {version: each for version, each in arrivals.items() if may_have_come_with(each, began)}
        named = [value] if value in fitting else [version for version, each in fitting.items() if each.complete][-1:]
        onset_alone = replace(began, events=())
        return [
            replace(cause, segment=((column, version),), began=onset_alone, arrived=fitting[version].window)
            for version in named
        ]

    def _first_seen(self, verdict: Verdict, segment: tuple[str, str]) -> str | None:
        """The first window since the baseline with an estimate of a segment."""
        series = self._series("overconfidence", verdict, replace(verdict.subject, segment=segment))
        return series[0].window if series else None

    def _began(
        self, metric: Metric, verdict: Verdict, subject: Subject, then: CountsBySegment
    ) -> tuple[Began | None, Mapping[str, Arrival]]:
        """The onset in the windows since the baseline, from stored estimates, and the model versions that came then.

        (None, {}) if there are too few windows.
        """
        series = self._series(metric, verdict, subject)
        found = onset(self._level_before(metric, verdict, subject, then), series) if len(series) > 1 else None
        if found is None:
            return None, {}
        if subject.segment is None:
            found = self._with_unmeasured(found, series, subject)
        arrivals = self._arrivals(found, then, subject)
        events = [
            f"model version {clean(version, 40)} arrived ({arrival.window})"
            for version, arrival in arrivals.items()
            if arrival.window >= found.low
        ]
        return replace(found, events=(*events, *self._noted(found, subject))), arrivals

    def _with_unmeasured(self, began: Began, series: Sequence[Level], subject: Subject) -> Began:
        """The same onset, which may also lie in the windows without a level just before the first possible one."""

        def unmeasured(name: str) -> str:
            zone, schedule = self.monitor.config.zone, self.evaluated.window.schedule
            at = [level.window for level in series].index(name)
            known_until = self.source.data.baselines[subject.label].end
            if at:
                known_until = windows.named(schedule, series[at - 1].window, zone).end
            return min(windows.containing(schedule, known_until, zone).name, name)

        return replace(began, low=unmeasured(began.low), earliest=began.earliest and unmeasured(began.earliest))

    def _noted(self, began: Began, subject: Subject) -> Iterator[str]:
        """Annotations from the time in which the change may have begun, and the baseline if it was pinned then."""
        first, last = self._span_of(began)
        for note in self.monitor.store.annotations(subject.source, subject.label):
            if first.start <= note.at < last.end:
                yield f'{clean(note.added_by, 40)} noted "{clean(note.text, 120)}" ({note.at:%Y-%m-%d})'
        baseline = self.source.data.baselines[subject.label]
        if first.start <= baseline.pinned_at < last.end:
            yield f"the baseline was pinned ({baseline.pinned_at:%Y-%m-%d})"

    def _span_of(self, began: Began) -> tuple[Window, Window]:
        """The first and the last window in which the change may have begun."""
        zone, schedule = self.monitor.config.zone, self.evaluated.window.schedule
        return windows.named(schedule, began.low, zone), windows.named(schedule, began.high, zone)

    def _series(self, metric: Metric, verdict: Verdict, subject: Subject) -> list[Level]:
        """The levels of the windows after the baseline, oldest first, the judged one last."""
        window, zone = verdict.window, self.monitor.config.zone
        first = windows.before(window, WINDOWS_BACK, zone)[-1].start
        where = verdict.where if subject.segment is None else WHERES[0]
        stored = self.monitor.store.estimates(
            metric=metric,
            source=subject.source,
            label=subject.label,
            where=where,
            schedule=window.schedule,
            segments=subject.segment is not None,
            between=(first, window.start),
        )
        known = [e for e in stored if e.window.start < window.start]
        known += [e for e in self.evaluated.estimates if (e.metric, e.where) == (metric, where)]
        after = self.source.data.baselines[subject.label].end
        levels = (
            level_of(e.window.name, e.interval) for e in known if e.subject == subject and e.window.start >= after
        )
        return [level for level in levels if level is not None]

    def _level_before(self, metric: Metric, verdict: Verdict, subject: Subject, then: CountsBySegment) -> Level | None:
        """The metric's level in the baseline; for a segment without a row there, that of all rows of its label."""
        baseline = self.source.data.baselines[subject.label]
        if subject.segment is None:
            return _level_of(baseline.counts.where(verdict.where), metric, baseline.edges[verdict.where])
        column, value = subject.segment
        parts = [c for key, c in then.parts.items() if dict(zip(then.columns, key, strict=True))[column] == value]
        return _level_of(pool(parts) if parts else baseline.counts, metric, baseline.edges["all"])

    def _arrivals(self, began: Began, then: CountsBySegment, subject: Subject) -> dict[str, Arrival]:
        """The model versions that arrived from the window before the first possible one to the last, oldest first.

        Left out is a version that may have come earlier, in a window before its first one that was not read.
        """
        zone, baseline_end = self.monitor.config.zone, self.source.data.baselines[subject.label].end
        first, last = self._span_of(began)
        since = windows.previous(first, zone)
        found: dict[str, Arrival] = {}
        seen, is_known = _versions_of(then), False
        for window in [windows.previous(since, zone), *windows.span(since, last, zone)][-WINDOWS_BACK:]:
            shares = self._shares_of_versions(window)
            arrived = {version for version, share in shares.items() if share >= NEW_VERSION} - seen
            found |= {version: Arrival(window.name, "") for version in sorted(arrived) if is_known}
            seen |= arrived
            is_known = bool(shares) or window.end <= baseline_end
            for version, arrival in found.items():
                if not arrival.complete and shares.get(version, 0.0) >= NEARLY_ALONE:
                    found[version] = replace(arrival, complete=window.name)
        return found

    def _shares_of_versions(self, window: Window) -> dict[str, float]:
        """The share of a window's rows that each model version has; empty if the window was not read."""
        reading = self.monitor.store.load_reading(window.schedule, window.start, self.source.data.name)
        rows = {} if reading is None else reading.versions
        return {version: count / sum(rows.values()) for version, count in rows.items()}


def _versions_of(spans: CountsBySegment) -> set[str]:
    if "model_version" not in spans.columns:
        return set()
    at = spans.columns.index("model_version")
    return {key[at] for key in spans.parts}


def _dependent(spans: CountsBySegment, whole: Counts | None) -> CountsBySegment:
    """The parts with the design effects of the whole label."""
    if whole is None:
        return spans
    parts = {
        key: replace(part, design_effect=whole.design_effect, acting_effects=whole.acting_effects)
        for key, part in spans.parts.items()
    }
    return replace(spans, parts=parts)


def _fine_edges(baseline: Baseline) -> tuple[int, ...]:
    """All edges of all populations, so that each of their bins is a union of these finer bins."""
    return tuple(sorted({edge for where in WHERES for edge in baseline.edges[where]}))


def _level_of(counts: Counts, metric: Metric, edges: Sequence[int]) -> Level | None:
    if metric == "ece":
        found = ece_intervals([bin_counts(counts, edges)], [], form="analytic")[0]
        if found.value is None or found.low is None or found.high is None:
            return None
        return Level("baseline", found.value, ((found.high - found.low) / _WIDTH) ** 2)
    if not counts.effective_rows > 0:
        return None
    total = float(counts.w.sum())
    value = float(counts.ws.sum() - counts.wy.sum()) / total
    spread = float((counts.ws2 - 2 * counts.wsy + counts.wy).sum()) / total - value**2
    return Level("baseline", value, max(spread, 1e-6) / counts.effective_rows)
