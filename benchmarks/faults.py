"""A year of runs with faults ends as the same year without: the same switches, events, incidents and messages.

52 weeks and 364 days of a small made-up warehouse are judged twice: once undisturbed, once with 200 seeded faults.
``python -m benchmarks.faults`` does so on SQLite and on PostgreSQL and ends with 1 where anything differs;
``--quick`` plays five weeks, ``--sqlite`` leaves PostgreSQL out.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import sqlalchemy as sa

from monitor.alerting.slack.outbox import drain, worker_id
from monitor.config.model import SourceConfig
from monitor.context import Monitor
from monitor.core.records import Window
from monitor.core.windows import SETTLE, day, week
from monitor.operations.change_switch import change_switch
from monitor.operations.collect import collect
from monitor.operations.incident_actions import due_repeats
from monitor.operations.pin_baseline import pin
from monitor.run import begin, run_window
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.relation import WarehouseFailed
from tests.conftest import new_postgres_database, start_postgres
from tests.fakes import slack
from tests.fakes.world import CONFIDENCES, World, make_world, write_duckdb

ZONE = ZoneInfo("UTC")
FIRST = datetime(2025, 1, 6, tzinfo=UTC)
BASELINE, WEEKS, QUICK_WEEKS = 6, 52, 5
FAULTS, SEED, ROWS = 200, 20260101, 420
LABELS = ("rare", "slipping", "steady")
BROKEN = {"slipping": ((3, 5), (20, 23), (38, 43)), "rare": ((29, 32),), "steady": ()}
"""Label -> the weeks (from, to) after the baseline in which its scores claim too much."""
CONFIG = """\
version: 1
timezone: UTC
sources:
  tickets:
    relation: tickets
    score_is: probability_of_label
    automate_at: 0.8
    labels: {rare: {critical: true}}
evaluation: {interval: analytic, min_samples: 150}
baseline: {weeks: 6, min_pairs: 2000}
rules:
  - {id: automated-shortfall, metric: shortfall, where: automated, condition: above, threshold: 0.05, min_samples: 30,
     severity: critical, actions: [slack, disable_automation]}
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.02, severity: warning, actions: [slack]}
  - {id: ece-two-days, metric: ece, condition: above, threshold: 0.08, schedule: daily, for: 2, severity: critical,
     actions: [slack, disable_automation]}
automation: {when_not_evaluated: keep, initial: on_first_ok, re_enable: {after: 2}}
routes:
  - {match: {severity: critical}, channel: "#ml-oncall", repeat: 24h}
  - {channel: "#ml-monitoring"}
"""


class Kind(StrEnum):
    """What goes wrong with one run; the same run is then started again."""

    CRASH = "killed between two stored steps"
    HISTORY = "history locked or unreachable"
    WAREHOUSE = "warehouse read fails"
    SLACK = "Slack refuses or times out"
    TWICE = "the same run started twice"
    REPEATED = "an operator's command repeated"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; ``step`` is the stored step or the statement at which it strikes."""

    kind: Kind
    step: int


class Killed(BaseException):
    """The process is dead: nothing that it does from now on reaches the history."""


class Remembered:
    """The warehouse, asked once for each window: four years read the same rows. It may be out of reach."""

    def __init__(self, real: Warehouse, kept: dict[Any, Any]) -> None:
        self._real, self._kept, self.fails = real, kept, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def read(self, name: str, source: SourceConfig, window: Window, **more: Any) -> Any:
        """As the warehouse's, or WarehouseFailed."""
        return self._once(("read", window, source.segments), lambda: self._real.read(name, source, window, **more))

    def newest(self, name: str, source: SourceConfig, *, near: datetime, now: datetime) -> Any:
        """As the warehouse's, or WarehouseFailed."""
        return self._once(("newest", near), lambda: self._real.newest(name, source, near=near, now=now))

    def _once(self, key: Any, ask: Callable[[], Any]) -> Any:
        if self.fails:
            raise WarehouseFailed("the connection was lost")
        if key not in self._kept:
            self._kept[key] = ask()
        return self._kept[key]


@dataclass(frozen=True, slots=True)
class Left:
    """What a year leaves behind, in a form that can be compared: name -> rows in order."""

    parts: dict[str, list[Any]]
    faults: Counter[Kind]
    seconds: float


def rows(weeks: int) -> pd.DataFrame:
    """The rows of the warehouse: ``ROWS`` a week and label, one label of them worse in some weeks."""
    rng, parts = np.random.default_rng(SEED), []
    for number in range(BASELINE + weeks):
        start = FIRST + timedelta(weeks=number)
        for label in LABELS:
            score = rng.choice(CONFIDENCES, ROWS, p=np.array([10, 10, 10, 10, 20, 20, 20]) / 100)
            wrong = any(first <= number - BASELINE < until for first, until in BROKEN[label])
            truth = np.where(score > 0.5, score - 0.3, score) if wrong else score
            at = np.sort(rng.random(ROWS)) * 604_000
            parts.append(
                pd.DataFrame(
                    {
                        "item": [f"{number}-{i}" for i in range(ROWS)], "label": label, "score": score,
                        "actual": (rng.random(ROWS) < truth).astype(int),
                        "resolved_at": [start + timedelta(seconds=float(s)) for s in at],
                    }
                )
            )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def schedule(weeks: int) -> list[tuple[Window, datetime]]:
    """Every run of the year with the time at which it starts, the oldest first."""
    first = FIRST + timedelta(weeks=BASELINE)
    weekly = [week(f"{first + timedelta(weeks=n):%G-W%V}", ZONE) for n in range(weeks)]
    daily = [day(f"{first + timedelta(days=n):%Y-%m-%d}", ZONE) for n in range(7 * weeks)]
    late = {"weekly": timedelta(hours=1), "daily": timedelta()}
    return sorted(((w, w.end + SETTLE + late[w.schedule]) for w in [*weekly, *daily]), key=lambda each: each[1])


def planned(runs: int, faults: int) -> dict[int, Fault]:
    """Number of a run -> its fault, from the seed."""
    rng, kinds = random.Random(SEED), list(Kind)  # noqa: S311 - a plan, not a secret
    struck = rng.sample(range(runs), min(faults, runs))
    return {run: Fault(kinds[i % len(kinds)], rng.randint(1, 12)) for i, run in enumerate(struck)}


def commands(weeks: int) -> dict[int, tuple[str, bool]]:
    """Number of a run -> (label, enable) of the operator's command before it."""
    found = {30: ("steady", False), 40: ("steady", True), 27: ("slipping", True)}
    more = {8 * n: (LABELS[n % 3], n % 2 == 0) for n in range(9, weeks, 6)}
    return found | more


@contextmanager
def struck(monitor: Monitor, fault: Fault | None, server: slack.FakeSlack) -> Iterator[Monitor]:
    """The monitor under its fault while the block lasts."""
    if fault is not None and fault.kind is Kind.SLACK:
        server.fail("chat.postMessage", *_refusals(fault.step))
    if fault is not None and fault.kind in (Kind.CRASH, Kind.HISTORY):
        _break(monitor.store._engine, fault)
    cast("Any", monitor.reads).fails = fault is not None and fault.kind is Kind.WAREHOUSE
    yield monitor


def _refusals(step: int) -> Sequence[slack.Fault]:
    """One refusal, or an answer that is lost although the message was taken."""
    return (
        [slack.Fault.server_error()], [slack.Fault.rate_limited(1)], [slack.Fault.reset(accept=True)],
        [slack.Fault.server_error(accept=True)], [slack.Fault.slack_error("channel_not_found")],
    )[step % 5]  # fmt: skip


def _break(engine: sa.Engine, fault: Fault) -> None:
    """Let the history be lost at a step: for good (the process is dead) or once (it is locked)."""
    steps = [0]

    def statement(connection: sa.Connection, _cursor: Any, text: str, *_: Any) -> None:
        if fault.kind is Kind.CRASH and steps[0] >= fault.step:
            raise Killed
        writes = text.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))
        connection.info["writes"] = writes or connection.info.get("writes", False)
        if fault.kind is Kind.HISTORY and writes:
            steps[0] += 1
            if steps[0] == fault.step:
                raise sa.exc.OperationalError(text, {}, Exception("database is locked"))

    def commit(connection: sa.Connection) -> None:
        if fault.kind is Kind.CRASH and connection.info.pop("writes", False):
            steps[0] += 1
            if steps[0] >= fault.step:
                raise Killed

    sa.event.listen(engine, "before_cursor_execute", statement)
    sa.event.listen(engine, "commit", commit)


def play(world: World, weeks: int, faults: dict[int, Fault], kept: dict[Any, Any]) -> Left:
    """The whole year on one history."""
    began, met = perf_counter(), Counter[Kind]()
    with slack.running() as server:
        more = {"slack_bot_token": slack.TOKEN, "slack_api_url": server.url}
        with world.opened(lambda: FIRST + timedelta(weeks=BASELINE), **more) as monitor:
            first, last = (week(f"{FIRST + timedelta(weeks=n):%G-W%V}", ZONE) for n in (0, BASELINE - 1))
            pin(monitor, first, last, by="bench", reason="the year begins")
        for number, (window, at) in enumerate(schedule(weeks)):
            fault = faults.get(number)
            for again in (False, True) if fault else (False,):
                with world.opened(_fixed(at), **more) as opened:
                    monitor = replace(opened, reads=cast("Warehouse", Remembered(opened.warehouse, kept)))
                    _one(monitor, window, number, weeks, None if again else fault, server, met)
        with world.opened(_fixed(at + timedelta(hours=2)), **more) as monitor:
            drain(monitor.store, monitor.sender, now=monitor.clock, worker=worker_id())
            return Left(left_behind(monitor, server), met, perf_counter() - began)


def _fixed(at: datetime) -> Callable[[], datetime]:
    return lambda: at


def _one(
    monitor: Monitor, window: Window, number: int, weeks: int, fault: Fault | None, server: slack.FakeSlack,
    met: Counter[Kind],
) -> None:  # fmt: skip
    """One start of one run, with the operator's command that comes before it."""
    command = commands(weeks).get(number)
    times = 2 if fault is not None and fault.kind is Kind.REPEATED else 1
    for _ in range(times if command else 0):
        label, enable = command  # type: ignore[misc]  # there is one
        change_switch(monitor, "tickets", label, enable=enable, by="ann", reason="looked", key=f"command {number}")
    try:
        with struck(monitor, fault, server) as broken:
            if fault is not None and fault.kind is Kind.WAREHOUSE:  # the flow's stage stops here, and reads again
                begin(broken, window, list(broken.config.sources), "auto")
                collect(broken, window, list(broken.config.sources), store=True)
            else:
                run_window(broken, window)
                due_repeats(broken)
    except (Killed, sa.exc.OperationalError):
        if fault is None:
            raise
    if fault is not None:
        met[fault.kind] += 1


def left_behind(monitor: Monitor, server: slack.FakeSlack) -> dict[str, list[Any]]:
    """Switches, their events, incidents and what the channels show, without what names a try or a process."""
    store = monitor.store
    repeated = Counter(_delivery(message) for message in server.messages)
    return {
        "switches": [_plain(each, "version") for each in store.switches()],
        "switch events": sorted((_plain(each, "key") for each in store.switch_events()), key=repr),
        "incidents": sorted((_plain(each, "id", "root", "version") for each in store.incidents()), key=repr),
        "messages": _of_labels(monitor, server),
        "messages sent twice": sorted(id for id, times in repeated.items() if times > 1),
        "deliveries kept": [each.id for each in store.deliveries(["pending", "sending", "failed", "dead"])],
    }


def _of_labels(monitor: Monitor, server: slack.FakeSlack) -> list[tuple[str, bool, str]]:
    """The messages about labels. Those of the monitor itself say truly that a fault was there."""
    roots = {each.id: each for each in monitor.store.deliveries()}
    own = {id for id, each in roots.items() if "monitor" in (each.kind, roots.get(each.root or id, each).kind)}
    mine = [m for m in server.messages if _delivery(m) not in own]
    return sorted((m["channel"], "thread_ts" in m, m["text"][:60]) for m in mine)


def _delivery(message: dict[str, Any]) -> str:
    payload = (message.get("metadata") or {}).get("event_payload") or {}
    return str(payload.get("delivery_id") or message["ts"])


def _plain(record: Any, *without: str) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name not in without}


def differences(quiet: Left, faulty: Left) -> list[str]:
    """What is not the same, one line each."""
    found = []
    for name, kept in quiet.parts.items():
        other = faulty.parts[name]
        if kept != other:
            missing = [row for row in kept if row not in other]
            added = [row for row in other if row not in kept]
            found.append(f"{name}: {len(kept)} without faults, {len(other)} with; only without: {missing[:2]}; "
                         f"only with: {added[:2]}")  # fmt: skip
    return found


def years(engine: str, folder: Path, weeks: int, faults: int, server: str) -> tuple[Left, Left]:
    """The year without and the year with faults, on two new histories of one engine."""
    warehouse = write_duckdb(folder / "warehouse.duckdb", rows(weeks))
    plan, kept, found = planned(8 * weeks, faults), {}, []  # type: ignore[var-annotated]  # readings of any kind
    for name, struck_by in (("quiet", {}), ("faulty", plan)):
        (folder / name).mkdir()
        url = new_postgres_database(server) if engine == "postgresql" else None
        world = make_world(folder / name, config=CONFIG, warehouse_url=warehouse, store_url=url)
        found.append(play(world, weeks, struck_by, kept))
    return found[0], found[1]


def main() -> None:
    """Play both years on each engine, print a table, and end with 1 where something differs."""
    parser = argparse.ArgumentParser(description="A year of runs with faults against the same year without.")
    parser.add_argument("--quick", action="store_true", help="five weeks instead of 52")
    parser.add_argument("--sqlite", action="store_true", help="SQLite only")
    asked = parser.parse_args()
    weeks = QUICK_WEEKS if asked.quick else WEEKS
    faults, failed = FAULTS * weeks // WEEKS, False
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="calmon-faults-", ignore_cleanup_errors=True))
        )
        server = "" if asked.sqlite else str(_server(stack, folder).get_uri())
        print(f"{8 * weeks} runs, {faults} faults")
        for engine in ("sqlite", "postgresql")[: 1 if asked.sqlite else 2]:
            (folder / engine).mkdir()
            quiet, faulty = years(engine, folder / engine, weeks, faults, server)
            print(_line(engine, quiet, faulty))
            for difference in differences(quiet, faulty):
                failed = True
                print(f"  DIFFERS  {difference}")
    sys.exit(int(failed))


def _server(stack: ExitStack, folder: Path) -> Any:
    found = start_postgres(folder / "data")
    stack.callback(found.cleanup)
    return found


def _line(engine: str, quiet: Left, faulty: Left) -> str:
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in faulty.parts.items())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(faulty.faults.items()))
    return f"{engine}: {counts}\n  faults: {kinds}\n  {quiet.seconds:.0f} s without, {faulty.seconds:.0f} s with"


if __name__ == "__main__":
    main()
