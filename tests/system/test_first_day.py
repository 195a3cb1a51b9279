"""First days: from nothing to a true alert in the channel and the switch off, by the commands that the program prints.

Each begins with other data. In the last week one label, and no other, is right 30 points less often than it says.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.env_file import missing_of
from tests.engines.filled import FILLED
from tests.fakes import slack as fake
from tests.fakes.installed import Installed

LABELS, PLANTED = ["billing", "login", "refund", "shipping"], "refund"
WEEKS, A_WEEK = 9, 900
MOST_COMMANDS = 6


@dataclass(frozen=True)
class Ticket:
    number: int
    given: str
    score: float
    truth: str
    begun: datetime
    closed: datetime


def tickets(levels: tuple[float, ...] = ()) -> Iterator[Ticket]:
    """Weeks up to last Sunday; scores are uniform, or a few ``levels``."""
    rng, now = np.random.default_rng(8), datetime.now(UTC) - timedelta(hours=6)
    monday = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=now.weekday())
    for number in range(WEEKS * A_WEEK):
        week, position = divmod(number, A_WEEK)
        given = LABELS[number % len(LABELS)]
        score = float(rng.choice(levels) if levels else round(rng.uniform(0.5, 1), 3))
        right = score - 0.3 * (week == WEEKS - 1 and given == PLANTED)
        truth = given if rng.random() < right else str(rng.choice([label for label in LABELS if label != given]))
        begun = monday - timedelta(weeks=WEEKS - week) + timedelta(days=7 * position / A_WEEK)
        yield Ticket(number, given, score, truth, begun, min(begun + timedelta(hours=rng.exponential(2)), now))


def written(path: Path, header: list[str], rows: Iterator[tuple[Any, ...]], delimiter: str = ",") -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter=delimiter)
        table.writerows([header, *rows])
    return path.name


def german_csv(folder: Path, _: Any) -> str:
    """Semicolons, percent with decimal commas, German dates and names; of 12% the truth is not known."""

    def row(each: Ticket) -> tuple[Any, ...]:
        score = f"{100 * each.score:.1f} %".replace(".", ",")
        truth = (each.truth, f"{each.closed:%d.%m.%Y %H:%M}") if each.number % 25 > 2 else ("", "")
        return (each.number, each.given, score, truth[0], f"{each.begun:%d.%m.%Y %H:%M}", truth[1])

    header = ["Ticket-Nr", "Thema", "Konfidenz (%)", "Kategorie", "Eingang", "erledigt am"]
    return written(folder / "tickets.csv", header, map(row, tickets()), ";")


def llm_tags(folder: Path, _: Any) -> str:
    """Two tags a message, each with one of eight scores and a person's yes or no."""

    def row(each: Ticket) -> tuple[Any, ...]:
        answer = "yes" if each.truth == each.given else "no"
        return (f"m{each.number // 2}", each.given, each.score, answer, each.closed.isoformat())

    rows = map(row, tickets((0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)))
    return written(folder / "tags.csv", ["message_id", "tag", "score", "correct", "reviewed_at"], rows)


def wide_parquet(folder: Path, _: Any) -> str:
    def row(each: Ticket) -> tuple[Any, ...]:
        # what the others have is the truth's as often as it says
        rest = [label for label in LABELS if label != each.given]
        shares = {each.given: each.score} | dict.fromkeys(rest, (1 - each.score) / len(rest))
        return (each.number, *(shares[label] for label in LABELS), each.truth, each.closed.isoformat())

    header = ["ticket_id", *(f"p_{label}" for label in LABELS), "category", "closed_at"]
    name = written(folder / "scored.txt", header, map(row, tickets()))
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{folder / name}')) TO '{folder / 'scored.parquet'}'")
    return "scored.parquet"


def postgresql(_: Path, fixture: Callable[[str], Any]) -> str:
    """Predictions and resolutions apart, in two schemas, beside another table; a role that may only read."""
    url = sa.make_url(fixture("fresh_postgres_url"))
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in (
            "CREATE SCHEMA ml", "CREATE SCHEMA crm", "CREATE TABLE crm.agents (name text)",
            "CREATE TABLE ml.predictions (id serial, ticket_id int, intent text, confidence numeric, at timestamptz)",
            "CREATE TABLE crm.resolutions (id serial, ticket_id int, category text, closed_at timestamptz)",
            "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'read me'",
            "GRANT USAGE ON SCHEMA ml, crm TO reader", "GRANT SELECT ON ALL TABLES IN SCHEMA ml, crm TO reader",
        ):  # fmt: skip
            connection.exec_driver_sql(statement)
        cursor = connection.connection.cursor()
        with cursor.copy("COPY ml.predictions (ticket_id, intent, confidence, at) FROM STDIN") as copied:
            for each in tickets():
                copied.write_row((each.number, each.given, each.score, each.begun))
        with cursor.copy("COPY crm.resolutions (ticket_id, category, closed_at) FROM STDIN") as copied:
            for each in tickets():
                copied.write_row((each.number, each.truth, each.closed))
    engine.dispose()
    return url.set(username="reader", password="read me").render_as_string(hide_password=False)


def clickhouse(_: Path, __: Any) -> str:
    rows = [
        {"ticket_id": str(each.number), "intent": each.given, "confidence": each.score, "category": each.truth,
         "closed_at": each.closed}
        for each in tickets()
    ]  # fmt: skip
    types = {"confidence": "DOUBLE PRECISION", "closed_at": "TIMESTAMP WITH TIME ZONE"}
    return FILLED["clickhouse"](rows, types, "predictions", ())


def plain_csv(folder: Path, _: Any) -> str:
    rows = ((each.number, each.given, each.score, each.truth, each.closed.isoformat()) for each in tickets())
    return written(folder / "tickets.csv", ["ticket", "intent", "confidence", "category", "closed_at"], rows)


Command = Callable[..., tuple[int, str]]


def at_a_terminal(*words: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """The command as a person runs it who takes each usual answer, and has a channel."""
    answers = "\n" * 3 if words[1].endswith("tags.csv") or "postgresql" in words[1] else "\n\n"
    with patch("monitor.cli.init.somebody_answers", lambda: words[0] == "init"):
        runner = CliRunner(env={**environment, **missing_of(environment)})
        found = runner.invoke(app, list(words), input=f"{answers}#ml-alerts\n")
    return found.exit_code, found.output


def first_day(calmon: Command, folder: Path, data: str, slack: fake.FakeSlack, *options: str) -> None:
    """From nothing to the alert: ``init``, then what each command says is next; Slack's token comes late."""
    environment = {"COLUMNS": "200", "CALMON_SLACK_API_URL": slack.url}
    steps, done, said = [["init", data, *options]], 0, ""
    while steps:
        words = steps.pop(0)
        status, said = calmon(*words, environment=environment)
        assert status == 0, (words, said)
        done += 1
        found = [shlex.split(line, comments=True)[2:] for line in said.splitlines() if line.startswith("next: calmon")]
        if "take `dry_run: true` out of alerts.yaml" in said:
            assert "not sent: no token" in said
            environment["CALMON_SLACK_BOT_TOKEN"] = fake.TOKEN
            configured = (folder / "alerts.yaml").read_text("utf-8")
            (folder / "alerts.yaml").write_text(re.sub(r"\n  dry_run: true.*", "", configured), "utf-8")
        steps += found
    assert done == MOST_COMMANDS
    assert f"message: sent ({PLANTED}" in said
    (told,) = slack.texts("ml-alerts")
    assert told.startswith(f"{PLANTED} must not act alone")
    _, shown = calmon("automation", "status", "--json", environment=environment)
    states = {each["label"]: each["state"] for each in json.loads(shown)}
    assert states == {label: "off" if label == PLANTED else "on" for label in LABELS}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CALMON_WAREHOUSE_URL", "CALMON_CONFIG", "CALMON_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "data",
    [
        german_csv,
        llm_tags,
        wide_parquet,
        pytest.param(postgresql, marks=pytest.mark.postgres),
        pytest.param(clickhouse, marks=pytest.mark.skipif(find_spec("chdb") is None, reason="chdb is an extra")),
    ],
)
def test_a_first_day_ends_with_the_planted_label_alone_in_the_channel_and_off(
    data: Callable[[Path, Any], str], folder: Path, request: pytest.FixtureRequest
) -> None:
    with fake.running(channels={"ml-alerts": "C001"}) as slack:
        first_day(at_a_terminal, folder, data(folder, request.getfixturevalue), slack)
    environment = folder / ".env"
    assert not environment.exists() or stat.S_IMODE(environment.stat().st_mode) == 0o600


def test_a_wheel_in_an_empty_folder_needs_nothing_else(installed: Installed, folder: Path) -> None:
    def calmon(*words: str, environment: Mapping[str, str]) -> tuple[int, str]:
        done = installed.run(folder, *words, environment=environment)
        return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr

    with fake.running(channels={"ml-alerts": "C001"}) as slack:
        first_day(calmon, folder, plain_csv(folder, None), slack, "--channel", "#ml-alerts")
    assert installed.wanted == ""
