"""NannyML's CBPE of the accuracy of each label by week; run by ``benchmarks.before_truth`` with another interpreter."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import nannyml  # type: ignore[import-not-found]
import pandas as pd


def estimated(reference: pd.DataFrame, waiting: pd.DataFrame) -> list[tuple[str, float]]:
    """(start of the week, estimated accuracy) of one label."""
    estimator = nannyml.CBPE(
        metrics=["accuracy"], y_pred_proba="score", y_pred="decided", y_true="truth",
        problem_type="classification_binary", timestamp_column_name="at", chunk_period="W",
    )  # fmt: skip
    found = estimator.fit(reference).estimate(waiting).filter(period="analysis").to_df()
    starts = pd.to_datetime(found["chunk", "start_date"]).dt.strftime("%Y-%m-%d")
    return list(zip(starts, found["accuracy", "value"].astype(float), strict=True))


def main() -> None:
    """Read two Parquet files, and write the estimates of every label with their processor seconds."""
    frames = []
    began = time.process_time()
    for path in sys.argv[1:3]:
        frame = pd.read_parquet(path)
        frame["at"] = frame["at"].dt.tz_convert("UTC").dt.tz_localize(None)
        frames.append(
            {label: part.drop(columns="label").reset_index(drop=True) for label, part in frame.groupby("label")}
        )
    loading = time.process_time() - began
    values, failed = [], 0
    began = time.process_time()
    for label, waiting in frames[1].items():
        try:
            values += [(label, start, value) for start, value in estimated(frames[0][label], waiting)]
        except Exception as error:  # noqa: BLE001 - any failure is counted
            failed += 1
            print(f"{label!s}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    seconds = time.process_time() - began
    found = {"values": values, "loading": loading, "seconds": seconds, "failed": failed, "version": nannyml.__version__}
    Path(sys.argv[3]).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
