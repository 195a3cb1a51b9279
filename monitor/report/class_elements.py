"""The tables of a multiclass source: its classes, confusion matrices, and how certain its measures are."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan

from monitor.core.counts import Floats
from monitor.core.records import Subject
from monitor.metrics.class_tables import ClassTables
from monitor.metrics.registry import METRICS
from monitor.report import words
from monitor.report.element import Cell, Element


def of_classes(source: str, tables: ClassTables | None) -> tuple[Element, ...]:
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
    rows: list[tuple[Cell, ...]] = []
    for place, one in enumerate(tables.classes, start=1):
        shares = [words.number(value) for value in (one.precision, one.recall, one.f1)]
        rows.append((Subject(source, one.label), f"{place}", *shares, _weight(one.support)))
    head = ("label", "no.", "precision", "recall", "F1", "support")
    note = "By the highest-scored label of each item; support: how many items are truly of the label, by weight."
    return Element("Classes", head, tuple(rows), frozenset(range(1, 6)), note=note)


def certainty(tables: ClassTables) -> Element:
    """Each measure of the confusion matrix, of the scores' matrix and of its two parts."""
    rows: list[tuple[Cell, ...]] = []
    for one in tables.certainty:
        values = (one.hard, one.soft, one.certain, one.uncertain, one.ratio)
        rows.append((METRICS[one.measure].title, *[words.number(value) for value in values]))
    head = ("measure", "decisions", "scores (CM*)", "certain (V)", "uncertain (U)", "ratio")
    note = "ratio: V / (V + U) of the measure, its certainty ratio. docs/metrics.md#certainty_ratio"
    return Element("Certainty by measure", head, tuple(rows), frozenset(range(1, 6)), note=note)


def _matrix(
    source: str, tables: ClassTables, title: str, matrix: Floats, shown: Callable[[float], str], note: str
) -> Element:
    rows: list[tuple[Cell, ...]] = []
    for place, (label, line) in enumerate(zip(tables.labels, matrix.tolist(), strict=True), start=1):
        rows.append((Subject(source, label), f"{place}", *["–" if isnan(value) else shown(value) for value in line]))
    head = ("label", "no.", *(f"{place}" for place in range(1, len(tables.labels) + 1)))
    return Element(title, head, tuple(rows), frozenset(range(1, len(head))), note=note)


def _weight(value: float) -> str:
    """A weight: a whole number without decimals, any other with one.

    >>> _weight(1200.0), _weight(2.34)
    ('1,200', '2.3')
    """
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
