"""``calmon demo``: the whole job on made-up data, without Prefect."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.cli import common as cli
from monitor.context import ActMode, Monitor
from monitor.core.files import write_whole
from monitor.core.records import Window
from monitor.core.shipped import RULES_FILE, shipped
from monitor.demo import story
from monitor.operations.pin_baseline import pin
from monitor.run import Run, run_window

FOLDER = Path("calmon-demo")


@cli.app.command(epilog="Example:  calmon demo")
def demo() -> None:
    """Make 26 weeks of tickets and e-mails, pin, backfill, run the last week, and say what was found.

    Where there is no alerts.yaml, it does so in a new folder, calmon-demo, with the rules that are shipped.
    """
    settings = cli.settings()
    moved = not (os.environ.get("CALMON_CONFIG") or settings.config.exists())
    if moved:
        _enter_a_folder_of_its_own()
    cli.out.print(story.tell(settings, _pin, _judge))
    if moved:
        cli.say(f"All of it is in the folder {FOLDER}; before these commands: cd {FOLDER}")


def _enter_a_folder_of_its_own() -> None:
    """Work in the demo's own folder, so that later work in the present folder has a history of its own."""
    FOLDER.mkdir(exist_ok=True)
    os.chdir(FOLDER)
    if not Path(RULES_FILE).exists():
        write_whole(Path(RULES_FILE), shipped(RULES_FILE).read_text("utf-8"))


def _pin(monitor: Monitor, first: Window, last: Window) -> None:
    pin(monitor, first, last, by="demo", reason="the first weeks of the demo", try_again=True)


def _judge(monitor: Monitor, window: Window, mode: ActMode) -> Run:
    return run_window(monitor, window, act=mode)
