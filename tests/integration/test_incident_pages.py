"""The pages on incidents and on the monitor itself: what they show is what the history holds."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from monitor.core.records import Incident
from monitor.service.pages.incidents import summary, text_of
from tests.fakes.alerts_world import AlertsWorld, Judged, alerts_world
from tests.fakes.html_tables import table_of
from tests.fakes.in_process import ServiceClient, in_process

HOSTILE = "=cmd|' /C calc'!A0</td><script>alert(1)</script>"
ACKNOWLEDGED_AFTER = timedelta(hours=3)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertsWorld]:
    """Billing is in breach for two weeks, acknowledged by ana, then good; a label of a hostile name stays in breach."""
    with alerts_world(tmp_path_factory.mktemp("world")) as found:
        bad = [Judged(HOSTILE, "ece-increase", "breach", 0.07)]
        found.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "breach", 0.12), *bad])
        found.clock.now += ACKNOWLEDGED_AFTER
        found.person("acknowledges", "billing", "ana <b>")
        found.evaluate("2026-W03", [Judged("billing", "automated-overconfidence", "breach", 0.11), *bad])
        for week in ("2026-W04", "2026-W05", "2026-W06"):
            found.evaluate(week, [Judged("billing", "automated-overconfidence", "ok", 0.01), *bad])
        yield found


@pytest.fixture
def asked(world: AlertsWorld) -> Iterator[ServiceClient]:
    with in_process(world.monitor.settings, clock=lambda: world.clock.now) as found:
        yield found


def test_the_list_has_how_long_people_took_and_open_incidents_first(asked: ServiceClient, world: AlertsWorld) -> None:
    first, second = asked.rows("/incidents?csv=incidents")
    assert (first["label"], first["state"]) == (f"'{HOSTILE}", "open")
    resolved = world.incident("billing")
    assert (second["label"], second["state"], second["acknowledged_by"]) == ("billing", "resolved", "ana <b>")
    assert float(second["hours_to_acknowledge"]) == ACKNOWLEDGED_AFTER.total_seconds() / 3600
    took = resolved.resolved_at - resolved.opened_at
    assert float(second["hours_to_resolve"]) == pytest.approx(took.total_seconds() / 3600, abs=1e-3)
    page = asked.get("/incidents").text
    assert "2 incidents, 1 open" in page
    assert "<script>alert" not in page
    assert html.escape(HOSTILE).replace("&#x27;", "&#39;") in page
    assert f'href="./incidents/{resolved.id}"' in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("state=open", 1),
        ("state=resolved", 1),
        ("severity=critical", 1),
        ("source=mail", 0),
        ("label=BILL", 1),
        ("", 2),
    ],
)
def test_filters_are_in_the_address(asked: ServiceClient, query: str, count: int) -> None:
    assert len(asked.rows(f"/incidents?csv=incidents&{query}")) == count


def test_what_is_no_filter_is_refused(asked: ServiceClient) -> None:
    assert asked.get("/incidents?state=lost").status_code == 422
    assert asked.get("/incidents?nothing=1").status_code == 422
    assert asked.get("/incidents/abcdef").json()["reason"] == "not_found"


def test_an_incident_has_its_events_and_its_messages_as_they_were_sent(
    asked: ServiceClient, world: AlertsWorld
) -> None:
    incident = world.incident("billing")
    page = asked.get(f"/incidents/{incident.id}")
    stored = world.monitor.store.incident_events(incident.id)
    assert [(what, by) for _, what, _, by, _ in table_of(page.text, "events")] == [(e.kind, e.actor) for e in stored]
    sent = world.monitor.store.thread(incident.root or "")
    operations = re.findall(r"<summary>[^·]* · (\w+) · ", page.text)
    assert operations[0] == "post"
    assert sorted(operations) == sorted(each.operation for each in sent)
    assert page.status_code == 200
    assert "Resolved after" in page.text
    assert "ana &lt;b&gt;" in page.text
    assert "not sent" in page.text


def test_the_monitors_page_has_its_readings(asked: ServiceClient) -> None:
    page = asked.get("/monitor")
    assert page.status_code == 200
    readings = table_of(page.text, "readings")
    assert {(state, count) for _, _, _, state, count, _ in readings} == {("ok", "2,000")}


def test_an_incident_nobody_acknowledged_has_no_time_to_acknowledge() -> None:
    opened = datetime.fromisoformat("2026-01-12T06:00:00+00:00")
    at = (opened, "2026-W02", "2026-W02", opened, opened)
    incident = Incident("i1", "label", "tickets", None, "warning", "open", *at, "miscalibrated")
    assert (incident.acknowledged_after, incident.resolved_after, incident.is_open) == (None, None, True)
    assert summary([incident])["to_resolve"] is None
    assert summary([])["count"] == 0


def test_a_message_with_buttons_is_shown_as_text() -> None:
    button = {"type": "button", "text": {"type": "plain_text", "text": "Acknowledge"}}
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "2 labels"}},
        {"type": "actions", "elements": [button]},
    ]
    assert text_of({"text": "short", "blocks": blocks}) == "2 labels\n[Acknowledge]"
