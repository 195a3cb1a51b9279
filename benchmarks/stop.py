"""The time of `calmon automation disable --all` on a history with a million stored verdicts.

``python -m benchmarks.stop [VERDICTS]`` prints one line for the work on the history, and one for the whole process.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time

import sqlalchemy as sa

from monitor.config.settings import load_settings
from monitor.history import packed_json
from monitor.history.store import Store
from monitor.operations.change_switch import change_switch, known_labels
from monitor.operations.open import open_monitor
from tests.fakes.world import CONFIG

LABELS = 20
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)"
SERIES = f"""
{NUMBERS}
INSERT INTO verdict_series (id, source, label, rule, metric, population, severity, threshold, condition, outcome,
                            reason, actions)
SELECT i, 'tickets', 'label-' || (i - 1), 'a', 'ece', 'all', 'warning', 0.1, 'above', 'ok', 'within_threshold', '[]'
FROM n
"""
EVALUATIONS = f"""
{NUMBERS}
INSERT INTO evaluations (id, schedule, window_start, window_end, window_name, rules_revision, stored_at)
SELECT i, 'weekly', datetime('2020-01-06', (i / 10) || ' hours') || '.000000',
       datetime('2020-01-13', (i / 10) || ' hours') || '.000000', 'w', 'r', '2020-01-13 00:00:00.000000'
FROM n
"""
JUDGED = f"""
{NUMBERS}
INSERT INTO judged (evaluation_id, series_id, id, n, windows, data_digest, detail, current)
SELECT 1 + i / :labels, 1 + i % :labels, printf('%032d', i), 100, 1, 'd', :nothing, 1 FROM n
"""


def fill(url: str, rows: int) -> None:
    """Store ``rows`` verdicts of twenty labels."""
    Store.from_url(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(SERIES), {"rows": LABELS})
        connection.execute(sa.text(EVALUATIONS), {"rows": 1 + rows // LABELS})
        connection.execute(sa.text(JUDGED), {"rows": rows, "labels": LABELS, "nothing": packed_json.to_bytes({})})
    engine.dispose()


def main() -> None:
    """Fill a history, and turn everything off twice: in this process, and by the command."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/history.sqlite"
        (Path(folder) / "alerts.yaml").write_text(CONFIG, "utf-8")
        environment = {
            "CALMON_STORE_URL": url, "CALMON_CONFIG": f"{folder}/alerts.yaml",
            "CALMON_WAREHOUSE_URL": f"duckdb:///{folder}/none.duckdb",
        }  # fmt: skip
        fill(url, rows)
        began, used = perf_counter(), process_time()
        with open_monitor(load_settings(environment), clock=lambda: datetime.now(UTC)) as opened:
            for label in known_labels(opened, "tickets"):
                change_switch(opened, "tickets", label, enable=False, by="bench", reason="stop")
        _report(f"{rows:,} verdicts, {LABELS} labels: the history took", began, process_time() - used)
        words = [sys.executable, "-m", "monitor", "automation", "disable", "--all", "--reason", "stop"]
        began, used = perf_counter(), _children()
        subprocess.run(words, check=True, capture_output=True, env=os.environ | environment)  # noqa: S603 - this program
        _report(f"{rows:,} verdicts, {LABELS} labels: the whole process took", began, _children() - used)


def _report(what: str, began: float, processor_s: float) -> None:
    print(f"{what} {perf_counter() - began:.2f} s, {processor_s:.2f} s of them on a processor")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
