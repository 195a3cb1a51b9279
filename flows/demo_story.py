"""The demo's story as a flow, step by step through the same tasks as a real run."""

from __future__ import annotations

import os

from prefect import flow
from rich.console import RenderableType

from flows.rebaseline import pin_weeks
from flows.stages import PUBLISHED, evaluate_window
from monitor.config.settings import load_settings
from monitor.context import ActMode, Monitor
from monitor.core.records import Window
from monitor.demo import story
from monitor.run import STAGES, Run


# No failure hooks: a person is watching, and made-up failures should notify nobody.
@flow(name="calmon-demo", timeout_seconds=1800)
def demo() -> RenderableType:
    """Write the data, pin a baseline, turn on, backfill, run the last week; returns a table of the results."""
    return story.tell(load_settings(os.environ), _pin, _judge)


def _pin(monitor: Monitor, first: Window, last: Window) -> None:
    pin_weeks(monitor, first.name, last.name, None, "the first weeks of the demo", "demo")


def _judge(monitor: Monitor, window: Window, mode: ActMode) -> Run:
    stages = PUBLISHED if mode == "auto" else STAGES
    return evaluate_window(monitor, window, list(monitor.config.sources), mode, stages)
