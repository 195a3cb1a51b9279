"""Items wait for the warehouse, and hold up neither pages nor Prometheus; what is shown is of one moment."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter, sleep

import duckdb
import httpx
import pytest

from monitor.core.records import Interval
from monitor.core.windows import week
from monitor.report.collect import collect_report
from monitor.run import run_window
from monitor.service.access import Guard
from monitor.service.answers import WAITING
from monitor.service.app import create_app
from monitor.service.backend import Service
from monitor.service.pages import items, overview
from monitor.service.pages.base import Answer, Page, PageRequest
from tests.fakes.service import Place, running
from tests.fakes.world import WEEKS, World, make_world

READERS = 50
PATIENCE_S = 60.0


class SlowWarehouse:
    """A backend whose pages of ``slow`` wait for the warehouse until it is let go."""

    def __init__(self, slow: Page) -> None:
        self.slow, self.go = slow, threading.Event()

    def show(self, page: Page, request: PageRequest) -> Answer:
        if page is self.slow:
            assert self.go.wait(PATIENCE_S)
        return Answer(b"here", "text/html", 'W/"1"')

    def metrics(self) -> str:
        return "calmon_runs 1\n"


@pytest.mark.parametrize(
    ("slow", "address", "quick"),
    [
        (items.PAGE, "/items/tickets/billing", ("/metrics", "/", "/incidents")),
        (overview.PAGE, "/", ("/metrics", "/items/tickets/billing")),
    ],
)
def test_a_slow_lane_holds_up_no_other(slow: Page, address: str, quick: tuple[str, ...]) -> None:
    backend = SlowWarehouse(slow)

    async def ask() -> tuple[list[httpx.Response], list[httpx.Response], float]:
        transport = httpx.ASGITransport(create_app(backend, Guard(None, local=True)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            readers = [asyncio.create_task(client.get(address)) for _ in range(READERS)]
            while sum(reader.done() for reader in readers) < READERS - WAITING - 1:
                await asyncio.sleep(0.01)
            began = perf_counter()
            others = [await client.get(each) for each in quick * 10]
            took = perf_counter() - began
            backend.go.set()
            return await asyncio.gather(*readers), others, took

    readers, others, took = asyncio.run(asyncio.wait_for(ask(), PATIENCE_S))
    assert {answer.status_code for answer in others} == {200}
    assert took < PATIENCE_S / 4
    assert [answer.status_code for answer in readers].count(200) == WAITING + 1, "nobody is refused before 20 wait"
    assert {answer.headers.get("retry-after") for answer in readers if answer.status_code == 503} == {"5"}


Shown = tuple[set[str], set[float]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = make_world(tmp_path)
    with world.opened() as monitor:
        run_window(monitor, week(WEEKS[6], monitor.config.zone), act="never")
    return world


SLOW = """ALTER TABLE tickets RENAME TO quick; CREATE VIEW tickets AS SELECT * FROM quick
    WHERE (SELECT count(*) FROM range(1_000_000) a(x), range(1_000_000) b(y) WHERE x * y % 7 = 1) > 0"""  # for hours


def test_a_service_that_ends_answers_those_who_wait_and_waits_for_no_warehouse(world: World) -> None:
    with duckdb.connect(str(world.folder / "warehouse.duckdb")) as warehouse:
        warehouse.execute(SLOW)
    request = f"GET /items/tickets/steady?week={WEEKS[6]} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    place = Place(world.folder, world.store_url, {})
    with running(place, CALMON_WAREHOUSE_URL=world.warehouse_url) as service, ExitStack() as stack:
        where = (httpx.URL(service.url).host, httpx.URL(service.url).port)
        readers = [stack.enter_context(socket.create_connection(where, timeout=PATIENCE_S)) for _ in range(3)]
        for reader in readers:
            reader.sendall(request)
        with service.client() as client:
            assert client.get("/metrics").status_code == 200, "those who came before are inside"
        assert service.stop() == 0
        assert [reader.recv(12) for reader in readers] == [b"HTTP/1.1 503"] * 3
    assert "Traceback" not in service.output()


@contextmanager
def written(world: World) -> Iterator[None]:
    """Verdicts and estimates of the week are written again and again, all of them "ok" and .1, or "breach" and .5."""
    ended, rounds = threading.Event(), [0]

    def write() -> None:
        with world.opened() as monitor:
            window, store = week(WEEKS[6], monitor.config.zone), monitor.store
            verdicts, estimates = store.verdicts(source="tickets"), store.estimates(source="tickets")
            while not ended.is_set():
                rounds[0] += 1
                outcome, value = (("ok", 0.1), ("breach", 0.5))[rounds[0] % 2]
                now = [replace(v, id=f"{outcome}{v.id}"[:16], outcome=outcome, severity="warning") for v in verdicts]
                at = [replace(e, interval=Interval(value, value, value, value)) for e in estimates]
                store.save_evaluation(window, ["tickets"], at, now, [], monitor.clock())

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while rounds[0] < 2 and thread.is_alive():
            sleep(0.01)
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)
    assert rounds[0] > 5, "nothing was written meanwhile"


def of_metrics(service: Service, world: World) -> Shown:
    lines = [line for line in service.metrics().splitlines() if 'source="tickets"' in line]
    outcomes = {m[1] for line in lines if (m := re.match(r'calmon_verdicts\{outcome="(\w+)"', line))}
    return outcomes, {float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("calmon_estimate{")}


def of_report(service: Service, world: World) -> Shown:
    with world.opened() as monitor:
        data = collect_report(monitor.store, monitor.config, week(WEEKS[6], monitor.config.zone), monitor.clock())
    values = {each.value("ece") for each in data.subjects}
    outcomes = {verdict.outcome for each in data.subjects for verdict in each.verdicts}
    return outcomes, {value for value in values if value is not None}


@pytest.mark.parametrize(("read", "times"), [(of_metrics, 30), (of_report, 10)])
def test_what_is_read_while_a_run_writes_is_of_one_moment(
    world: World, read: Callable[[Service, World], Shown], times: int
) -> None:
    service = Service(world.settings())
    try:
        with written(world):
            seen = [read(service, world) for _ in range(times)]
    finally:
        service.close()
    assert [each for each in seen if each not in (({"ok"}, {0.1}), ({"breach"}, {0.5}))] == []
