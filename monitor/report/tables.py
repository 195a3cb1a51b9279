"""The tables of a report as plain text; the terminal and the page show the same tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isnan

from monitor.core.counts import Floats
from monitor.core.records import Estimate, Interval, ShiftResult, Subject, Where
from monitor.core.wording import and_more, clean, count_of, expected_words, title
from monitor.evaluation.shift.findings import ShiftFinding
from monitor.metrics.certainty import ClassTables
from monitor.metrics.discrimination import OF_THE_RANGE
from monitor.metrics.registry import METRICS, range_of
from monitor.recalibration.gain import choose
from monitor.recalibration.score_map import METHODS
from monitor.report import words
from monitor.report.data import TENTHS, ReportData, SubjectReport
from monitor.report.figures.reliability import ReliabilityPoint
from monitor.report.figures.scores import WIDTH, box_text
from monitor.story.label import STATE_WORDS

ESTIMATES: tuple[tuple[str, Where], ...] = (
    ("ece", "all"), ("roc_auc", "all"), ("overconfidence", "automated"),
    ("rmse", "all"), ("mae", "all"), ("r_squared", "all"),
)  # fmt: skip
"""The metrics that a report shows of every label, where there are any."""
Cell = str | Subject | Interval


@dataclass(frozen=True, slots=True)
class Element:
    """One table.

    A text comes from this program. A name from the data is a :class:`~monitor.core.records.Subject`: each output
    escapes it, and shows the segment alone where it has one. An :class:`~monitor.core.records.Interval` is a value with
    its limits. ``columns`` has a letter for each column: l is a text, r a number
    (on the right), w a text that is never wrapped, d characters that need a fixed-width font. ``note`` says how to read
    the table.
    """

    title: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    columns: str = ""
    note: str = ""


_NONE = Element("", (), ())


def of_all(data: ReportData) -> tuple[Element, ...]:
    """The tables with a line for each label, those that need somebody first; empty ones are left out."""
    made = (estimates(data), maturity(data), before_truth(data))
    return tuple(element for element in made if element.rows)


def of_one(report: SubjectReport) -> tuple[Element, ...]:
    """The tables of one label alone, its evidence; empty ones are left out."""
    points = () if report.reliability is None else report.reliability.points
    made = (
        verdicts(report), metrics(report.estimates), bins(points), risk_coverage(report), threshold(report),
        recalibration(report), boxes(report), segments(report),
        *tables_of_classes(report.subject.source, report.classes),
    )  # fmt: skip
    return tuple(element for element in made if element.rows)


def estimates(data: ReportData) -> Element:
    """The main metrics of each label, most with their intervals; columns without a value are left out."""
    shown = [key for key in ESTIMATES if any(report.value(*key) is not None for report in data.subjects)]

    def cell(report: SubjectReport, metric: str, where: Where) -> Cell:
        interval = report.interval(metric, where)
        return words.number(report.value(metric, where)) if interval is None or metric == "roc_auc" else interval

    return Element(
        "Estimates", ("label", "state", "rows", *(words.metric_name(*key) for key in shown)),
        [
            (
                report.subject, "no rule" if report.story is None else STATE_WORDS[report.story.state],
                f"{report.rows:,}", *(cell(report, *key) for key in shown),
            )
            for report in data.by_attention
        ],
        f"llr{'l' * len(shown)}", "Debiased values of this window alone, with 95% intervals.",
    )  # fmt: skip


def verdicts(report: SubjectReport) -> Element:
    """The verdicts of one label with their numbers, breaches first."""
    order = ("breach", "unconfirmed", "not_evaluated", "ok")
    return Element(
        "Verdicts", ("rule", "outcome", "reason", "value", "change", "limit", "p", "n", "verdict"),
        [
            (
                v.rule, v.outcome.replace("_", " "), v.reason.replace("_", " "), words.number(v.value),
                words.number(v.change, sign=True), words.number(v.threshold), words.p_text(v.p_adjusted), f"{v.n:,}",
                v.id[:12],
            )
            for v in sorted(report.verdicts, key=lambda v: (order.index(v.outcome), v.rule))
        ],
        "lllrrrrrl", "`calmon explain` with an id of the last column says why. p is adjusted for all that was tested.",
    )  # fmt: skip


def maturity(data: ReportData) -> Element:
    """How many items of each label have their truth, for sources that count rows without one."""
    return Element(
        "Label maturity", ("label", "items", "with a truth", "in the end", "state"),
        [
            (m.subject, f"{m.items:,}", f"{m.share:.0%}", expected_words(m), "final" if m.is_final else "provisional")
            for report in data.by_attention
            if (m := report.maturity) is not None
        ],
        "lrrll", "What is provisional is judged again when truths come: calmon docs maturity",
    )  # fmt: skip


def before_truth(data: ReportData) -> Element:
    """The waiting rows of each label, and what is expected of them."""
    rows = [
        (
            report.subject, f"{first.n:,}", "–" if (known := first.detail.get("known")) is None else f"{known:,}",
            *(report.interval(*key) or "–" for key in words.BEFORE_TRUTH),
        )
        for report in data.by_attention
        for first in report.estimates
        if (first.metric, first.where) == ("expected_accuracy", "all")
    ]  # fmt: skip
    note = (
        "Estimates, not measurements: what the baseline's calibration map says of the rows that were predicted in this "
        "window and had no truth at its end. They hold while scores mean what they meant in the baseline; where the "
        "newest judged windows have shown that they do not, the map is that of these windows."
    )
    head = ("label", "waiting", "known", *(f"expected {name}" for name in words.BEFORE_TRUTH.values()))
    return Element("Before the truth (estimates)", head, rows, f"lrr{'l' * len(words.BEFORE_TRUTH)}", note)


def segments(report: SubjectReport) -> Element:
    """One label in each segment, the largest ECE of a column first."""
    rows = [
        (
            replace(report.subject, segment=(line.column, line.value)), f"{line.rows:,}", line.ece, line.roc_auc,
            words.number(line.correlation),
        )
        for line in report.segments
    ]  # fmt: skip
    note = "Correlation: of score and outcome; where it is low, scores say little."
    return Element("By segment", ("segment", "rows", "ECE", "ROC AUC", "correlation"), rows, "lrllr", note)


def threshold(report: SubjectReport) -> Element:
    """The score from which the target accuracy is reached, and the share of rows that is left to people."""
    point = report.operating
    if point is None:
        return _NONE
    cells = [point.reason.replace("_", " "), "–", "–", "–"]
    if point.threshold is not None:
        coverage = words.share(point.coverage, point.coverage_low, point.coverage_high)
        accuracy = words.share(point.accuracy, point.accuracy_low, point.accuracy_high)
        cells = [f"{point.threshold:.4f}", coverage, words.share(point.to_people), accuracy]
    return Element(
        f"Threshold for {words.share(report.target)} accuracy",
        ("threshold", "acts alone", "people", "accuracy", "now"), [(*cells, f"{report.automate_at:.2f}")], "rrrrr",
        "The lowest score from which at least that accuracy is shown, with limits that hold although it was chosen on "
        "these rows; people: what would be left to them; now: automate_at.",
    )  # fmt: skip


def recalibration(report: SubjectReport) -> Element:
    """The ECE now, and after each map on rows that it was not fitted on; marks the chosen method, or why none is."""
    if not report.gains:
        return _NONE
    choice, before = choose(report.gains), next(iter(report.gains.values())).before.ece
    why = "no gain is shown" if choice.reason == "none_helps" else choice.reason.replace("_", " ")
    rows = [("as it is", before, "" if choice.method is not None else why)]
    for method in METHODS:
        gain = report.gains.get(method)
        if gain is not None and gain.after is not None:
            rows.append((method, gain.after.ece, "chosen" if method == choice.method else ""))
    note = "Of this window alone, on rows that no map had seen; a next step is of several: calmon docs recalibration"
    return Element("Recalibration, before and after", ("method", "ECE", ""), rows, "lll", note)


def boxes(report: SubjectReport) -> Element:
    """The scores of right and of wrong decisions: five numbers each, and the box between 0 and 1."""
    return Element(
        "Scores of right and wrong", ("", "items", " min  25%  50%  75%  max", f"0{'1':>{WIDTH - 1}}"),
        [
            (name, f"{box.weight:,.0f}", " ".join(f"{score:.2f}" for score in box.scores), box_text(box))
            for name, box in report.boxes.items()
        ],
        "wrwd", "Least score, quartiles, largest: of what was predicted, or of all where the score is confidence in "
        "the prediction. Items: rows, or what they represent by their weights.",
    )  # fmt: skip


def ranges(data: ReportData) -> Element:
    """The label x bin matrix over tenths of the scores, the same for every label, so that columns can be compared."""
    return Element(
        "Reliability by score range", ("label", *(f"to {k / TENTHS:.1f}" for k in range(1, TENTHS + 1))),
        [
            (
                report.subject,
                *(
                    f"{words.points(rate - score)} ({words.size(n)})" if w else "–"
                    for w, rate, score, n in zip(bins.w.tolist(), bins.rate.tolist(), bins.score.tolist(),
                                                 bins.n.tolist(), strict=True)
                ),
            )
            for report in data.by_attention
            if (bins := report.tenths) is not None
        ],
        f"l{'r' * TENTHS}", "Each column is a tenth of the scores: hit rate minus mean score in percentage points "
        "(rows). Negative: the scores are too high.",
    )  # fmt: skip


def metrics(estimates: Iterable[Estimate]) -> Element:
    """Every metric of one label with its interval, its textbook value and what it means."""
    rows = []
    for e in estimates:
        interval, is_known = e.interval, e.metric in METRICS
        if interval.value is not None:
            limits = words.interval(interval.low, interval.high, sign=is_known and range_of(e.metric)[0] < 0)
            # scores of a part of their range separate right from wrong less well, whatever the classifier is worth
            is_cut = e.where != "all" and e.metric in OF_THE_RANGE
            reading = METRICS[e.metric].reading(interval.value) if is_known and not is_cut else None
            numbers = words.number(interval.value), limits, words.number(interval.plug_in), f"{e.n:,}"
            rows.append((words.metric_name(e.metric, e.where), *numbers, reading or ""))
    note = "value: debiased; textbook: as its definition says. Every metric: calmon docs metrics"
    return Element(
        "All metrics", ("metric", "value", "interval", "textbook", "rows", "reading"), rows, "lrrrrl", note
    )  # fmt: skip


def bins(points: Iterable[ReliabilityPoint]) -> Element:
    """The reliability diagram of one label: a line for each bin."""
    return Element(
        "Reliability", ("scores", "rows", "mean score", "hit rate", "interval", "gap"),
        [
            (
                f"{p.lower:.4f} to {p.upper:.4f}", f"{p.n:,}", words.number(p.score), words.number(p.rate),
                words.interval(p.low, p.high), words.number(p.rate - p.score, sign=True),
            )
            for p in points
        ],
        "lrrrrr",
    )  # fmt: skip


def risk_coverage(report: SubjectReport) -> Element:
    """The share of wrong items among those that act alone, by the share that acts alone."""
    curve = report.risk_coverage
    if curve is None:
        return _NONE
    area = "" if curve.area is None else f" Area under the curve (AURC): {words.number(curve.area)}."
    return Element(
        "Risk and coverage", ("from score", "acts alone", "of it wrong", ""),
        [
            (
                "–" if point.threshold is None else f"{point.threshold:.4f}", words.share(point.coverage),
                words.share(point.risk), "chosen" if point == curve.chosen else "",
            )
            for point in curve.points
        ],
        "rrrl", f"Rows from the highest score down.{area}",
    )  # fmt: skip


def tables_of_classes(source: str, tables: ClassTables | None) -> tuple[Element, ...]:
    """The tables of one source as a whole; () where it has none."""
    if tables is None:
        return ()
    return (
        classes(source, tables),
        _matrix(source, tables, "Confusion matrix", tables.hard, _weight, "Rows: the true label; columns, by the same "
                "numbers: the highest-scored one. Items by weight."),
        _matrix(source, tables, "Confusion matrix, shares", tables.shares, words.share, "As before, each row made to "
                "add up to 100%."),
        _matrix(source, tables, "Confusion matrix of the scores (CM*)", tables.soft, _weight, "Rows: the true label; "
                "columns: the sum of the scores of each label."),
        _matrix(source, tables, "Its certain part (V)", tables.certain, _weight, "Of CM*, the highest score of each "
                "item alone."),
        _matrix(source, tables, "Its uncertain part (U)", tables.uncertain, _weight, "Of CM*, all other scores."),
        certainty(tables),
    )  # fmt: skip


def classes(source: str, tables: ClassTables) -> Element:
    """Precision, recall, F1 and support of each class."""
    return Element(
        "Classes", ("label", "no.", "precision", "recall", "F1", "support"),
        [
            (
                Subject(source, one.label), f"{place}", words.number(one.precision), words.number(one.recall),
                words.number(one.f1), _weight(one.support),
            )
            for place, one in enumerate(tables.classes, start=1)
        ],
        "lrrrrr",
        "By the highest-scored label of each item; support: how many items are truly of the label, by weight.",
    )  # fmt: skip


def certainty(tables: ClassTables) -> Element:
    """Each measure of the confusion matrix, of the scores' matrix and of its two parts."""
    return Element(
        "Certainty by measure", ("measure", "decisions", "scores (CM*)", "certain (V)", "uncertain (U)", "ratio"),
        [
            (
                METRICS[one.measure].title,
                *map(words.number, (one.hard, one.soft, one.certain, one.uncertain, one.ratio)),
            )
            for one in tables.certainty
        ],
        "lrrrrr", "ratio: V / (V + U) of the measure, its certainty ratio. docs/metrics.md#certainty_ratio",
    )  # fmt: skip


def _matrix(
    source: str, tables: ClassTables, title: str, matrix: Floats, shown: Callable[[float], str], note: str
) -> Element:
    places = [f"{place}" for place, _ in enumerate(tables.labels, start=1)]
    rows: list[tuple[Cell, ...]] = [
        (Subject(source, label), place, *("–" if isnan(value) else shown(value) for value in line))
        for place, label, line in zip(places, tables.labels, matrix.tolist(), strict=True)
    ]
    return Element(title, ("label", "no.", *places), rows, f"lr{'r' * len(places)}", note)


def _weight(value: float) -> str:
    """A weight: a whole number without decimals, any other with one.

    >>> _weight(1200.0), _weight(2.34)
    ('1,200', '2.3')
    """
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


NAMED = 5


def shift_sentence(shifts: Sequence[ShiftResult], found: Sequence[ShiftFinding]) -> str:
    """Which of the tests with a p-value found a shift; "" if no test has a p-value.

    >>> shift_sentence([], [])
    ''
    """
    tests = [shift for shift in shifts if shift.p_value is not None]
    if not tests:
        return ""
    if not found:
        return f"No shift found in {count_of(len(tests), 'test')}."
    named = and_more([_named(each.result) for each in found], NAMED)
    return f"Shift found in {len(found)} of {count_of(len(tests), 'test')}: {named}."


def _named(shift: ShiftResult) -> str:
    column = {"label": "predicted labels", "actual": "true labels", "score": "scores"}.get(shift.column, shift.column)
    of = f" of {clean(shift.subject.label)}" if shift.subject.label is not None else ""
    return f"{clean(column)}{of} ({title(shift.test)} {shift.statistic:.3g})"
