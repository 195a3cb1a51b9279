"""Labels that are codes are compared as numbers: 3, 3.0 and 3.00 are one label, in every shape and engine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.warehouse.reader import Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
SCORES = dict.fromkeys(("confidence", "score", "p_0", "p_10"), "DOUBLE PRECISION")
TYPES = (  # of the decision and of the truth
    ("BIGINT", "DOUBLE PRECISION"), ("DOUBLE PRECISION", "TEXT"), ("DECIMAL(6,2)", "BIGINT"), ("TEXT", "DECIMAL(6,2)"),
    ("TEXT", "TEXT"),
)  # fmt: skip
LONG = {"kind": "multiclass", "score_is": "probability_of_label",
        "columns": {"true_label": "true_label", "predicted_label": "predicted_label"}}  # fmt: skip
WIDE = {**LONG, "wide": {"score": "p_{label}"}}
SINGLE = {"kind": "single_label", "score_is": "confidence_in_prediction"}


def rows_of(shape: str) -> list[dict[str, Any]]:
    """Items whose truths and decisions are the class of their number, but for the last, which is of class 1."""
    items = [{"item": f"t{n}", "true_label": n % 2 * 10, "predicted_label": 10 if n == 4 else n % 2 * 10,
              "resolved_at": WEEK.start} for n in range(6)]  # fmt: skip
    if shape == "single":
        return [row | {"confidence": 0.9} for row in items]
    scores = [
        row | {f"p_{label}": 0.9 if row["predicted_label"] == label else 0.1 for label in (0, 10)} for row in items
    ]
    if shape == "wide":
        return scores
    return [{**row, "label": label, "score": row[f"p_{label}"]} for row in scores for label in (0, 10)]


def counted(warehouse: Warehouse, settings: dict[str, Any]) -> dict[str, tuple[int, int, float]]:
    """(rows, predicted rows, hits) by label."""
    source = SourceConfig.model_validate({"relation": "resolved_tickets", **settings})
    reading = warehouse.read("tickets", source, WEEK, now=NOW)
    assert reading.quality == ()
    return {
        label: (counts.rows, int(counts.n[counts.predicted].sum()), float((counts.rate * counts.n).sum()))
        for label, counts in reading.labels.items()
    }


@pytest.mark.parametrize(("named", "truth"), TYPES)
def test_codes_of_any_type_are_the_same_labels(load: Loader, named: str, truth: str) -> None:
    for shape, settings, expected in (
        ("single", SINGLE, {"0": (2, 2, 2.0), "10": (4, 4, 3.0)}),
        ("wide", WIDE, {"0": (6, 2, 3.0), "10": (6, 4, 3.0)}),
        ("long", LONG, {"0": (6, 2, 3.0), "10": (6, 4, 3.0)}),
    ):
        types = {**SCORES, "label": named, "predicted_label": named, "true_label": truth}
        for engine, warehouse in load(rows_of(shape), types=types).items():
            assert counted(warehouse, settings) == expected, (engine, shape)


def test_codes_in_csv_files_and_names_that_only_look_like_numbers(tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    pairs = (("3", "3.0"), ("3.00", "3"), ("-1", "-1.0"), ("v2.0", "v2"), ("1.2.0", "1.2"), ("1.50", "1.5"), (".", "."))
    lines = (f"t{n},{label},0.9,{truth},2026-11-10" for n, (label, truth) in enumerate(pairs))
    path.write_text("\n".join(["item,predicted_label,confidence,true_label,resolved_at", *lines]), encoding="utf-8")
    with Warehouse.from_url("duckdb://", relations=[str(path)]) as warehouse:
        found = counted(warehouse, {**SINGLE, "relation": str(path)})
    wrong = dict.fromkeys(("v2.0", "1.2.0", "1.50"), (1, 1, 0.0))
    assert found == {"3": (2, 2, 2.0), "-1": (1, 1, 1.0), ".": (1, 1, 1.0), **wrong}
