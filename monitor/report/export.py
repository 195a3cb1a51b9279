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

_COLUMNS = {
    "window=window.name": "string", "source=subject.source": "string", "label=subject.label": "string",
    "metric": "string", "where": "string", "value=interval.value": "float64", "plug_in=interval.plug_in": "float64",
    "low=interval.low": "float64", "high=interval.high": "float64", "n": "int64", "positives": "float64",
    "start=window.start": "string", "end=window.end": "string",
}  # fmt: skip
"""The columns, and their types in Parquet."""
_TYPES = {column.partition("=")[0]: kind for column, kind in _COLUMNS.items()}


def history_records(estimates: Iterable[Estimate]) -> list[dict[str, Any]]:
    """One dictionary for each estimate, in the given order; a null label means the source as a whole."""
    return Table.of(estimates, *_COLUMNS).documents


def history_csv(estimates: Iterable[Estimate]) -> str:
    """CSV with a header; numbers in full precision, an empty field for null."""
    return csv_text(Table.of(history_records(estimates), *_TYPES))


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
