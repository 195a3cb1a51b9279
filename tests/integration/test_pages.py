"""The overview, the page of a label and its items: every number and sentence is the story's, whatever the week."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.core.diagnoses import Cost, Diagnosis, DiagnosisState, LabelProblem, NotTold, Since
from monitor.core.records import Subject
from monitor.core.windows import before, week
from monitor.history.store import Store
from monitor.run import run_window
from monitor.service.pages.base import PageContext, PageRequest
from monitor.service.pages.items import query_of
from monitor.service.pages.label_history import LabelHistory
from monitor.story.gather import Teller
from monitor.story.label import LabelStory
from tests.fakes.html_tables import table_of
from tests.fakes.in_process import ServiceClient, in_process
from tests.fakes.points import point
from tests.fakes.world import CONFIG, WEEKS, World, acted_world, pinned_world
from tests.fakes.world import rows as warehouse_rows

NOW = datetime(2026, 9, 2, tzinfo=UTC)
HOSTILE = "</td><img src=x onerror=alert(1)>"
STATES = [state.value for state in DiagnosisState]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three weeks, in the last two of which "slipping" is overconfident; ann turned two labels on after the first."""
    return acted_world(tmp_path_factory.mktemp("world"), reason=f"ready {HOSTILE}")


@pytest.fixture
def asked(world: World) -> Iterator[ServiceClient]:
    with in_process(world.settings(), clock=lambda: NOW) as client:
        yield client


def told(world: World, until: datetime | None = None, now: datetime = NOW) -> dict[str | None, LabelStory]:
    with world.opened() as monitor:
        return {story.label: story for story in Teller(monitor.store, monitor.config, now, until).of_all()}


def text_of(page: str) -> str:
    """What a reader sees of a page, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_overview_says_the_story_of_each_label_the_worst_first_and_folds_what_is_fine(
    asked: ServiceClient, world: World
) -> None:
    page, stories = asked.get("/").text, told(world)
    assert stories["slipping"].state is DiagnosisState.UNSAFE
    assert stories["slipping"].sentence in text_of(page).replace(" : ", ": ")
    assert stories["slipping"].switch.words in text_of(page)
    for state in STATES:
        count = sum(story.state == state for story in stories.values())
        assert re.search(rf'href="#{state}"><b>{count}</b>', page)
    unfolded = page[: page.index('<details class="card fold" id="fine">')]
    for label, story in stories.items():
        path = f'href="./label/tickets/{label or ""}"'
        assert path in page
        assert (path in unfolded) == (story.state is not DiagnosisState.FINE)
    shown = {row["label"]: row for row in asked.rows("/?csv=labels")}
    for label, story in stories.items():
        cost, row = story.diagnosis.cost, shown[label or ""]
        assert (row["state"], row["sentence"]) == (story.state.value, story.sentence)
        assert row["extra_errors"] == ("" if cost is None else repr(cost.extra_errors))


def test_strips_are_the_stored_diagnoses_newest_at_the_right(asked: ServiceClient, world: World) -> None:
    with world.opened() as monitor:
        windows = [week(name, monitor.config.zone) for name in WEEKS[9:12]]
        stored = [
            each.state.value for at in windows for each in monitor.store.diagnoses(at) if each.label == "slipping"
        ]
    assert stored == ["fine", "unsafe", "unsafe"]
    (drawn,) = re.findall(
        r'<svg class="strip"[^>]*aria-label="[^"]*must not act alone[^"]*"[^>]*>(.*?)</svg>', asked.get("/").text
    )
    assert re.findall(r'<rect class="(\w+)" x="(\d+)" width="(\d+)"', drawn) == [
        ("fine", "0", "1"),
        ("unsafe", "1", "2"),
    ]
    assert f"<title>{WEEKS[10]} to {WEEKS[11]}: must not act alone</title>" in drawn


def test_the_monitors_page_has_its_runs(asked: ServiceClient, world: World) -> None:
    with world.opened() as monitor:
        stored = [run["window_name"] for run in monitor.store.runs(limit=100, until=NOW)]
    assert [window for window, *_ in table_of(asked.get("/monitor").text, "runs")] == stored
    assert len(stored) == 3


def test_a_past_week_is_told_as_of_its_run(asked: ServiceClient, world: World) -> None:
    window = week(WEEKS[9], UTC)
    page = asked.get(f"/?week={WEEKS[9]}").text
    assert f"Overview as of {WEEKS[9]}" in page
    assert all(story.state is DiagnosisState.FINE for story in told(world, window.end, window.end).values())
    assert "must not act alone:" not in text_of(page)
    assert f'href="./label/tickets/steady?week={WEEKS[9]}"' in page
    label = text_of(asked.get(f"/label/tickets/slipping?week={WEEKS[9]}").text)
    assert "slipping is fine" in label
    second = text_of(asked.get(f"/label/tickets/slipping?week={WEEKS[10]}").text)
    assert "Automation is off" in second
    assert asked.get("/?week=2001-W01").status_code == 404


def test_the_page_of_a_label_has_the_fields_of_its_story_and_no_others(asked: ServiceClient, world: World) -> None:
    with world.opened() as monitor:
        story = Teller(monitor.store, monitor.config, NOW).of_label("tickets", "slipping")
    page = asked.get("/label/tickets/slipping").text
    (card,) = re.findall(r'<section class="card told unsafe".*?</section>', page, re.DOTALL)
    shown = text_of(card).replace(" : ", ": ")
    fields = (story.sentence, story.do_now, story.next_step, story.cost, story.where, story.cause)
    assert [part for part in fields if part not in shown.replace(" ;", ";")] == []
    assert story.switch.words in shown
    assert story.switch.command in shown
    assert '<option value="overconfidence:automated" selected>' in page
    assert page.index("told unsafe") < page.index('id="time"') < page.index('id="scores"') < page.index('id="verdicts"')
    assert 'width="600" height="600"' in page
    assert re.search(r'<details class="card fold" id="verdicts"><summary>', page)


@pytest.mark.parametrize("name", ["13", "26", "52", "all"])
def test_the_range_is_in_the_address(asked: ServiceClient, name: str) -> None:
    assert f'<option value="{name}" selected>' in asked.get(f"/label/tickets/slipping?range={name}").text
    assert asked.get("/label/tickets/slipping?range=7").status_code == 422


def test_items_are_of_the_rows_that_the_trouble_is_about(asked: ServiceClient) -> None:
    of_trouble = table_of(asked.get("/items/tickets/slipping").text, "Items")
    assert {actual for _, _, _, actual, *_ in of_trouble} == {"0"}
    assert min(float(score) for _, _, score, *_ in of_trouble) >= 0.8
    frame = warehouse_rows()
    mine = frame[frame["item"].str.startswith(WEEKS[11])]
    true = {item: set(group["label"]) for item, group in mine[mine["actual"] == 1].groupby("item")}
    for item, _, _, _, labels, *_ in of_trouble:
        assert set(labels.replace("–", "").split(", ")) - {""} == true.get(item, set())
    assert re.search(r"\d+ of 50 are really (steady|rare)", text_of(asked.get("/items/tickets/slipping").text))
    everything = table_of(asked.get("/items/tickets/slipping?rows=all").text, "Items")
    assert min(float(score) for _, _, score, *_ in everything) < 0.8


def test_rows_of_misses_are_those_left_out_and_those_of_a_part_are_of_the_part() -> None:
    window = week("2026-W30", UTC)
    made = Diagnosis("tickets", "a", window, DiagnosisState.UNSAFE, LabelProblem.MISSES, segment=("channel", "web"))
    query = query_of(made, "a", 0.8)
    assert (query.least, query.most, query.segment) == (0.0, 0.5, ("channel", "web"))
    assert query_of(None, "a", 0.8).least == 0.0


def test_200_labels_of_which_9_are_broken_show_these_9_and_nothing_else_in_colour(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(CONFIG)
    made = World(tmp_path, "duckdb:///none.duckdb", f"sqlite:///{tmp_path}/history.sqlite")
    newest = week("2026-W35", UTC)
    broken = [f"label {k:03d}" for k in range(0, 180, 20)]
    since = Since("2026-W30", "2026-W30", "2026-W30")
    with Store.from_url(made.store_url) as store:
        for window in [*before(newest, 25, UTC), newest]:
            fine = [Diagnosis("tickets", f"label {k:03d}", window, DiagnosisState.FINE) for k in range(200)]
            bad = [
                replace(each, state=DiagnosisState.UNSAFE, problem=LabelProblem.OVERCONFIDENT, since=since,
                        cost=Cost(900, 0.5, 0.9, 360 + place, 300, 420))
                if each.label in broken and window.name >= "2026-W30" else each
                for place, each in enumerate(fine)
            ]  # fmt: skip
            store.begin_run(window, ["tickets"], run=window.name, acts=False, rules_revision="1", now=window.end)
            store.save_diagnoses(window, ["tickets"], bad, window.end)
            store.finish_run(window, ["tickets"], state="done", now=window.end)
    with in_process(made.settings(), clock=lambda: newest.end) as client:
        page = client.get("/").text
    unfolded = page[: page.index('<details class="card fold" id="fine">')]
    assert re.findall(r"<a[^>]*>(label \d+) must not act alone</a>", page) == broken[::-1]  # the costliest first
    assert len(re.findall(r'<li class="story (?!unsafe)', unfolded)) == 0
    assert len(page.encode()) < 150_000
    assert "191 fine" in text_of(page)


def test_weeks_without_an_evaluation_are_gaps_in_the_strips_and_a_source_as_a_whole_is_no_label(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(CONFIG)
    made = World(tmp_path, "duckdb:///none.duckdb", f"sqlite:///{tmp_path}/history.sqlite")
    newest = week("2026-W35", UTC)
    with Store.from_url(made.store_url) as store:
        for window in (before(newest, 5, UTC)[-1], newest):
            fine = [Diagnosis("tickets", label, window, DiagnosisState.FINE) for label in ("steady", None)]
            store.begin_run(window, ["tickets"], run=window.name, acts=False, rules_revision="1", now=window.end)
            store.save_diagnoses(window, ["tickets"], fine, window.end)
    with in_process(made.settings(), clock=lambda: newest.end) as client:
        page = client.get("/").text
    assert page.count('viewBox="0 0 6 10"') == 2
    assert re.findall(r'<rect class="fine" x="(\d)"', page) == ["0", "5", "0", "5"]
    assert "1 label and 1 source as a whole fine" in text_of(page)
    assert "1 fine" in text_of(page)


def test_what_cannot_be_told_says_why_and_how_many_labels_are_of_hostile_names(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(CONFIG)
    made, window = (
        World(tmp_path, "duckdb:///none.duckdb", f"sqlite:///{tmp_path}/history.sqlite"),
        week("2026-W35", UTC),
    )
    silent = Diagnosis("tickets", HOSTILE, window, DiagnosisState.CANNOT_TELL, reason=NotTold.TOO_FEW_ROWS)
    with Store.from_url(made.store_url) as store:
        store.begin_run(window, ["tickets"], run="1", acts=False, rules_revision="1", now=window.end)
        store.save_diagnoses(window, ["tickets"], [silent], window.end)
    with in_process(made.settings(), clock=lambda: window.end) as client:
        page = client.get("/").text
    assert "it has too few rows in 2026-W35" in text_of(page)
    assert "Nobody is needed, though 1 label cannot be judged." in text_of(page)
    assert "<img" not in page
    assert 'aria-labelledby="cannot_tell"' in page


@pytest.mark.parametrize(
    "address", ["/", "/automation", "/label/tickets/steady", "/incidents", "/items/tickets/slipping"]
)
def test_nothing_that_people_wrote_is_markup(asked: ServiceClient, address: str) -> None:
    assert "<img" not in asked.get(address).text


def test_a_star_in_place_of_a_label_is_the_source_as_a_whole_as_on_the_command_line(asked: ServiceClient) -> None:
    assert asked.get("/label/tickets/*").text == asked.get("/label/tickets/").text


@pytest.mark.parametrize("automate_at", [0.8, 0.6])
def test_the_baseline_of_a_source_has_the_automated_rows_of_the_present_automate_at(
    tmp_path: Path, automate_at: float
) -> None:
    made = pinned_world(tmp_path)
    config = made.folder / "alerts.yaml"
    config.write_text(config.read_text().replace("automate_at: 0.8", f"automate_at: {automate_at}"))
    with made.opened() as monitor:
        run_window(monitor, week(WEEKS[9], monitor.config.zone), act="never")
        shown = week(WEEKS[9], monitor.config.zone)
        context = PageContext(monitor.store, monitor.config, made.settings(), shown.end, PageRequest({}, {}, "./"))
        history = LabelHistory(context, Subject("tickets", None), [shown])
        compared = history.compared
        value = compared.value("overconfidence", "automated", history.verdicts)
        brier = compared.value("brier", "all", history.verdicts)
        pinned = history.baselines[-1]
    frame = warehouse_rows()
    of_baseline = frame[frame["item"].str[:8].between(pinned.first_window, pinned.last_window)]
    acting = of_baseline[of_baseline["score"] >= automate_at]
    assert value == pytest.approx(acting["score"].mean() - acting["actual"].mean())
    assert brier == pytest.approx(point("brier", pinned.counts), rel=1e-12)


def test_documents_are_grouped_and_found_by_their_titles(asked: ServiceClient) -> None:
    page = asked.get("/docs/").text
    headings = re.findall(r"<h2>([^<]+)</h2>", page)
    assert headings == ["Start", "Run", "Decide", "Rules", "Read", "Reference", "Method", "Runbook", "Development"]
    found = asked.get("/docs/?q=GATE").text
    assert 'href="gate"' in found
    assert 'href="tutorial"' not in found
    assert "No title has this" in asked.get("/docs/?q=%3Cb%3E").text
