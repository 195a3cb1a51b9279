"""Describes the data of a source in words, and where they contradict its configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from monitor.config.model import Config, SourceConfig
from monitor.config.problems import closest
from monitor.config.relation import is_files
from monitor.core.records import IN_NO_WINDOW, RejectedRows, RejectReason
from monitor.core.rejection import Read, rejections
from monitor.core.rejection_words import sentence
from monitor.core.wording import LABEL_LENGTH, and_more, clean, count_of, from_to
from monitor.operations.audited import doubts_about_acting
from monitor.operations.collect import with_whole
from monitor.warehouse.dates import in_words, remedy_for
from monitor.warehouse.examination import Join
from monitor.warehouse.label_names import doubts_about_join, doubts_about_labels
from monitor.warehouse.parquet_types import hidden_files
from monitor.warehouse.reader import Reading, Warehouse
from monitor.warehouse.survey import Survey

SHOWN_LABELS = 8
SHOWN_EXAMPLES = 3
ENOUGH_TRUTHS = 50
"""With fewer truths than this it means nothing that none is positive."""


@dataclass(frozen=True, slots=True)
class Description:
    """Sentences about all data, the last ready window, and what contradicts the configuration."""

    data: str
    window: str
    doubts: tuple[str, ...]
    survey: Survey


def describe(warehouse: Warehouse, name: str, source: SourceConfig, reading: Reading) -> Description:
    """Describe a source: its whole relation, and ``reading``, its last ready window. Raises the errors of a reading."""
    survey, found = warehouse.survey(name, source), warehouse.examine(name, source)
    rows = warehouse.unresolved(name, source, reading.window) if source.unresolved else None
    doubts = (
        *doubts_about(source, survey), *_doubts_about_reading(source, survey, reading, found.join),
        *doubts_about_labels(found, files=all(map(is_files, source.relations))),
        *(() if rows is None else doubts_about_acting(rows)),
    )  # fmt: skip
    joined = ""
    if (join := found.join) is not None:
        several = f", {join.several:,} have several" if join.several else ""
        predictions = count_of(join.predictions, "prediction")
        joined = f"; of {predictions} {join.one:,} have one truth, {join.none:,} none{several}"
    return Description(f"{data_in_words(survey)}{joined}", window_in_words(reading), doubts, survey)


def data_in_words(survey: Survey) -> str:
    """The number of rows and labels, the dates and the time zone, in words.

    >>> from datetime import UTC
    >>> day = datetime(2026, 11, 2, tzinfo=UTC)
    >>> data_in_words(Survey(1200, 1200, 3, day, day, 0, None, False, .1, 1.0, 1200, 900, True))
    '1,200 rows, 3 labels, from 2026-11-02 to 2026-11-02, dates without a time zone (read as UTC)'
    """
    if not survey.rows:
        return "no rows"
    labels = "" if not survey.labels else f", {count_of(survey.labels, 'label')}"
    if survey.first is None or survey.last is None:
        return f"{count_of(survey.rows, 'row')}{labels}, no date that can be read"
    zone = "dates with a time zone" if survey.zone else "dates without a time zone (read as UTC)"
    text = f"{count_of(survey.rows, 'row')}{labels}, from {_day(survey.first)} to {_day(survey.last)}, {zone}"
    text += f"; {survey.replaced:,} more replaced by a newer row of their item" if survey.replaced else ""
    text += "; weight is read, and rows count by it" if survey.has_weight else ""
    return text + ("; cluster is read, and rows of one cluster are not independent" if survey.has_cluster else "")


def window_in_words(reading: Reading) -> str:
    """Rows by label, and the rejected share by reason with examples, in words."""
    by_volume = sorted(reading.labels.items(), key=lambda pair: (-pair[1].rows, pair[0]))
    labels = [f"{clean(label)} {counts.rows:,}" for label, counts in by_volume[:SHOWN_LABELS]]
    more = len(by_volume) - SHOWN_LABELS
    if more > 0:
        span = from_to(by_volume[-1][1].rows, by_volume[SHOWN_LABELS][1].rows)
        labels.append(f"and {more} more {'label' if more == 1 else 'labels'} with {span} rows")
    sentence = count_of(reading.rows, "row") + (f": {', '.join(labels)}" if labels else "")
    return "; ".join([sentence, *_rejected(reading.quality, reading.rows)])


def not_judged(reading: Reading, source: SourceConfig, most: float) -> str:
    """Which labels a run would not judge because of rejected rows or a constant column, and what to do; "" if none.

    ``most`` is ``max_rejected``. No baseline is known here, by which a run might find a constant truth likely enough.
    """
    repeated = sum(each.rows for each in reading.quality if each.reason == RejectReason.DUPLICATE)
    read = Read(reading.rejected, with_whole(reading).labels, reading.rows, repeated, source.kind != "regression")
    return sentence(rejections(read, {}, most))


def unseen_labels(config: Config, seen: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """(where, a sentence) for each label that alerts.yaml names and no row of the last week has.

    ``seen`` has the labels of that week by source; a source that could not be read is not in it, and says nothing.
    """
    for where, key, label, sources in _named_labels(config):
        known = {each for name in sources for each in seen.get(name, ())}
        if all(name in seen for name in sources) and label not in known:
            near = closest(label, sorted(known))
            hint = f": is it {clean(near)!r}?" if near else ""
            yield where, f"{key} names the label {clean(label)!r}, which no row of the last week has{hint}"


def _named_labels(config: Config) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """(where, key, label, sources that may have it) of every label that alerts.yaml names."""
    every = tuple(config.sources)
    for name, source in config.sources.items():
        yield from ((f"source {name}", "labels", label, (name,)) for label in source.labels)
    rules = [(f"rule {r.id}", label, r.match.source) for r in config.rules for label in (r.match.label, *r.match.but)]
    routes = [(f"route {number}", each.match.label, each.match.source) for number, each in enumerate(config.routes, 1)]
    for where, label, only in (*rules, *routes):
        if label is not None:
            yield where, "match", label, (only,) if only else every


def _rejected(quality: Sequence[RejectedRows], kept: int) -> Iterator[str]:
    for each in (each for each in quality if each.rows):
        key, length = ("line", 200) if each.reason == RejectReason.LINE_UNREADABLE else ("item", LABEL_LENGTH)
        found = (example.get(key) for example in each.examples[:SHOWN_EXAMPLES])
        items = [clean(name, length) for name in found if name]
        named = f" ({', '.join(items)})" if items else ""
        if each.reason in IN_NO_WINDOW:  # such rows belong to no window, so no share can be given
            yield f"in all of the relation {each.rows:,} rejected as {each.reason}{named}"
        else:
            share = each.rows / (kept + each.rows)
            yield f"{each.rows:,} rejected ({share:.1%}) as {each.reason}{named}"


def doubts_about(source: SourceConfig, survey: Survey) -> Iterator[str]:
    """Each contradiction of data and configuration, with the line to write."""
    if not survey.rows:
        yield "there is no row: nothing can be evaluated"
        return
    yield from _doubts_about_scores(source, survey)
    yield from _doubts_about_truths(source, survey)
    if survey.unread:
        yield _doubt_about_dates(source, survey)
    alone = survey.items == survey.rows and source.kind in ("multilabel", "multiclass", "top_k")
    if alone and not survey.has_predicted and survey.labels > 1:
        yield (
            "there is one row an item and no column predicted, so a row with a score below .5 counts as not predicted: "
            "if the label is the one that was given, write kind: single_label (docs/shapes.md)"
        )


def _doubt_about_dates(source: SourceConfig, survey: Survey) -> str:
    example = f" ({clean(survey.unread_example)})" if survey.unread_example else ""
    dates = f"{survey.unread:,} of {survey.rows:,} dates{example}"
    column = source.columns.get(source.window_on, source.window_on)
    given = {source.columns.get(name, name).casefold(): kind for name, kind in source.types.items() if "%" in kind}
    if column.casefold() in given:
        return f"{dates} do not fit {given[column.casefold()]}, the pattern in types, and these rows are rejected"
    file = any(is_files(relation) for relation in source.relations)
    remedy = remedy_for(survey.unread_example, column, survey.engine, is_text=survey.in_text, file=file)
    return f"{dates} are {in_words(survey.unread_example)}, and these rows are rejected: {remedy}"


def _doubts_about_scores(source: SourceConfig, survey: Survey) -> Iterator[str]:
    greatest = survey.greatest
    if greatest is None:
        return
    percent = "; if these alone are percentages, divide them by 100 in a SELECT" if greatest > 10 else ""
    if source.score_scale == 1 and percent and greatest <= 100 and survey.above > survey.rows / 2:
        yield f"scores go up to {greatest:g}: if they are in percent, write score_scale: 100"
    elif survey.above:
        yield (
            f"{survey.above:,} of {survey.rows:,} scores are above 1 (up to {greatest!r}), and these rows are "
            f"rejected: find out how they are made{percent}"
        )
    if source.score_scale > 1 and 0 < greatest * source.score_scale <= 1:
        written = greatest * source.score_scale
        yield f"no score is above {written:g}, so score_scale: {source.score_scale:g} does not fit: leave it out"


def _doubts_about_truths(source: SourceConfig, survey: Survey) -> Iterator[str]:
    if source.kind == "regression":
        return
    if not survey.truths:
        yield "no row has a truth (all are NULL or empty): nothing can be evaluated until some have"
    elif not survey.hits and survey.truths >= ENOUGH_TRUTHS:
        cause = "of another spelling than the labels" if source.kind == "single_label" else "written in other words"
        hint = ": give its words with positive" if source.positive or source.kind != "single_label" else ""
        yield f"no truth of {survey.truths:,} is positive: they may be {cause}{hint}"


def _doubts_about_reading(source: SourceConfig, survey: Survey, reading: Reading, join: Join | None) -> Iterator[str]:
    """An empty window, hidden files, a join that finds nothing, and newest rows that contradict each other."""
    lost = sum(each.rows for each in reading.quality if each.reason not in IN_NO_WINDOW)
    if survey.last is not None and not reading.rows and not lost:
        yield f"no row is of {reading.window.name}; the newest is of {_day(survey.last)}"
    for pattern in filter(is_files, source.relations):
        if hidden := hidden_files(pattern):
            names = and_more([clean(Path(path).name) for path in hidden], SHOWN_EXAMPLES)
            yield f"{count_of(len(hidden), 'hidden file')} of {pattern} left out: {names}"
    if join is not None and not (join.several and source.latest_by):
        yield from doubts_about_join(join)
    if survey.ties:
        yield (
            f"{count_of(survey.ties, 'item')} with several newest rows by {', '.join(source.latest_by)} that say "
            "different things, of which one is taken by its value: name a column in latest_by that orders them"
        )


def _day(moment: datetime) -> str:
    return moment.date().isoformat()
