"""Truths that people found of drawn items, from a CSV file into the history: every line is stored or said."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.audits import AuditedItem
from monitor.core.wording import clean
from monitor.operations.change_switch import known_labels

_RIGHT: Mapping[str | None, bool] = {"1": True, "0": False}
Line = Mapping[str, str | None]


def rows_of_file(lines: Iterable[str]) -> Iterator[tuple[str, Line]]:
    """The rows of a CSV file, each with its line. Raises ValueError if the file has no such columns."""
    reader = csv.DictReader(lines)
    if not {"item", "truth"} <= set(reader.fieldnames or ()):
        raise ValueError("it needs the columns item and truth")
    for row in reader:
        yield f"line {reader.line_num}", row


def import_audit(
    monitor: Monitor, source: str, rows: Iterable[tuple[str, Line]]
) -> tuple[int, int, list[tuple[str, str]]]:
    """Store the truths of items drawn of ``source``; an error names a row by its place.

    Raises ValueError where reading the rows does.

    Each row is one of the number stored, the number not decided yet, or the refused, as (its place, reason).

    A row needs ``item`` and ``truth``: the true label, or of kind multilabel 1 or 0; empty: not decided yet. ``label``
    is needed where the item was drawn for several.
    """
    drawn: dict[str, dict[str, AuditedItem]] = {}
    for item in monitor.store.audited(source):  # drawn again in a later week: that counts
        drawn.setdefault(item.item, {})[item.label] = item
    labels = known_labels(monitor, source)
    found: dict[tuple[str, str], AuditedItem] = {}
    refused: list[tuple[str, str]] = []
    stored = undecided = 0
    for place, row in rows:
        try:
            decided = _decided(row, drawn, labels, monitor.config)
            if decided is None:
                undecided += 1
                continue
            if found.setdefault((decided.item, decided.label), decided) != decided:
                raise ValueError("an earlier line says another truth of the same item")
            stored += 1
        except ValueError as why:
            refused.append((place, str(why)))
    monitor.store.save_found(list(found.values()), monitor.clock())
    return stored, undecided, refused


def _decided(
    row: Line, drawn: Mapping[str, Mapping[str, AuditedItem]], labels: Sequence[str], config: Config
) -> AuditedItem | None:
    """The drawn item of a line with its outcome; None if it has no truth yet. Raises ValueError: why it is refused."""
    name, truth = row["item"] or "", (row["truth"] or "").strip()
    items = [item for label, item in drawn.get(name, {}).items() if (row.get("label") or label) == label]
    if not items:
        raise ValueError(f"{clean(name)} was not drawn: how many it stands for is not known")
    if len(items) > 1:
        raise ValueError(f"{clean(name)} was drawn for several labels: the column label says which is meant")
    if not truth:
        return None
    (item,) = items
    known = (
        _RIGHT if config.sources[item.source].kind == "multilabel" else {each: each == item.label for each in labels}
    )
    if truth not in known:  # it may be mistyped, and would count as wrong
        raise ValueError(
            f"{clean(truth)} is neither 1 nor 0 (multilabel) nor, of another kind, the name of a known label"
        )
    return replace(item, outcome=float(known[truth]))
