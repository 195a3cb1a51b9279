"""``calmon demo``: the whole job on made-up data, without Prefect."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.cli import common as cli
from monitor.config.load import load_config
from monitor.config.settings import Settings
from monitor.context import utc_now
from monitor.core.files import write_whole
from monitor.core.shipped import RULES_FILE, shipped
from monitor.core.windows import last_ready
from monitor.demo import story
from monitor.demo.progress import steps
from monitor.operations.open import open_monitor
from monitor.operations.pin_baseline import pin
from monitor.run import run_window

FOLDER = Path("calmon-demo")


@cli.app.command(epilog="Example:  calmon demo")
def demo() -> None:
    """Make 26 weeks of tickets and e-mails, pin, backfill, run the last week, and say what was found.

    Where there is no alerts.yaml, it does so in a new folder, calmon-demo, with the rules that are shipped.
    """
    with cli.plain_errors():
        settings = cli.settings()
        moved = not (os.environ.get("CALMON_CONFIG") or settings.config.exists())
        if moved:
            _enter_a_folder_of_its_own()
        _print_story(settings)
    if moved:
        cli.say(f"All of it is in the folder {FOLDER}; before these commands: cd {FOLDER}")


def _enter_a_folder_of_its_own() -> None:
    """Work in the demo's own folder, so that later work in the present folder has a history of its own."""
    FOLDER.mkdir(exist_ok=True)
    os.chdir(FOLDER)
    if not Path(RULES_FILE).exists():
        write_whole(Path(RULES_FILE), shipped(RULES_FILE).read_text("utf-8"))


def _print_story(settings: Settings) -> None:
    zone = load_config(settings.config).zone
    newest = last_ready("weekly", utc_now(), zone)  # once: a week may become ready while the story runs
    with steps() as step:
        summary = story.write(settings, newest, step.of("writing tickets and e-mails"))
        with open_monitor(settings) as opened:
            plan = story.plan_of(newest, zone)
            monitor = story.at(opened, plan.last.start)
            step.begin("pinning the baseline", 1)
            pin(monitor, *plan.baseline, by="demo", reason="the first weeks of the demo", try_again=True)
            story.turn_on(monitor)
            step.begin("backfill", len(plan.backfilled))
            for window in plan.backfilled:
                run_window(monitor, window, act="never")
                step.advance()
            step.begin(f"running {plan.last.name} for real", 1)
            monitor = story.at(opened, plan.due)
            result = run_window(monitor, plan.last)
            ending = story.ending(monitor, plan, result, summary)
    cli.out.print(ending)
