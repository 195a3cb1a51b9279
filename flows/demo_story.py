"""The demo's story as a flow, step by step through the same tasks as a real run."""

from __future__ import annotations

import os

from prefect import flow
from rich.console import RenderableType

from flows.rebaseline import pin_weeks
from flows.stages import PUBLISHED, evaluate_window
from monitor.config.load import load_config
from monitor.config.settings import load_settings
from monitor.context import utc_now
from monitor.core.windows import last_ready
from monitor.demo import story
from monitor.demo.progress import steps
from monitor.operations.open import open_monitor


# No failure hooks: a person is watching, and made-up failures should notify nobody.
@flow(name="calmon-demo", timeout_seconds=1800)
def demo() -> RenderableType:
    """Write the data, pin a baseline, turn on, backfill, run the last week; returns a table of the results."""
    settings = load_settings(os.environ)
    zone = load_config(settings.config).zone
    newest = last_ready("weekly", utc_now(), zone)  # computed once: a week may become ready while the story runs
    with steps() as step:
        summary = story.write(settings, newest, step.of("writing tickets and e-mails"))
        with open_monitor(settings) as opened:
            plan = story.plan_of(newest, zone)
            monitor = story.at(opened, plan.last.start)
            names = list(monitor.config.sources)
            step.begin("pinning the baseline", 1)
            first, last = plan.baseline
            pin_weeks(monitor, first.name, last.name, None, "the first weeks of the demo", "demo")
            story.turn_on(monitor)
            step.begin("backfill", len(plan.backfilled))
            for window in plan.backfilled:
                evaluate_window(monitor, window, names, "never")
                step.advance()
            step.begin(f"running {plan.last.name} for real", 1)
            monitor = story.at(opened, plan.due)
            result = evaluate_window(monitor, plan.last, names, "auto", PUBLISHED)
            return story.ending(monitor, plan, result, summary)
