"""The pages on automation and rules, and the form: numbers are the history's, changes need a token."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from monitor.automation.as_of import by_switch, time_on
from monitor.core.page_paths import label_path
from monitor.core.records import SegmentSwitch, SwitchEvent
from monitor.core.windows import week
from monitor.operations.change_switch import change_switch
from monitor.run import run_window
from monitor.service.tokens import TokensFile
from tests.fakes.alerts_world import CONFIG as CONFIG_OF_ALERTS
from tests.fakes.alerts_world import Judged, alerts_world
from tests.fakes.in_process import ServiceClient, in_process
from tests.fakes.world import CONFIG, WEEKS, World, acted_world, make_world, pinned_world

HOSTILE = "=1+1</td><script>alert(1)</script>"
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
NOW = datetime(2026, 9, 2, tzinfo=UTC)
COSTS = CONFIG.replace("    automate_at: 0.8", "    automate_at: 0.8\n    costs: {false_positive: 3}")
COSTS = COSTS.replace("severity: info, actions: [slack]", "severity: info, actions: []")
TOKENS = {"reader": {"read"}, "stopper": {"disable"}, "starter": {"enable"}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three weeks, the last two of which act: ann turned two labels on after the first, a run "slipping" off."""
    return acted_world(tmp_path_factory.mktemp("world"), config=COSTS, reason=HOSTILE)


@pytest.fixture(scope="module")
def tokens(world: World) -> dict[str, str]:
    file = TokensFile(world.folder / "tokens")
    return {name: file.add(name, frozenset(scopes)) for name, scopes in TOKENS.items()}  # type: ignore[arg-type]


@pytest.fixture
def asked(world: World, tokens: dict[str, str]) -> Iterator[ServiceClient]:
    with in_process(world.settings(), world.folder / "tokens", token=tokens["reader"], clock=lambda: NOW) as found:
        yield found


def test_a_rule_without_actions_says_that_its_verdicts_are_stored(asked: ServiceClient) -> None:
    cards = asked.get("/rules").text.split('<section class="card" id="')[1:]
    (shift,) = [card for card in cards if card.startswith("score-shift")]
    assert "→ no action: its verdicts are stored</p>" in shift
    assert all("→ </p>" not in card for card in cards)


def test_what_acted_and_what_it_cost_in_a_month_follow_from_the_stored_numbers(
    asked: ServiceClient, world: World
) -> None:
    by_month = {row["month"]: row for row in asked.rows("/automation?csv=months&label=slipping&source=tickets")}
    wanted = dict.fromkeys(
        ("predicted", "could_have_acted", "acted", "wrong_actions", "extra_errors", "errors_avoided"), 0.0
    )
    with world.opened() as monitor:
        events, weeks = (
            by_switch(monitor.store.switch_events("tickets")),
            [week(name, monitor.config.zone) for name in WEEKS[9:12]],
        )
        for window in weeks:
            stored = monitor.store.estimates(source="tickets", label="slipping", window_start=window.start)
            found = {(e.metric, e.where): e for e in stored}
            on = time_on(events, ("tickets", "slipping"), window.start, window.end)
            eligible = found["overconfidence", "automated"].n
            accuracy = found["automated_accuracy", "all"].interval.value or 0.0
            excess = found["excess_errors", "all"].interval.value or 0.0
            wanted["predicted"] += found["overconfidence", "predicted"].n
            wanted["could_have_acted"] += eligible
            wanted["acted"] += on * eligible
            wanted["wrong_actions"] += on * eligible * (1 - accuracy)
            wanted["extra_errors"] += on * excess
            first = min(e.at for e in events["tickets", "slipping"] if e.to_state == "on")
            before = max(first - window.start, timedelta(0)) / (window.end - window.start)
            wanted["errors_avoided"] += (1 - on - min(before, 1)) * excess
    (august,) = [row for name, row in by_month.items() if name == "Aug 2026"]
    assert {name: float(august[name]) for name in wanted} == pytest.approx(wanted)
    assert float(august["cost_of_wrong_actions"]) == pytest.approx(3 * wanted["wrong_actions"])
    assert float(august["avoided_low"]) < wanted["errors_avoided"] < float(august["avoided_high"])
    assert 0 < wanted["acted"] < wanted["could_have_acted"]
    never = asked.rows("/automation?csv=months&label=rare&source=tickets")
    assert {float(row["errors_avoided"]) for row in never} <= {0.0}


def test_labels_of_a_source_that_was_turned_off_long_before_the_weeks_shown_have_not_acted(tmp_path: Path) -> None:
    made, clock = pinned_world(tmp_path), [NOW]
    with made.opened(lambda: clock[0]) as monitor:
        windows = [week(name, monitor.config.zone) for name in WEEKS[9:12]]
        clock[0] = windows[0].start - timedelta(days=60)
        change_switch(monitor, "tickets", None, enable=False, by="ann", reason="holidays")
        for place, window in enumerate(windows):
            clock[0] = window.end + timedelta(hours=7)
            run_window(monitor, window, act="auto" if place else "never")
            if place == 0:
                change_switch(monitor, "tickets", "steady", enable=True, by="ann", reason="ready")
    with in_process(made.settings(), clock=lambda: NOW) as asked:
        work = asked.rows("/automation?csv=months&label=steady&source=tickets")
    assert {(float(row["acted"]), float(row["could_have_acted"]) > 0) for row in work} == {(0.0, True)}


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("method", "address", "status", "said", "root"),
    [
        ("GET", "/nowhere", 404, "There is nothing at this address", "./"),
        ("GET", "/label/a/<b>/nowhere?x=1", 422, "a query parameter is unknown or is given twice", "../../../"),
        ("GET", "/docs/nowhere", 404, "There is nothing at this address", "../"),
        ("GET", "/?week=2001-W01", 404, "That week has not been evaluated", "./"),
        ("GET", "/?range=odd", 422, "range is one of: 26, ", "./"),
        ("GET", "/drift", 422, "query.source: Field required", "./"),
        ("POST", "/rules", 405, "allowed: GET, HEAD, OPTIONS", "./"),
    ],
)
def test_a_browser_gets_an_error_as_a_page_and_a_program_as_a_problem(
    asked: ServiceClient, method: str, address: str, status: int, said: str, root: str
) -> None:
    answer = asked.request(method, address, headers={"Accept": BROWSER})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in answer.text
    assert f'<a href="{root}">To the overview</a>' in answer.text
    assert f'href="{root}static/page.css' in answer.text
    assert "<b>" not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    for accept in ("*/*", "application/json", f"application/json, {BROWSER}"):
        problem = asked.request(method, address, headers={"Accept": accept})
        assert (problem.status_code, problem.headers["content-type"]) == (status, "application/problem+json")
        assert problem.headers.get("allow") == answer.headers.get("allow")


@pytest.mark.parametrize("address", ["/v1/nowhere", "/v1/automation/nowhere/x", "/v1", "/metrics?x=1"])
def test_an_address_of_programs_answers_a_browser_with_json_as_well(asked: ServiceClient, address: str) -> None:
    answer = asked.get(address, headers={"Accept": BROWSER})
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_browser_that_gives_no_token_is_still_asked_for_one(world: World, tokens: dict[str, str]) -> None:
    with in_process(world.settings(), world.folder / "tokens", clock=lambda: NOW) as asked:
        answer = asked.get("/items", headers={"Accept": BROWSER})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert "any name, and a token of the scope read" in answer.text


def test_who_turned_a_label_off_and_on_is_listed_newest_first(asked: ServiceClient) -> None:
    changes = asked.rows("/automation?csv=changes&label=slipping&source=tickets")
    assert [(row["kind"], row["by"]) for row in changes] == [("disabled", "weekly run"), ("enabled", "ann")]
    assert changes[1]["reason"] == f"'{HOSTILE}"
    page = asked.get("/automation").text
    assert re.search(r"enabled<span class=\"under\">holds against runs until \d", page)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def form(
    asked: ServiceClient, address: str, fields: dict[str, str], headers: dict[str, str] | None = None
) -> tuple[int, str]:
    sent_from = SAME_SITE if headers is None else headers
    answer = asked.post(address, data=fields, headers={"Accept": BROWSER, **sent_from})
    back = f'<a href="./{address.removeprefix("/")}">Back</a>. Nothing was changed.'
    assert answer.status_code == 303 or (back in answer.text and "Not done: " in answer.text)
    return answer.status_code, answer.headers.get("location", "") or answer.text


def test_a_label_is_turned_on_and_off_by_a_token_with_that_scope_and_a_reason(
    asked: ServiceClient, world: World, tokens: dict[str, str]
) -> None:
    wanted = {"source": "tickets", "label": "rare", "switch": "enable", "reason": "looked at it", "until": ""}
    for name, said in (("reader", "may read, but not enable"), ("stopper", "may disable, but not enable")):
        status, text = form(asked, "/automation", wanted | {"token": tokens[name]})
        assert (status, said in text) == (403, True), text
    assert form(asked, "/automation", wanted | {"token": ""})[0] == 401
    assert form(asked, "/automation", wanted | {"token": "calmon_nonsense"})[0] == 401
    assert form(asked, "/automation", wanted | {"token": tokens["starter"], "reason": " "})[0] == 422
    assert form(asked, "/automation", wanted | {"token": tokens["starter"], "label": "nobody"})[0] == 404
    with world.opened() as monitor:
        assert monitor.store.switch("tickets", "rare").actor != "api:starter"
    done = form(asked, "/automation", wanted | {"token": tokens["starter"]})
    assert done == (303, "automation?source=tickets&label=rare#switch")
    off = wanted | {"switch": "disable", "until": "2026-09-03T08:00", "token": tokens["stopper"]}
    assert form(asked, "/automation", off)[0] == 303
    with world.opened() as monitor:
        found = monitor.store.switch("tickets", "rare")
        assert (found.state, found.actor, found.reason) == ("off", "api:stopper", "looked at it")
        assert found.hold_until == datetime(2026, 9, 3, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"}, {},
        {"Origin": "http://evil.example"}, {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:8080"},
    ],
)  # fmt: skip
def test_a_form_of_another_site_does_nothing_even_with_a_token(
    asked: ServiceClient, world: World, tokens: dict[str, str], headers: dict[str, str]
) -> None:
    wanted = {"source": "tickets", "label": "steady", "switch": "disable", "reason": "x", "token": tokens["stopper"]}
    status, text = form(asked, "/automation", wanted, headers)
    assert (status, "not sent from a page of this service" in text) == (422, True)
    with world.opened() as monitor:
        assert monitor.store.switch("tickets", "steady").actor != "api:stopper"


def test_an_old_browser_says_where_a_form_is_from_by_its_origin(asked: ServiceClient, tokens: dict[str, str]) -> None:
    wanted = {"source": "tickets", "switch": "disable", "reason": "x", "token": tokens["reader"]}
    assert form(asked, "/automation", wanted, {"Origin": "http://127.0.0.1:8080"})[0] == 403


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("/automation", {"source": "tickets", "switch": "destroy", "reason": "x"}), ("/automation", {"what": "ever"}),
    ],
)  # fmt: skip
def test_a_form_that_is_not_as_it_must_be_is_refused(
    asked: ServiceClient, address: str, fields: dict[str, str]
) -> None:
    assert form(asked, address, fields)[0] == 422


def test_without_a_tokens_file_nothing_can_be_changed(world: World) -> None:
    with in_process(world.settings(), clock=lambda: NOW) as asked:
        wanted = {"source": "tickets", "label": "steady", "switch": "disable", "reason": "x", "token": "calmon_x"}
        status, text = form(asked, "/automation", wanted)
    assert (status, "no tokens file" in text) == (403, True)


def test_the_firings_of_a_rule_are_the_stored_breaches(asked: ServiceClient, world: World) -> None:
    cards = dict(re.findall(r'<section class="card" id="([^"]+)"(.*?)</section>', asked.get("/rules").text, re.DOTALL))
    with world.opened() as monitor:
        for rule in ("automated-overconfidence", "ece-increase", "score-shift"):
            stored = monitor.store.verdicts(rule=rule)
            for outcome in ("breach", "unconfirmed", "ok", "not_evaluated"):
                count = sum(verdict.outcome == outcome for verdict in stored)
                assert f"{count} {outcome.replace('_', ' ')}" in cards[rule]
            labels = Counter(verdict.subject.label for verdict in stored if verdict.outcome == "breach")
            told = re.findall(r"<bdi>(\w+)</bdi></a> (\d+)×", cards[rule])
            assert {name: int(windows) for name, windows in told} == labels
    assert "slipping</bdi>" in cards["automated-overconfidence"]


def test_shift_tests_of_the_week_are_on_the_page_of_a_label_with_a_link_to_the_page_of_the_columns(
    asked: ServiceClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    week_, link = WEEKS[11], f"drift?source=tickets&amp;week={WEEKS[11]}"
    page = asked.get(f"/label/tickets/steady?week={week_}").text
    assert re.search(r"(No shift found in|Shift found in \d of) 3 tests", page)
    assert link not in page
    assert asked.get(f"/drift?source=tickets&week={week_}").status_code == 404
    kept = tmp_path / "var" / "reports" / "weekly" / week_ / "drift-tickets.html"
    kept.parent.mkdir(parents=True)
    kept.write_text("<p>columns</p>", encoding="utf-8")
    assert link in asked.get(f"/label/tickets/steady?week={week_}").text
    found = asked.get(f"/drift?source=tickets&week={week_}")
    assert (found.status_code, found.text) == (200, "<p>columns</p>")
    assert found.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    for source, name in (("../tickets", week_), ("tickets", "../2026-W30"), ("..", week_)):
        assert asked.get("/drift?" + urlencode({"source": source, "week": name})).status_code == 404


def test_scores_and_segments_that_were_off_are_on_the_page_of_their_label(asked: ServiceClient, world: World) -> None:
    with world.opened() as monitor:
        store, end = monitor.store, week(WEEKS[11], monitor.config.zone).end
        state = store.switch("tickets", "steady")
        off, held = SegmentSwitch("channel", "web", off_from=NOW), SegmentSwitch("channel", "email")
        event = SwitchEvent(
            "blocked:1", "tickets", "steady", end - timedelta(days=2), "blocked", "on", "on", "weekly run", "a breach",
            blocked=((0.85, 0.9), (0.95, 1.0)), segments=(off, held),
        )  # fmt: skip
        assert store.apply_switch(state, state, event) == "applied"
    page = asked.get("/label/tickets/steady").text
    assert "channel = web and scores 0.85 to 0.9, 0.95 to 1 off from 29 Aug" in page
    assert "channel = email" not in page


@pytest.mark.parametrize("label", ["new\tTab", "a\x85b", "plain"])
def test_a_label_with_a_control_character_has_a_page_as_any_other(asked: ServiceClient, label: str) -> None:
    answer = asked.get(f"/{label_path('tickets', label)}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")


def test_where_only_days_are_judged_the_overview_shows_who_needs_somebody(tmp_path: Path) -> None:
    daily = CONFIG_OF_ALERTS.replace("min_samples: 30,", "min_samples: 30, schedule: daily,")
    with alerts_world(tmp_path, config=daily) as world:
        world.evaluate("2026-01-05", [Judged("billing", "automated-overconfidence", "breach", 0.12)])
        now = world.clock.now
    made = make_world(tmp_path, config=daily, warehouse_url=f"duckdb:///{tmp_path / 'unused.duckdb'}")
    with in_process(made.settings(), clock=lambda: now) as asked:
        page = asked.get("/").text
    assert "No week has been evaluated yet" in page
    assert "billing must not act alone" in page
    assert "Needs somebody: must not act alone" in page


def test_before_the_first_run_pages_say_so_and_that_no_item_was_read(tmp_path: Path) -> None:
    with in_process(pinned_world(tmp_path).settings(), clock=lambda: NOW) as asked:
        items, monitor = asked.get("/items/tickets/steady").text, asked.get("/monitor").text
    assert "No week has been evaluated yet" in items
    assert "No such row" not in items
    assert "from the history alone" in items
    assert "Nothing has been run yet" in monitor
    assert "Nothing is wrong with the monitor itself" not in monitor


def test_a_page_with_rows_of_the_warehouse_says_that_it_is_not_from_the_history_alone(world: World) -> None:
    items = "/items/tickets/slipping"
    with in_process(world.settings(), clock=lambda: NOW) as asked:
        pages = [asked.get(address).text for address in (items, f"{items}?from=0.99999&to=0.99999")]
        assert "from the history alone" in asked.get("/monitor").text
    assert "No such row" in pages[1]
    for page in pages:
        assert "Read from the warehouse now" in page
        assert "items from the warehouse, weeks from the history</footer>" in page
        assert "from the history alone" not in page


def test_a_page_s_own_mistake_is_the_service_s_and_not_the_history_s(
    asked: ServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(*_: object) -> None:
        raise KeyError("nobody wrote this")

    monkeypatch.setattr("monitor.service.pages.monitor.observed", mistaken)
    answer = asked.get("/monitor")
    assert (answer.status_code, answer.json()["reason"]) == (500, "internal_error")
    assert asked.get("/rules").status_code == 200


def test_rows_that_are_no_records_make_the_history_unreadable(tmp_path: Path) -> None:
    damaged = pinned_world(tmp_path)
    with damaged.opened() as monitor:
        change_switch(monitor, "tickets", "steady", enable=True, by="ann", reason="why not")
    for change in ("changed_at = 'never'", "changed_at = '2026-09-01 00:00:00', blocked = '[7]'"):
        with closing(sqlite3.connect(tmp_path / "history.sqlite")) as connection, connection:
            connection.execute(f"UPDATE switches SET {change}")
        with in_process(damaged.settings(), clock=lambda: NOW) as asked:
            for address in ("/automation", "/v1/automation"):
                answer = asked.get(address)
                assert (answer.status_code, answer.json()["reason"]) == (503, "store_unreadable")
