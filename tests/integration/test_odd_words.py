"""Odd words on the command line, in alerts.yaml and in requests: a plain error, never a traceback."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.config.load import LARGEST_BYTES
from monitor.history.store import Store
from tests.fakes.canaries import called, own_edges
from tests.fakes.service import make_place, running
from tests.fakes.world import WEEKS, World, make_world

HUGE = "9" * 30
ENDLESS = "9" * 6000  # more digits than Python turns into a number


@pytest.fixture(autouse=True)
def edges() -> Iterator[None]:
    with own_edges():
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = make_world(tmp_path_factory.mktemp("world"))
    code, output = called(["run", "weekly", "--week", WEEKS[7]], made.environment)
    assert code == 0, output
    return made


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (command, 2)
        for window in ("0000", "9999")
        for command in (
            f"run weekly --week {window}-W01", f"run weekly --week {window}-W52", f"run daily --date {window}-01-01",
            f"run daily --date {window}-12-31", f"backfill --from {window}-W01 --to {window}-W52",
            f"baseline pin --from {window}-W01 --to {window}-W52", f"report --week {window}-W52",
            f"examples --label steady --date {window}-12-31", f"recalibrate --label steady --week {window}-W01",
        )
    ]
    + [(f"run weekly --week {year}-W01", 2) for year in ("0001", "1969", "٢٠٢٦")]
    + [
        (f"automation enable --all --reason x --until {until}", 2)
        for until in ("9999-12-31T23:59", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00+14:00", "9001-01-01", ENDLESS)
    ]
    + [
        (f"history --last {HUGE}", 0), (f"history --last {ENDLESS}", 2), (f"automation history --last {HUGE}", 0),
        (f"automation history --last {ENDLESS}", 2), (f"examples --label steady --limit {HUGE}", 2),
        (f"replay --rules CONFIG --weeks {HUGE}", 2), (f"recalibrate --label steady --weeks {HUGE}", 2),
        (f"dashboard --port {HUGE}", 2), (f"report --target {HUGE}", 2),
        (f"incidents silence x --for {ENDLESS}w", 2), (f"incidents silence x --for {HUGE}w", 2),
        (f"examples --label steady --score-min {HUGE}", 2), ("report --target nan", 2),
    ],
)  # fmt: skip
def test_numbers_and_dates_out_of_range_are_plain_errors(world: World, words: str, code: int) -> None:
    found, output = called(words.replace("CONFIG", world.environment["CALMON_CONFIG"]).split(), world.environment)
    assert "Traceback" not in output, output[-3000:]
    assert found == code, output
    assert len(output) < 20_000
    assert code == 0 or output.strip()


@pytest.mark.parametrize(
    "change",
    [
        ("min_samples: 300", f"min_samples: {HUGE}{HUGE}"), ("min_samples: 300", f"min_samples: {ENDLESS}"),
        ("resamples: 200", f"resamples: {ENDLESS}"), ("threshold: 0.05", f"threshold: {ENDLESS}"),
        ("threshold: 0.05", "threshold: 1" + "0" * 400), ("automate_at: 0.8", f"automate_at: -{HUGE}"),
        ("for: 2", f"for: {HUGE}"), ("weeks: 6", f"weeks: {ENDLESS}"), ("version: 1", f"version: {ENDLESS}"),
        ("when_not_evaluated: keep", f"when_not_evaluated: keep, lease: {ENDLESS}d"),
        ("when_not_evaluated: keep", f"when_not_evaluated: keep, lease: {HUGE}w"),
        ("resamples: 200", f"resamples: 200, seed: {ENDLESS}"), ("resamples: 200", f"resamples: 200, seed: {HUGE}"),
        ("resamples: 200", "resamples: 0x" + "f" * 5000), ("resamples: 200", "resamples: 1:" + ":".join(["59"] * 900)),
    ],
    ids=lambda change: change[1][:30],
)  # fmt: skip
def test_huge_numbers_in_alerts_yaml_are_plain_errors(tmp_path: Path, world: World, change: tuple[str, str]) -> None:
    text = (world.folder / "alerts.yaml").read_text("utf-8")
    assert change[0] in text
    (tmp_path / "alerts.yaml").write_text(text.replace(*change), "utf-8")
    code, output = called(["check", "--offline"], world.environment | {"CALMON_CONFIG": str(tmp_path / "alerts.yaml")})
    assert "Traceback" not in output, output[-3000:]
    assert code in (0, 2), output
    assert len(output) < 20_000


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
)


@pytest.mark.parametrize("content", ["# " + "x" * LARGEST_BYTES, "- [" * 2000, BOMB], ids=["large", "deep", "aliases"])
def test_an_alerts_yaml_that_is_too_large_is_refused_before_it_costs_anything(
    tmp_path: Path, world: World, content: str
) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(content, "utf-8")
    code, output = called(["check", "--offline"], world.environment | {"CALMON_CONFIG": str(path)})
    assert code == 2
    assert "Traceback" not in output
    assert len(output) < 20_000
    if len(content) > LARGEST_BYTES:
        assert "the file is larger than 1,024 KiB" in output


def test_a_device_in_the_place_of_alerts_yaml_is_refused(world: World) -> None:
    code, output = called(["check", "--offline"], world.environment | {"CALMON_CONFIG": "/dev/zero"})
    assert (code, "larger than 1,024 KiB" in output) == (2, True)


def test_a_history_of_a_newer_version_is_not_upgraded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    Store.from_url(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE calmon_revision SET version_num = '9876'")
    engine.dispose()
    code, output = called(["db", "upgrade"], {"CALMON_STORE_URL": url})
    assert (code, "Traceback" in output) == (1, False), output
    assert "schema revision 9876" in output
    assert "it was written by another version: install that one" in output


@pytest.mark.parametrize(
    "words",
    [
        "history --format csv -o PLACE",
        "history --format json -o PLACE",
        "history --format parquet -o PLACE",
        "report --week WEEK --html PLACE",
    ],
)
@pytest.mark.parametrize("place", ["/proc/version", "/dev/full", "FOLDER", "FOLDER/alerts.yaml/inside"])
def test_an_output_that_cannot_be_written_is_a_plain_error(world: World, words: str, place: str) -> None:
    where = place.replace("FOLDER", str(world.folder))
    code, output = called(words.replace("PLACE", where).replace("WEEK", WEEKS[7]).split(), world.environment)
    assert (code, "Traceback" in output) == (1, False), output[-2000:]
    assert f"error: {where} cannot be written: " in output


@pytest.mark.parametrize(
    "words", ["history --format parquet -o", "history --format csv -o", "report --week WEEK --html"]
)
def test_an_output_to_a_device_leaves_the_device(world: World, words: str) -> None:
    null = "/dev/null"
    code, output = called([*words.replace("WEEK", WEEKS[7]).split(), null], world.environment)
    assert code == 0, output
    assert stat.S_ISCHR(Path(null).stat().st_mode)


def test_odd_times_and_numbers_in_a_request_are_answered_with_422(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    address = "/v1/automation/tickets/billing/enable"
    with running(place) as service, service.client("boss") as client:
        for until in ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", 10**30):
            answer = client.post(address, json={"reason": "x", "until": until})
            assert (answer.status_code, answer.json()["reason"]) == (422, "request_invalid"), answer.text
        for body in (
            f'{{"reason": {ENDLESS}}}',
            f'{{"reason": "x", "until": {ENDLESS}}}',
            "[" * 5000,
            f'{{"{ENDLESS}": 1}}',
        ):
            answer = client.post(address, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in (413, 422), answer.text
        for score in (HUGE, ENDLESS, "1e999", "nan"):
            answer = client.get("/v1/automation/tickets/billing", params={"score": score})
            assert answer.status_code == 422, answer.text
        assert "Traceback" not in service.output()
