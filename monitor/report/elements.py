"""The tables of a report as plain text; the terminal and Markdown show the same tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isnan

from monitor.core.records import Estimate, Subject
from monitor.core.wording import expected_words
from monitor.inference.selective import OperatingPoint
from monitor.metrics.calibration import GapMatrix
from monitor.metrics.registry import METRICS, range_of
from monitor.recalibration.choice import ece_gain
from monitor.recalibration.score_map import METHODS, Method
from monitor.report import words
from monitor.report.class_elements import of_classes
from monitor.report.conclusions import level_after
from monitor.report.data import ReportData, SubjectReport
from monitor.report.detail import Detail
from monitor.report.element import Cell, Element
from monitor.report.expected import before_truth
from monitor.report.figures.boxes import box_text
from monitor.report.figures.reliability import ReliabilityPoint

BOX_WIDTH = 18
RANGE_WIDTH = 4
COVERAGES = tuple(k / 10 for k in range(1, 11))


Detailed = tuple[SubjectReport, Detail]


def of_all(data: ReportData) -> tuple[Element, ...]:
    """The elements with a line for each label, labels that need attention first; empty elements are left out."""
    found = [(report, report.detail) for report in data.by_attention if report.detail is not None]
    seen = (advice(found), levels(found), calibration(found), decisions(found), numbers(found), before_truth(found))
    better = (automation(found, data), thresholds(found, data.target), recalibration(found))
    made = (maturity(data), *seen, *better, boxes(found), gaps(found, data.gaps), ranges_in_lines(found, data.ranges))
    return tuple(element for element in made if element.rows)


def maturity(data: ReportData) -> Element:
    """How many items of each label have their truth, for sources that count rows without one."""
    known = [report.maturity for report in data.by_attention if report.maturity is not None]
    rows = [
        (m.subject, f"{m.items:,}", f"{m.share:.0%}", expected_words(m), "final" if m.is_final else "provisional")
        for m in known
    ]
    head = ("label", "items", "with a truth", "in the end", "state")
    note = "What is provisional is judged again when truths come: docs/maturity.md"
    return Element("Label maturity", head, tuple(rows), frozenset({1, 2}), note=note)


def of_selection(data: ReportData) -> tuple[Element, ...]:
    """The elements that a page shows as tables of all labels: automation, better thresholds, recalibration."""
    found = [(report, report.detail) for report in data.by_attention if report.detail is not None]
    better = (before_truth(found), automation(found, data), thresholds(found, data.target), recalibration(found))
    made = (maturity(data), *better, ranges(found, data.ranges))
    return tuple(element for element in made if element.rows)


def of_one(report: SubjectReport) -> tuple[Element, ...]:
    """The elements that have many lines for one label; empty ones are left out."""
    found = (*apart_from_segments(report), segments(report))
    return tuple(element for element in found if element.rows)


def apart_from_segments(report: SubjectReport) -> tuple[Element, ...]:
    """The same without the segments, which a page shows in a table of their class_tables."""
    if report.detail is None:
        return ()
    points = () if report.reliability is None else report.reliability.points
    class_tables = of_classes(report.subject.source, report.detail.classes)
    elements = (metrics(report.detail.estimates), bins(points), risk_coverage(report.detail), *class_tables)
    return tuple(element for element in elements if element.rows)


def segments(report: SubjectReport) -> Element:
    """One label in each segment, the largest ECE of a column first."""
    rows = []
    for line in report.segments:
        subject = replace(report.subject, segment=(line.column, line.value))
        rows.append((subject, f"{line.rows:,}", line.ece, line.roc_auc, words.number(line.correlation)))
    head = ("segment", "rows", "ECE", "ROC AUC", "correlation")
    note = "Correlation: of score and outcome; where it is low, scores say little."
    return Element("By segment", head, tuple(rows), frozenset({1, 4}), note=note)


def advice(found: Iterable[Detailed]) -> Element:
    """What the verdicts of each label ask for, one line each, with the rules and outcomes it comes from."""
    rows = [
        (report.subject, one.reason, one.sentence, ", ".join(one.basis) or "–")
        for report, detail in found
        for one in detail.conclusion.advice
    ]
    note = "From the verdicts of this window alone. Every reason: docs/conclusions.md"
    return Element("What to do", ("label", "reason", "what to do", "because"), tuple(rows), note=note)


def levels(found: Iterable[Detailed]) -> Element:
    """The handbook's level of the numbers with its reasons and bands: no verdict, and no advice."""
    rows = []
    for report, detail in found:
        level, bands = detail.conclusion.level, detail.conclusion.bands
        because = ", ".join(reason for reason in detail.conclusion.reasons if reason != level)
        text = f"{level}: {because}" if because else level
        rows.append((report.subject, text, "; ".join(band.sentence for band in bands) or "–"))
    note = "Bands of the debiased values as the handbook has them; they decide nothing. Every band: docs/conclusions.md"
    return Element("Level", ("label", "level", "bands"), tuple(rows), note=note)


def calibration(found: Iterable[Detailed]) -> Element:
    """How far scores are from hit rates."""
    names = ("ece", "mce", "brier", "nll")
    return _measures("Calibration", ("ECE", "MCE", "Brier score", "log loss"), names, found)


def decisions(found: Iterable[Detailed]) -> Element:
    """How well scores separate hits from misses, and how often decisions are right."""
    names = ("roc_auc", "pr_auc", "accuracy", "false_negative_rate")
    return _measures("Discrimination and decisions", ("ROC AUC", "PR AUC", "accuracy", "missed"), names, found)


def numbers(found: Iterable[Detailed]) -> Element:
    """How far predicted numbers are from the true ones, of sources that have numbers instead of labels."""
    names = ("rmse", "mae", "r_squared", "interval_coverage")
    return _measures("Numbers", ("RMSE", "MAE", "R²", "interval coverage"), names, found)


def _measures(title: str, head: Sequence[str], names: Sequence[str], found: Iterable[Detailed]) -> Element:
    rows: list[tuple[Cell, ...]] = [
        (report.subject, f"{report.rows:,}", *(detail.interval(name) or "–" for name in names))
        for report, detail in found
        if any(detail.interval(name) is not None for name in names)
    ]
    note = "Debiased values with their intervals."
    return Element(title, ("label", "rows", *head), tuple(rows), frozenset({1}), note=note)


def automation(found: Iterable[Detailed], data: ReportData) -> Element:
    """The rows from the automation threshold on: how many, how often right, and what automation did with them."""
    rows = []
    for report, detail in found:
        if detail.boxes.named or detail.excess is not None:
            shares = [detail.interval(name) for name in ("share_to_people", "automated_accuracy", "review_rate")]
            below, right, left = ("–" if one is None else words.share(one.value, one.low, one.high) for one in shares)
            done = "no row from that score on" if detail.harm is None else detail.harm.sentence
            if report.subject.label is None and left != "–":
                done = f"{left} of the items have no label that acts. {done[:1].upper()}{done[1:]}"
            rows.append((report.subject, f"{detail.automate_at:.2f}", below, right, done))
    head = ("label", "from score", "below it", "right from it on", f"in {data.window.name}")
    note = "Rows from automate_at on, whoever decided them; what automation did of it goes by the time that it was on."
    return Element("From the automation threshold on", head, tuple(rows), frozenset({1, 2, 3}), note=note)


def thresholds(found: Iterable[Detailed], target: float) -> Element:
    """The score from which the target accuracy is reached, and the share of rows that is left to people."""
    rows = [
        (report.subject, *_threshold(detail.operating), f"{detail.automate_at:.2f}")
        for report, detail in found
        if detail.operating is not None
    ]
    head = ("label", "threshold", "acts alone", "people", "accuracy", "now")
    note = (
        "The lowest score from which at least that accuracy is shown, with limits that hold although it was chosen on "
        "these rows; people: what would be left to them; now: automate_at."
    )
    title = f"Threshold for {words.share(target)} accuracy"
    return Element(title, head, tuple(rows), frozenset(range(1, 6)), note=note)


def _threshold(point: OperatingPoint) -> tuple[str, str, str, str]:
    if point.threshold is None:
        return point.reason.replace("_", " "), "–", "–", "–"
    coverage = words.share(point.coverage, point.coverage_low, point.coverage_high)
    accuracy = words.share(point.accuracy, point.accuracy_low, point.accuracy_high)
    return f"{point.threshold:.4f}", coverage, words.share(point.to_people), accuracy


def threshold_text(detail: Detail, target: float) -> str:
    """The threshold for the target accuracy in a few words."""
    point = detail.operating
    if point is None or point.threshold is None:
        return f"{words.share(target)} accuracy: {'no rows' if point is None else point.reason.replace('_', ' ')}"
    return f"{words.share(target)} accuracy from {point.threshold:.4f}, {words.share(point.coverage)} alone"


def detail_text(detail: Detail) -> str:
    """How many items acted alone, or would have, in words; "" where no row reaches the threshold."""
    people = detail.interval("share_to_people")
    if detail.harm is None or people is None or people.value is None:
        return ""
    sentence = detail.harm.sentence
    below = f"{words.share(people.value)} of the rows lie below {detail.automate_at:.2f}"
    return f"{sentence[:1].upper()}{sentence[1:]}. {below}."


def recalibration(found: Iterable[Detailed]) -> Element:
    """The ECE now, and after each map on rows that it was not fitted on; marks the chosen method, or why none is."""
    fitted = [(report.subject, detail) for report, detail in found if detail.gains]
    rows = [
        (subject, _before(detail), *(_after(detail, method) for method in METHODS), _levels(detail))
        for subject, detail in fitted
    ]
    head = ("label", "ECE as it is", *METHODS, "level")
    note = (
        "After each method: cross-validated, on rows that its map had not seen. ECEs here are in bins made from these "
        "very scores, elsewhere in the baseline's, where there is one. Reasons: docs/recalibration.md. Level: "
    )
    note += (
        "the handbook's bands of ECE, ROC AUC and MCE, after the method that was chosen, or that lowers the ECE most."
    )
    return Element("Recalibration, before and after", head, tuple(rows), note=note)


def _levels(detail: Detail) -> str:
    """The level now, and after the chosen map, else after the map that lowers the ECE most."""
    offered = [gain for gain in detail.gains.values() if gain.after is not None and gain.after.ece.value is not None]
    if not offered:
        return detail.conclusion.level
    choice = detail.conclusion.recalibration
    chosen = detail.gains.get(choice.method) if choice is not None and choice.method is not None else None
    gain = chosen or max(offered, key=ece_gain)
    auc = detail.interval("roc_auc")
    return f"{detail.conclusion.level}, then {level_after(gain, None if auc is None else auc.value)}"


def _before(detail: Detail) -> Cell:
    found, choice = next(iter(detail.gains.values())).before.ece, detail.conclusion.recalibration
    return found if choice is None or choice.method is not None else (found, choice.reason.replace("_", " "))


def _after(detail: Detail, method: Method) -> Cell:
    gain, choice = detail.gains.get(method), detail.conclusion.recalibration
    if gain is None or gain.after is None:
        return "–"
    return (gain.after.ece, "chosen") if choice is not None and choice.method == method else gain.after.ece


def boxes(found: Iterable[Detailed]) -> Element:
    """The scores of right and of wrong decisions: five numbers each, and the box between 0 and 1."""
    rows = []
    for report, detail in found:
        for name, box in detail.boxes.named:
            scores = " ".join(f"{score:.2f}" for score in box.scores)
            scores += f"\n{box.outlying:,.0f} outliers" if box.outlying else ""
            rows.append((report.subject, name, f"{box.weight:,.0f}", scores, box_text(box, BOX_WIDTH)))
    note = "Least score, quartiles, largest: of what was predicted, or of all where the score is confidence in the "
    note += "prediction. Items: rows, or what they represent by their weights. Outliers: those farther from the "
    note += "quartiles than 1.5 times the distance of these."
    head = ("label", "", "items", " min  25%  50%  75%  max", f"0{'1':>{BOX_WIDTH - 1}}")
    plain, whole, drawn = frozenset({2}), frozenset({1, 3}), frozenset({4})
    return Element("Scores of right and wrong", head, tuple(rows), plain, whole=whole, drawn=drawn, note=note)


def gaps(found: Iterable[Detailed], matrix: GapMatrix | None) -> Element:
    """The label x bin matrix of hit rate minus mean score, with the rows of each bin below."""
    if matrix is None:
        return Element("", (), ())
    place = {name: k for k, name in enumerate(matrix.labels)}
    shown = (report.subject for report, _ in found if report.subject.name in place)
    rows = [(subject, _reliability_line(matrix, place[subject.name])) for subject in shown]
    note = (
        "Each column is a bin, from low scores to high ones: hit rate minus mean score in percentage points, and below "
        "it the rows of the bin. Negative: the scores are too high."
    )
    return Element("Reliability by bin", ("label", "points, and rows"), tuple(rows), note=note)


def ranges(found: Iterable[Detailed], matrix: GapMatrix | None) -> Element:
    """The same matrix over tenths of the scores, the same for every label, so that columns can be compared."""
    if matrix is None or not matrix.labels:
        return Element("", (), ())
    rows: list[tuple[Cell, ...]] = [(subject, *_range_cells(matrix, k)) for subject, k in _places(found, matrix)]
    head = ("label", *(f"to {upper:.1f}" for upper in matrix.upper[0].tolist()))
    note = (
        "Each column is a tenth of the scores, the same for every label: hit rate minus mean score in percentage "
        "points (rows). Negative: the scores are too high."
    )
    return Element("Reliability by score range", head, tuple(rows), frozenset(range(1, len(head))), note=note)


def ranges_in_lines(found: Iterable[Detailed], matrix: GapMatrix | None) -> Element:
    """The same as two lines for each label, where there is no room for columns."""
    if matrix is None:
        return Element("", (), ())
    rows = []
    for subject, k in _places(found, matrix):
        pairs = zip(matrix.gap[k].tolist(), matrix.rows[k].tolist(), strict=True)
        cells = [("–", "–") if isnan(gap) else (words.points(gap), words.size(n)) for gap, n in pairs]
        lines = (" ".join(f"{text:>{RANGE_WIDTH}}" for text in line) for line in zip(*cells, strict=True))
        rows.append((subject, "\n".join(lines)))
    note = (
        "Each column is a tenth of the scores, from 0 to 0.1 on, the same for every label: hit rate minus mean score "
        "in percentage points, and below it the rows. Negative: the scores are too high."
    )
    return Element("Reliability by score range", ("label", "points, and rows"), tuple(rows), note=note)


def _places(found: Iterable[Detailed], matrix: GapMatrix) -> list[tuple[Subject, int]]:
    place = {name: k for k, name in enumerate(matrix.labels)}
    return [(report.subject, place[report.subject.name]) for report, _ in found if report.subject.name in place]


def _range_cells(matrix: GapMatrix, k: int) -> list[str]:
    pairs = zip(matrix.gap[k].tolist(), matrix.rows[k].tolist(), strict=True)
    return ["–" if isnan(gap) else f"{words.points(gap)} ({words.size(n)})" for gap, n in pairs]


def _reliability_line(matrix: GapMatrix, k: int) -> str:
    filled = [m for m in range(matrix.gap.shape[1]) if not isnan(matrix.gap[k, m])]
    points = [words.points(float(matrix.gap[k, m])) for m in filled]
    sizes = [words.size(int(matrix.rows[k, m])) for m in filled]
    width = max(map(len, points + sizes), default=0)
    return "\n".join(" ".join(f"{text:>{width}}" for text in line) for line in (points, sizes))


def metrics(estimates: Iterable[Estimate]) -> Element:
    """Every metric of one label with its interval, its textbook value and what it means."""
    rows = []
    for e in estimates:
        interval, is_known = e.interval, e.metric in METRICS
        if interval.value is not None:
            limits = words.interval(interval.low, interval.high, sign=is_known and range_of(e.metric)[0] < 0)
            reading = METRICS[e.metric].reading(interval.value) if is_known else None
            numbers = words.number(interval.value), limits, words.number(interval.plug_in), f"{e.n:,}"
            rows.append((words.metric_name(e.metric, e.where), *numbers, reading or ""))
    head = ("metric", "value", "interval", "textbook", "rows", "reading")
    note = "value: debiased; textbook: as its definition says. Every metric: docs/metrics.md"
    return Element("All metrics", head, tuple(rows), frozenset({1, 2, 3, 4}), note=note)


def bins(points: Iterable[ReliabilityPoint]) -> Element:
    """The reliability diagram of one label: a line for each bin."""
    rows = []
    for p in points:
        numbers = words.number(p.score), words.number(p.rate), words.interval(p.low, p.high)
        gap = words.number(p.rate - p.score, sign=True)
        rows.append((f"{p.lower:.4f} to {p.upper:.4f}", f"{p.n:,}", *numbers, gap))
    head = ("scores", "rows", "mean score", "hit rate", "interval", "gap")
    return Element("Reliability", head, tuple(rows), frozenset({1, 2, 3, 4, 5}))


def risk_coverage(detail: Detail) -> Element:
    """The share of wrong items among those that act alone, by the share that acts alone."""
    curve = detail.risk_coverage
    if curve is None:
        return Element("", (), ())
    at = {next((p for p in curve.points if p.x >= share - 1e-9), curve.points[-1]) for share in COVERAGES}
    rows = []
    for point in sorted(at if curve.chosen is None else at | {curve.chosen}, key=lambda point: point.x):
        least = "–" if point.threshold is None else f"{point.threshold:.4f}"
        rows.append((least, words.share(point.x), words.share(point.y), "chosen" if point == curve.chosen else ""))
    head = ("from score", "acts alone", "of it wrong", "")
    note = "Rows from the highest score down."
    note += "" if curve.area is None else f" Area under the curve (AURC): {words.number(curve.area)}."
    return Element("Risk and coverage", head, tuple(rows), frozenset({0, 1, 2}), note=note)
