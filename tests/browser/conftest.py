"""One service over one small history, and one Chromium, for all tests of the dashboard's pages in a module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, sync_playwright

from monitor.context import Monitor
from monitor.core.windows import week
from monitor.history.store import Store
from monitor.operations.annotate import NewAnnotation, annotate
from monitor.operations.change_switch import change_switch
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.fakes.service import Place, Running, running
from tests.fakes.world import BASELINE, CONFIG, WEEKS, make_world

PATIENCE_MS = 300_000  # for what takes a second or two on a machine of one's own
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)

COST = 3
COSTS = CONFIG.replace("    automate_at: 0.8", f"    automate_at: 0.8\n    costs: {{false_positive: {COST}}}")
LASTING = """\
  - {id: lasting-overconfidence, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02,
     min_samples: 30, severity: warning, actions: [slack]}
automation:"""
RULES = COSTS.replace("automation:", LASTING)
VERSIONS = {"2.1": WEEKS[7:10], "2.2": WEEKS[10:12]}
HOSTILE = "</td><img src=x onerror=document.title='gone'>"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Five weeks of two model versions, the second in breach; one label turned off, one of a hostile name on."""
    world = make_world(tmp_path_factory.mktemp("world"), config=RULES)
    with world.opened() as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="ann", reason="start")
        for name in WEEKS[7:12]:
            run_window(monitor, week(name, zone), act="never" if name < WEEKS[10] else "auto")
        name_versions(monitor)
        change_switch(monitor, "tickets", "steady", enable=False, by="ann", reason="looked <b>odd</b>")
        note = NewAnnotation("tickets", None, week(WEEKS[9], zone).start, "prompt <i>v7</i>", "ann")
        annotate(monitor.store, note, monitor.clock)
        change_switch(monitor, "tickets", HOSTILE, enable=True, by="ann", reason="why not")
    with running(Place(world.folder, world.store_url, {}), CALMON_WAREHOUSE_URL=world.warehouse_url) as found:
        yield found


def name_versions(monitor: Monitor) -> None:
    """Every row of a week is of one model version, as if its column said so."""
    for version, names in VERSIONS.items():
        for name in names:
            window = week(name, monitor.config.zone)
            reading = monitor.store.load_reading("weekly", window.start, "tickets")
            assert reading is not None
            monitor.store.save_reading(window, replace(reading, versions={version: reading.rows}), monitor.clock())


CUT_TEXTS = """() => [...document.querySelectorAll("svg text")].filter(text => {
    const whole = text.ownerSVGElement.getBoundingClientRect(), here = text.getBoundingClientRect();
    return here.width && (here.right > whole.right + 1 || here.left < whole.left - 1
        || here.bottom > whole.bottom + 1 || here.top < whole.top - 1);
}).map(text => text.textContent)"""
"""What a page has of figures' texts that leave their drawing, and are cut there."""


@pytest.fixture(scope="module")
def incident(service: Running) -> str:
    """The first stored incident, by its id."""
    with Store.from_url(service.place.store_url) as store:
        return store.incidents()[0].id


def follow(link: Locator) -> None:
    """Click on it and wait until the page that it leads to is loaded: a click alone may return before it leaves."""
    with link.page.expect_navigation():
        link.click()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser of the module's own; tests that want one are skipped, and say why, where there is none."""
    if CHROMIUM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("not run: no Chromium found (apt-get install chromium)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--headless"],
            timeout=PATIENCE_MS,
        )
        yield found
        found.close()
