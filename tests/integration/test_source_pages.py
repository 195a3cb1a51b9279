"""What the pages say of the automation of a source as a whole, whose own switch nobody has set."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.core.baseline import Baseline
from monitor.core.records import Subject
from monitor.core.windows import week
from monitor.history import tables
from monitor.metrics.registry import METRICS
from monitor.operations.change_switch import change_switch
from monitor.run import run_window
from monitor.service.pages.base import PageContext, PageRequest
from monitor.service.pages.label import LabelHistory
from tests.fakes.in_process import ServiceClient, in_process
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world, rows

RULE = """\
  - {id: source-ece, metric: ece, where: predicted, scope: source, condition: above, threshold: 0.05,
     severity: critical, actions: [slack]}
automation:"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One week of three labels and of the source as a whole."""
    made = pinned_world(tmp_path, config=CONFIG.replace("automation:", RULE))
    with made.opened() as monitor:
        run_window(monitor, week(WEEKS[9], monitor.config.zone), act="never")
    return made


@pytest.fixture
def asked(world: World) -> Iterator[ServiceClient]:
    with world.opened() as monitor:
        at = week(WEEKS[9], monitor.config.zone).end + timedelta(hours=7)
    with in_process(world.settings(), clock=lambda: at) as found:
        yield found


def turn(world: World, label: str | None, *, on: bool) -> None:
    with world.opened(lambda: week(WEEKS[9], monitor.config.zone).end + timedelta(hours=6)) as monitor:
        change_switch(monitor, "tickets", label, enable=on, by="ann", reason="why not")


def of_source(asked: ServiceClient) -> tuple[str, str]:
    """What the overview's CSV and the source's own page say of its automation."""
    rows = csv.DictReader(io.StringIO(asked.get("/?csv=labels").text))
    (listed,) = [row["automation"] for row in rows if not row["label"]]
    page = html.unescape(re.sub("<[^>]+>", "", asked.get("/label/tickets/").text))
    found = re.search(r"Automation now: ([^;]+);", page)
    assert found is not None
    return listed, found[1]


def test_a_source_whose_own_switch_was_never_set_has_the_automation_of_its_labels(
    asked: ServiceClient, world: World
) -> None:
    assert of_source(asked) == ("off for every label", "off for every label")
    turn(world, "steady", on=True)
    assert of_source(asked) == ("on for 1 label", "on for 1 label")
    turn(world, "slipping", on=True)
    assert of_source(asked) == ("on for 2 labels", "on for 2 labels")
    turn(world, None, on=False)
    assert of_source(asked) == ("the whole source is off", "the whole source is off")


def test_a_star_in_place_of_a_label_is_the_source_as_a_whole_as_on_the_command_line(asked: ServiceClient) -> None:
    assert asked.get("/label/tickets/*").text == asked.get("/label/tickets/").text


def test_the_band_of_a_source_is_on_while_a_label_of_it_is(asked: ServiceClient, world: World) -> None:
    assert "on for some labels or all from" not in asked.get("/label/tickets/").text
    with world.opened() as monitor:
        start = week(WEEKS[9], monitor.config.zone).start
    with world.opened(lambda: start + timedelta(days=2)) as monitor:
        change_switch(monitor, "tickets", "steady", enable=True, by="ann", reason="why not")
    assert "on for some labels or all from" in asked.get("/label/tickets/").text


def references(world: World, source: str) -> tuple[float | None, float | None, Baseline]:
    """The baseline's overconfidence of automated rows and its Brier score on the page of the source as a whole."""
    config = world.folder / "alerts.yaml"
    config.write_text(config.read_text().replace("automate_at: 0.8", source))
    with world.opened() as monitor:
        shown = week(WEEKS[9], monitor.config.zone)
        context = PageContext(monitor.store, monitor.config, world.settings(), shown.end, PageRequest({}, {}, "./"))
        history = LabelHistory(context, Subject("tickets", None), [shown], shown)
        found = history.reference(("overconfidence", "automated")), history.reference(("brier", "all"))
        return (*found, history.baselines[-1])


@pytest.mark.parametrize("automate_at", [0.8, 0.6])
def test_the_baseline_of_a_source_has_the_automated_rows_of_the_present_automate_at(
    world: World, automate_at: float
) -> None:
    value, brier, pinned = references(world, f"automate_at: {automate_at}")
    of_baseline = rows()[lambda each: each["item"].str[:8].between(pinned.first_window, pinned.last_window)]
    acting = of_baseline[of_baseline["score"] >= automate_at]
    assert value == pytest.approx(acting["score"].mean() - acting["actual"].mean())
    assert brier == METRICS["brier"].point(pinned.counts)


def test_a_baseline_of_a_source_that_cannot_be_cut_shows_no_automated_rows(world: World) -> None:
    """One of its labels acts from another score, and has no baseline that says which rows are its own."""
    engine = sa.create_engine(world.store_url)
    with engine.begin() as connection:
        connection.execute(sa.delete(tables.baselines).where(tables.baselines.c.label == "steady"))
    engine.dispose()
    value, brier, pinned = references(world, "automate_at: 0.6\n    labels: {steady: {automate_at: 0.9}}")
    assert (value, brier) == (None, METRICS["brier"].point(pinned.counts))


def test_sources_are_counted_beside_labels(asked: ServiceClient) -> None:
    heading = re.search(r'<h2 id="labels">([^<]*)', asked.get("/").text)
    assert heading is not None
    assert re.fullmatch(r"\d+ labels and 1 source as a whole by attention", heading[1])
    assert re.search(r'<h2 id="labels">1 label by attention', asked.get("/?q=steady").text)
