"""``calmon demo``: the whole job on made-up data, without Prefect."""

from __future__ import annotations

from monitor.cli import common as cli
from monitor.config.load import load_config
from monitor.context import utc_now
from monitor.core.windows import last_ready
from monitor.demo import story
from monitor.demo.progress import steps
from monitor.operations.open import open_monitor
from monitor.operations.pin_baseline import pin
from monitor.run import run_window


@cli.app.command(epilog="Example:  calmon demo")
def demo() -> None:
    """Make 26 weeks of tickets and e-mails, pin, backfill, run the last week, and say what was found."""
    with cli.plain_errors():
        try:
            _print_story()
        except story.DemoRefused as error:
            raise cli.fail(str(error), cli.USAGE) from error


def _print_story() -> None:
    settings = cli.settings()
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
