"""The demo as a story in five steps; ``calmon demo`` and ``python -m flows.demo`` both run it.

write the data -> pin the baseline -> turn automation on -> backfill -> run the last week for real

Its clock shows two times, whatever the day on which it runs: the begin of the last week for all but the last step, and
the time when that week was due for the last step. So its numbers are those of a run in time, and no lease has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from sqlalchemy.engine import make_url

from monitor.config.load import load_config
from monitor.config.settings import Settings
from monitor.context import ActMode, Monitor, utc_now
from monitor.core import windows
from monitor.core.records import Refused, Window, WrongRequest
from monitor.core.wording import percent
from monitor.demo.generator import DemoSummary, write_demo
from monitor.demo.population import BASELINE_WEEKS, PLANTED, WEEKS
from monitor.evaluation.safe_scores import kept_from
from monitor.operations.audit import plan as plan_audit
from monitor.operations.change_switch import change_switch, known_labels
from monitor.operations.open import open_monitor
from monitor.report.console import console, plain_table
from monitor.report.terminal import run_summary
from monitor.run import Run
from monitor.story.gather import Teller
from monitor.story.window import needing

MARKER = ".demo"
FINE, FALL = ("tickets", "login"), 0.15
WIDTH = 80


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The weeks of the demo: the baseline's, those that are backfilled, and the last one."""

    weeks: tuple[Window, ...]

    @property
    def baseline(self) -> tuple[Window, Window]:
        """The first and the last week of the baseline."""
        return self.weeks[0], self.weeks[BASELINE_WEEKS - 1]

    @property
    def backfilled(self) -> tuple[Window, ...]:
        """The weeks between, which are judged but never act."""
        return self.weeks[BASELINE_WEEKS:-1]

    @property
    def last(self) -> Window:
        """The week that is run for real."""
        return self.weeks[-1]

    @property
    def due(self) -> datetime:
        """When the last week can be judged."""
        return self.last.end + windows.SETTLE


def plan_of(last: Window, zone: ZoneInfo) -> DemoPlan:
    """26 weeks that end with ``last``."""
    return DemoPlan(tuple(windows.up_to(last, WEEKS, zone)))


def prepare(settings: Settings) -> Path:
    """Make room for the demo's files; returns the DuckDB file to write.

    Raises WrongRequest where a warehouse or history exists that the demo did not make.
    """
    warehouse = _file_of(settings.warehouse_url.get_secret_value(), "duckdb", "CALMON_WAREHOUSE_URL")
    store = _file_of(settings.store_url.get_secret_value(), "sqlite", "CALMON_STORE_URL")
    markers = {path: path.with_name(path.name + MARKER) for path in (warehouse, store)}
    for path, marker in markers.items():
        if path.exists() and not marker.exists():
            raise WrongRequest(
                f"{path} is there and the demo has not made it, so it is left alone; point CALMON_WAREHOUSE_URL and "
                "CALMON_STORE_URL to other files, or move it away"
            )
    for marker in markers.values():  # only now: a refusal must not leave a mark that lets the next demo overwrite
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text("made by the demo: running it again replaces this file\n", "utf-8")
    for suffix in ("", "-wal", "-shm", ".epoch"):
        store.with_name(store.name + suffix).unlink(missing_ok=True)
    return warehouse


def _file_of(url: str, dialect: str, variable: str) -> Path:
    found = make_url(url)
    if found.get_backend_name() != dialect or not found.database or found.database == ":memory:":
        raise WrongRequest(f"the demo needs a {dialect} file in {variable}; unset it for the default")
    return Path(found.database)


def tell(
    settings: Settings,
    pin_weeks: Callable[[Monitor, Window, Window], object],
    judge: Callable[[Monitor, Window, ActMode], Run],
) -> RenderableType:
    """Do all steps, with a bar for each on standard error; returns the end of the story.

    Raises WrongRequest like :func:`prepare`.
    """
    zone = load_config(settings.config).zone
    plan = plan_of(windows.last_ready("weekly", utc_now(), zone), zone)  # once: a week may become ready meanwhile
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True)) as progress:
        task = progress.add_task("writing tickets and e-mails", total=None)

        def written(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        data = write_demo(prepare(settings), plan.last, progress=written)
        with open_monitor(settings) as opened:
            monitor = at(opened, plan.last.start)
            for first, last in progress.track([plan.baseline], description="pinning the baseline"):
                pin_weeks(monitor, first, last)
                for source in monitor.config.sources:  # as an operator does who has pinned a baseline
                    for label in known_labels(monitor, source):
                        change_switch(monitor, source, label, enable=True, by="demo", reason="start of the demo")
            for window in progress.track(plan.backfilled, description="backfill"):
                judge(monitor, window, "never")
            monitor = at(opened, plan.due)
            for_real = progress.track([plan.last], description=f"running {plan.last.name} for real")
            (result,) = [judge(monitor, window, "auto") for window in for_real]
            return ending(monitor, plan, result, data)


def at(monitor: Monitor, time: datetime) -> Monitor:
    """The same monitor at another time, and without a heartbeat, which is for real runs."""
    return replace(monitor, clock=lambda: time, settings=monitor.settings.model_copy(update={"heartbeat_url": None}))


def ending(monitor: Monitor, plan: DemoPlan, result: Run, data: DemoSummary) -> RenderableType:
    """The end of the demo, in 80 columns: what the last week showed, and what had been planted."""
    rows = " and ".join(f"{n:,} rows of {name}" for name, n in data.rows.items())
    verdicts = [verdict for part in result.evaluated for verdict in part.verdicts]
    stories = Teller.of(monitor).of_window(result.diagnoses, verdicts)
    worst = next((story.label for story in needing(stories) if story.label is not None), "LABEL")
    shown = Group(
        run_summary(result.evaluated, stories, result.actions),
        Text(f"({rows} over {WEEKS} weeks were made and evaluated, one for each item and label.)\n"),
        _planted(plan),
        Text(_of_one_that_is_fine(monitor, plan.last)),
        Text.from_markup(_NEXT.format(week=plan.last.name, label=f"{worst:<23}")),
    )
    return Constrain(shown, WIDTH)


def _planted(plan: DemoPlan) -> Table:
    table = plain_table("label", "planted change", "from", title="What had been planted (the monitor does not know)")
    for p in PLANTED:
        table.add_row(f"{p.source}/{p.label}", p.description, plan.weeks[p.week - 1].name)
    return table


def _of_one_that_is_fine(monitor: Monitor, window: Window) -> str:
    """From which score the label could act alone, and how many of its items people would check.

    "" where the alerts.yaml of the demo, which may be a user's own, has not what that needs.
    """
    source, label = FINE
    reading = monitor.store.load_reading(window.schedule, window.start, source)
    if reading is None or label not in reading.labels or source not in monitor.config.sources:
        return ""
    try:
        planned = plan_audit(monitor, source, window, FALL, weeks=4)
    except Refused:
        return ""
    audit = next((each for each in planned if each.label == label), None)
    if audit is None:
        return ""
    found = kept_from(reading.labels[label], monitor.config, source, label)
    point = found.safe
    safe = "From no score on is it shown to keep its promise"
    if point.threshold is not None:
        safe = f"From {point.threshold:g} on ({percent(point.accuracy)} right) it is shown to keep its promise"
    return (
        f"{label} is fine. {safe}; it acts from {found.automate_at:g}.\n"
        f"Where truths stayed away, people would check {audit.checks:,} of {audit.acted:,} items a week that act, to "
        f"see a fall of {100 * FALL:g} points within 4 weeks.\n"
    )


_NEXT = """[bold]Try next[/bold] (with .venv/bin on your PATH, or `.venv/bin/calmon`):
  calmon history --metric ece            every label's trend
  calmon explain {label} why a label is judged as it is
  calmon report --week {week} --html var/report.html
                                         every label on a page, with its figures
  calmon automation status               what may act now, and why
  calmon automation advise --label login from which score it could act
  calmon audit plan --fall 0.15          how many items people must check
  calmon run weekly --week {week}      the same week: nothing is sent twice
  calmon init                            begin with your own data"""
