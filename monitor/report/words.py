"""Numbers and names as text, the same on the page, in Markdown and in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

from monitor.core.records import (
    AUDIT_DIFFERS,
    DELAYS_FAILED,
    IN_NO_WINDOW,
    JOIN_ODD,
    LABELS_DIFFER,
    RARE_LABELS,
    ROWS_DELETED,
    ROWS_REPLACED,
    TRUTHS_BIASED,
    TRUTHS_SCARCE,
    UNRESOLVED_FAILED,
    WAITING_UNUSABLE,
    Estimate,
    Interval,
    RejectedRows,
    Replica,
    ShiftResult,
    Subject,
    Where,
    Window,
    parts_not_read,
    rows_before,
    rows_left,
)
from monitor.core.wording import EMPTY, and_more, clean, count_of, isolated, percent, title
from monitor.metrics.names import EXPECTED

_LOSS = "log loss"  # shorter than the name that sentences use


def metric_name(metric: str, where: str = "all") -> str:
    """The name of a metric, with its population unless that is all rows.

    >>> metric_name("overconfidence", "automated"), metric_name("cohens_d"), metric_name("nll_at_3")
    ('overconfidence (automated)', "Cohen's d", 'log loss@3')
    """
    name = title(metric).replace(title("nll"), _LOSS)
    return name if where == "all" else f"{name} ({where})"


def number(value: float | None, *, sign: bool = False) -> str:
    """A number with three decimals; an en dash for None.

    >>> number(0.04321), number(None), number(0.02, sign=True), number(-0.0001, sign=True)
    ('0.043', '–', '+0.020', '−0.000')
    """
    if value is None:
        return "–"
    return (f"{value:+.3f}" if sign else f"{value:.3f}").replace("-", "−")


def interval(low: float | None, high: float | None, *, sign: bool = False) -> str:
    """``0.031 to 0.058``, or nothing where there is no interval."""
    return "" if low is None or high is None else f"{number(low, sign=sign)} to {number(high, sign=sign)}"


def segment(subject: Subject) -> str:
    """The segment of a subject; "" if it has none.

    >>> segment(Subject("tickets", "billing", ("channel", "web")))
    'channel = web'
    """
    return "" if subject.segment is None else " = ".join(isolated(each) or EMPTY for each in subject.segment)


def measured(found: Interval | None) -> str:
    """A number with its limits, in one line.

    >>> measured(Interval(0.041, 0.031, 0.058, 0.05)), measured(Interval(0.9, None, None, 0.9)), measured(None)
    ('0.041 (0.031–0.058)', '0.900', '–')
    """
    if found is None or found.value is None:
        return "–"
    limits = interval(found.low, found.high).replace(" to ", "–")
    return f"{number(found.value)} ({limits})" if limits else number(found.value)


def share(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A share in per cent, with its limits.

    >>> share(0.614, 0.58, 0.652), share(0.0213), share(None)
    ('61% (58%–65%)', '2.1%', '–')
    """
    if value is None:
        return "–"
    return percent(value) if low is None or high is None else f"{percent(value)} ({percent(low)}–{percent(high)})"


def points(value: float | None) -> str:
    """A difference in whole percentage points with its sign; zero has no sign.

    >>> points(0.021), points(-0.114), points(0.001), points(None)
    ('+2', '−11', '0', '–')
    """
    if value is None:
        return "–"
    rounded = round(100 * value)
    return f"{rounded:+d}".replace("-", "−") if rounded else "0"


def size(rows: int) -> str:
    """A number of rows in at most four characters; from 1,000 on in whole thousands or millions.

    >>> size(167), size(1_240), size(340_000), size(12_400_000)
    ('167', '1k', '340k', '12M')
    """
    if rows < 1_000:
        return str(rows)
    return f"{round(rows / 1e3)}k" if rows < 999_500 else f"{round(rows / 1e6)}M"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Names in a sentence, at most ``most`` of them.

    >>> listed(["a", "b", "c"], 2), listed([])
    ('a, b and 1 more', 'none')
    """
    return and_more([clean(name) for name in names], most) or "none"


_PARTS = {
    DELAYS_FAILED: "when the truths of its items came",
    UNRESOLVED_FAILED: "the items whose truth is not known yet",
}


def rejected_words(quality: Iterable[RejectedRows]) -> Iterator[str]:
    """The rejected rows of each source by reason: those of the window, then those that lay in none when it was read.

    >>> list(rejected_words([RejectedRows("mail", "date_in_future", 7), RejectedRows("mail", "duplicate", 1)]))
    ['mail: 1 row rejected (1 duplicate)', 'mail: 7 rows of the whole relation are in no window (7 date in future)']
    """
    counted = sorted((each for each in quality if each.rows), key=lambda each: -each.rows)
    for source in sorted({each.source for each in counted}):
        mine = [each for each in counted if each.source == source]
        undated = [each for each in mine if each.reason in IN_NO_WINDOW]
        of_window = [each for each in mine if each not in undated]
        for rejected, said in ((of_window, "rejected"), (undated, "of the whole relation are in no window")):
            reasons = ", ".join(f"{each.rows:,} {each.reason.replace('_', ' ')}" for each in rejected)
            rows = count_of(sum(each.rows for each in rejected), "row")
            if rejected:
                yield f"{clean(source)}: {rows} {said} ({reasons})"


def left_out_words(shifts: Iterable[ShiftResult]) -> Iterator[str]:
    """Which parts of a run failed alone, and why."""
    what = {
        "features": "The features of {} could not be compared",
        "page": "{} has no page about its features",
        "diagnosis": "The labels of {} could not be diagnosed, so what is wrong is only in the verdicts",
    }
    for shift in shifts:
        if shift.column == "*" and shift.test in what:
            why = clean(str(shift.detail.get("reason", "")), length=300)
            yield f"{what[shift.test].format(clean(shift.subject.source))}: {why}"


def reading_words(source: str, quality: Sequence[RejectedRows]) -> Iterator[str]:
    """What is to be known of the rows that were read: what could not be, what is gone, and what is odd about labels."""
    for part, each in sorted(parts_not_read(quality).items()):  # those of old have lost their examples
        why = f": {clean(str(each.examples[0]['why']), length=300)}" if each.examples else ""
        yield f"{clean(source)} was judged on its counts, but {_PARTS[part]} could not be read ({part}){why}"
    if before := rows_before(quality):
        had = f"{clean(source)} had {count_of(before, 'row')} of this window when it was read before"
        yield f"{had}, and {rows_left(quality):,} when it was read last"
    # which windows keep what was measured, since the warehouse has fewer of their rows now; which have other rows
    for note in (each for each in quality if each.reason in (ROWS_DELETED, ROWS_REPLACED)):
        for window in note.examples:
            before, now = int(str(window["before"])), int(str(window["now"]))
            gone = f"{before - now:,} of {count_of(before, 'row')} of {window['window']}"
            yield (
                f"At least {gone} are gone or have another score now, beside new rows: the numbers are of what is "
                "there."
                if note.reason == ROWS_REPLACED
                else f"The warehouse no longer holds {gone}: what was measured of them stays."
            )
    yield from labels_words(source, quality)


_OF_LABELS = (JOIN_ODD, LABELS_DIFFER, RARE_LABELS, AUDIT_DIFFERS, TRUTHS_BIASED, TRUTHS_SCARCE, WAITING_UNUSABLE)


def labels_words(source: str, quality: Iterable[RejectedRows]) -> Iterator[str]:
    """What is odd about the truths of labels, which labels are not judged one by one, and which rows wait unusable."""
    for note in (each for each in quality if each.source == source and each.reason in _OF_LABELS):
        yield from (f"{clean(source)}: {example['why']}." for example in note.examples)


def p_text(value: float | None) -> str:
    """A p-value, never rounded to zero.

    >>> p_text(0.012), p_text(1e-9), p_text(None)
    ('0.012', '<0.0001', '–')
    """
    if value is None:
        return "–"
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def window_text(window: Window, zone: tzinfo) -> str:
    """``9 Nov 2026 to 15 Nov 2026``, both days included, in ``zone``; one date for a single day."""
    first, last = day_text(window.start, zone), day_text(window.end - timedelta(seconds=1), zone)
    return first if first == last else f"{first} to {last}"


def day_text(moment: datetime, zone: tzinfo) -> str:
    """``9 Nov 2026`` in ``zone``."""
    local = moment.astimezone(zone)
    return f"{local.day} {local:%b %Y}"


def replica_text(replica: Replica, zone: tzinfo) -> str:
    """What a reader of a read replica must know.

    >>> from datetime import UTC
    >>> replica_text(Replica(datetime(2026, 11, 16, 12, tzinfo=UTC)), UTC)[:91]
    'This history is a read replica. The newest change in it was made on 16 Nov 2026 12:00 (UTC)'
    """
    known = f" The newest change in it was made on {moment_text(replica.changed_at, zone)} ({zone})."
    newest = known if replica.changed_at else " When the newest change in it was made is not known."
    return (
        f"This history is a read replica.{newest} Later changes are not shown here, a label that is shown as on may be "
        "off, every gate that asks here gets a no, and nothing can be changed here."
    )


def moment_text(moment: datetime | None, zone: tzinfo) -> str:
    """``9 Nov 2026 14:05`` in ``zone``."""
    return "–" if moment is None else f"{day_text(moment, zone)} {moment.astimezone(zone):%H:%M}"


BEFORE_TRUTH: Mapping[tuple[str, Where], str] = {
    ("expected_accuracy", "all"): "accuracy",
    ("expected_overconfidence", "automated"): "overconfidence (automated)",
    ("expected_ece", "all"): "ECE",
}
"""The estimates that are shown first, and what each of them estimates."""
MEASURED: Mapping[tuple[str, Where], tuple[str, Where]] = {
    ("ece", "all"): ("expected_ece", "all"),
    ("overconfidence", "automated"): ("expected_overconfidence", "automated"),
}
"""Measured series, and the estimate that is drawn beside each."""


def before_truth_words(estimates: Iterable[Estimate]) -> str:
    """What is expected of the waiting rows of one subject; "" if there is no estimate, or none that is news.

    Where the newest judged windows have shown that scores no longer mean what they did, that is the news.
    """
    found = {(e.metric, e.where): e for e in estimates if e.metric in EXPECTED}
    first = found.get(("expected_accuracy", "all"))
    if first is None or first.detail.get("refuted"):
        return ""
    values = []
    for key, name in BEFORE_TRUTH.items():
        if key in found:
            expected = found[key].interval
            limits = f"{percent(expected.value)} ({percent(expected.low)} to {percent(expected.high)})"
            values.append(f"{name} {limits if key[0] == 'expected_accuracy' else measured(expected)}")
    waiting = f"{count_of(first.n, 'row')} had no truth at the end of {first.window.name}"
    return f"{waiting}; expected, an estimate: {', '.join(values)}"
