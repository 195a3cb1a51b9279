"""The history as rows for other programs: CSV, JSON and Parquet with stable column names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pandas as pd

from monitor.core.records import Estimate

_TYPES = {
    "window": "string", "source": "string", "label": "string", "metric": "string", "where": "string",
    "value": "float64", "plug_in": "float64", "low": "float64", "high": "float64", "n": "int64", "positives": "float64",
    "start": "string", "end": "string",
}  # fmt: skip
COLUMNS = tuple(_TYPES)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def history_records(estimates: Iterable[Estimate]) -> list[dict[str, Any]]:
    """One dictionary for each estimate, in the given order; a null label means the source as a whole."""
    return [
        {
            "window": e.window.name, "source": e.subject.source, "label": e.subject.label, "metric": e.metric,
            "where": e.where, "value": _finite(e.interval.value), "plug_in": _finite(e.interval.plug_in),
            "low": _finite(e.interval.low), "high": _finite(e.interval.high), "n": e.n, "positives": e.positives,
            "start": e.window.start.isoformat(), "end": e.window.end.isoformat(),
        }
        for e in estimates
    ]  # fmt: skip


def history_frame(estimates: Iterable[Estimate]) -> pd.DataFrame:
    """The records as a table with fixed column types, also without rows."""
    return pd.DataFrame(history_records(estimates), columns=list(_TYPES)).astype(_TYPES)


def history_csv(estimates: Iterable[Estimate]) -> str:
    """CSV with a header; numbers in full precision, an empty field for null.

    A name that a spreadsheet would run as a formula gets an apostrophe before it (:func:`no_formula`).
    """
    frame = history_frame(estimates)
    for name in (name for name, kind in _TYPES.items() if kind == "string"):
        frame[name] = frame[name].map(no_formula, na_action="ignore")
    return str(frame.to_csv(index=False, lineterminator="\n"))


def no_formula(text: str) -> str:
    """A text that no spreadsheet runs as a formula: the name of a label must not run code on its reader's computer.

    >>> no_formula("=HYPERLINK(1)"), no_formula("billing"), no_formula("a=b")
    ("'=HYPERLINK(1)", 'billing', 'a=b')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def history_json(estimates: Iterable[Estimate]) -> str:
    """A JSON array with one object for each estimate."""
    return json.dumps(history_records(estimates), indent=1, ensure_ascii=False, allow_nan=False)


def history_parquet(estimates: Iterable[Estimate]) -> bytes:
    """The content of a Parquet file. DuckDB writes it, since pandas alone cannot, and DuckDB writes only to files."""
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder) / "history.parquet"
        connection.from_df(history_frame(estimates)).write_parquet(str(path))
        return path.read_bytes()


def _finite(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else value
