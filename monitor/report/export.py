"""The history as rows for other programs: CSV, JSON and Parquet with stable column names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pandas as pd

from monitor.core.records import Estimate
from monitor.report.csv_table import Table, csv_text
from monitor.report.document import plain

_TYPES = {
    "window": "string", "source": "string", "label": "string", "metric": "string", "where": "string",
    "value": "float64", "plug_in": "float64", "low": "float64", "high": "float64", "n": "int64", "positives": "float64",
    "start": "string", "end": "string",
}  # fmt: skip


def history_records(estimates: Iterable[Estimate]) -> list[dict[str, Any]]:
    """One dictionary for each estimate, in the given order; a null label means the source as a whole."""
    found = _table(estimates)
    return [dict(zip(found.head, row, strict=True)) for row in found.rows]


def history_csv(estimates: Iterable[Estimate]) -> str:
    """CSV with a header; numbers in full precision, an empty field for null."""
    return csv_text(_table(estimates))


def history_json(estimates: Iterable[Estimate]) -> str:
    """A JSON array with one object for each estimate."""
    return json.dumps(history_records(estimates), indent=1, ensure_ascii=False, allow_nan=False)


def history_parquet(estimates: Iterable[Estimate]) -> bytes:
    """The content of a Parquet file. DuckDB writes it, since pandas alone cannot, and DuckDB writes only to files."""
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder) / "history.parquet"
        frame = pd.DataFrame(history_records(estimates), columns=list(_TYPES)).astype(_TYPES)  # typed without rows, too
        connection.from_df(frame).write_parquet(str(path))
        return path.read_bytes()


def _table(estimates: Iterable[Estimate]) -> Table:
    """A row for each estimate, in the given order; no label means the source as a whole."""
    found = Table.of(
        estimates, "window=window.name", "source=subject.source", "label=subject.label", "metric", "where",
        "value=interval.value", "plug_in=interval.plug_in", "low=interval.low", "high=interval.high", "n", "positives",
        "start=window.start", "end=window.end",
    )  # fmt: skip
    return Table(found.head, plain(found.rows))
