"""The demo as a story in five steps; ``calmon demo`` and ``python -m flows.demo`` both run it.

write the data -> pin the baseline -> turn automation on -> backfill -> run the last week for real

Its clock shows two times, whatever the day on which it runs: the begin of the last week for all but the last step, and
the time when that week was due for the last step. So its numbers are those of a run in time, and no lease has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text
from sqlalchemy.engine import make_url

from monitor.config.load import load_config
from monitor.config.settings import Settings
from monitor.context import ActMode, Monitor, utc_now
from monitor.core import windows
from monitor.core.records import Refused, Window, WrongRequest
from monitor.core.wording import percent
from monitor.demo.generator import write_demo
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
    # once: a week may become ready meanwhile
    weeks = windows.up_to(windows.last_ready("weekly", utc_now(), zone), WEEKS, zone)
    end = weeks[-1]
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

        rows = write_demo(prepare(settings), end, progress=written)
        with open_monitor(settings) as opened:
            monitor = at(opened, end.start)
            for last in progress.track([weeks[BASELINE_WEEKS - 1]], description="pinning the baseline"):
                pin_weeks(monitor, weeks[0], last)
                for source in monitor.config.sources:  # as an operator does who has pinned a baseline
                    for label in known_labels(monitor, source):
                        change_switch(monitor, source, label, enable=True, by="demo", reason="start of the demo")
            for window in progress.track(weeks[BASELINE_WEEKS:-1], description="backfill"):
                judge(monitor, window, "never")
            monitor = at(opened, end.end + windows.SETTLE)
            for_real = progress.track([end], description=f"running {end.name} for real")
            (result,) = [judge(monitor, window, "auto") for window in for_real]
            return ending(monitor, weeks, result, rows)


def at(monitor: Monitor, time: datetime) -> Monitor:
    """The same monitor at another time, and without a heartbeat, which is for real runs."""
    return replace(monitor, clock=lambda: time, settings=monitor.settings.model_copy(update={"heartbeat_url": None}))


def ending(monitor: Monitor, weeks: Sequence[Window], result: Run, rows: Mapping[str, int]) -> RenderableType:
    """The end of the demo, in 80 columns: what the last week showed, and what had been planted."""
    made, end = " and ".join(f"{n:,} rows of {name}" for name, n in rows.items()), weeks[-1]
    table = plain_table("label", "planted change", "from", title="What had been planted (the monitor does not know)")
    for p in PLANTED:
        table.add_row(f"{p.source}/{p.label}", p.description, weeks[p.week - 1].name)
    verdicts = [verdict for part in result.evaluated for verdict in part.verdicts]
    stories = Teller.of(monitor).of_window(result.diagnoses, verdicts)
    worst = next((story.label for story in needing(stories) if story.label is not None), "LABEL")
    shown = Group(
        run_summary(result.evaluated, stories, result.actions),
        Text(f"({made} over {WEEKS} weeks were made and evaluated, one for each item and label.)\n"),
        table,
        Text(_of_one_that_is_fine(monitor, end)),
        Text.from_markup(_NEXT.format(week=end.name, label=f"{worst:<23}")),
    )
    return Constrain(shown, WIDTH)


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
