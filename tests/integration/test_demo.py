"""The demo through Prefect's flows, on a server of its own, its past weeks on worker processes.

Every planted change is found in time, nothing else is, and Slack is told once.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from monitor.config.settings import Settings, load_settings
from monitor.context import Monitor
from monitor.core.records import Window
from monitor.core.windows import up_to, week
from monitor.demo.population import PLANTED, WEEKS
from monitor.operations.open import open_monitor
from monitor.run import run_window
from tests.fakes import slack
from tests.fakes.installed import Installed
from tests.fakes.reading import texts

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.prefect, pytest.mark.timeout(1800)]
PROGRAM = """
import datetime
from flows import demo
demo.prepare_prefect()
from monitor.demo import story
story.utc_now = lambda: {now!r}
raise SystemExit(demo.main())
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("demo")
    return {
        "CALMON_WAREHOUSE_URL": f"duckdb:///{folder / 'warehouse.duckdb'}",
        "CALMON_STORE_URL": f"sqlite:///{folder / 'history.sqlite'}",
        "CALMON_CONFIG": str(ROOT / "alerts.yaml"),
    }


def shown(page: str) -> str:
    """What a page shows of the demo."""
    (found,) = re.findall(
        r"<!-- demo:begin -->\n```text\n(.*?)```\n<!-- demo:end -->", (ROOT / page).read_text("utf-8"), re.DOTALL
    )
    return str(found)


def last_week(page: str) -> str:
    """The week that the demo ended with when the page was written: the last digits of an estimate depend on it."""
    return re.findall(r"^(\d{4}-W\d{2}): 11 labels", shown(page), flags=re.M)[0]


def folder_of(environment: dict[str, str]) -> Path:
    return Path(environment["CALMON_STORE_URL"].removeprefix("sqlite:///")).parent


@pytest.fixture(scope="module")
def told(environment: dict[str, str], installed: Installed) -> tuple[str, list[slack.Answer]]:
    """What ``make demo`` of the installed wheel printed in an empty folder, and the messages that Slack got.

    It runs when the README's did. `make test-wheel` runs ``calmon demo``, without Prefect.
    """
    now, folder = week(last_week("README.md"), UTC).end + timedelta(days=2), folder_of(environment)
    with slack.running() as server:
        more = {"CALMON_SLACK_BOT_TOKEN": slack.TOKEN, "CALMON_SLACK_API_URL": server.url, "COLUMNS": "80"}
        more["PREFECT_HOME"] = str(folder / "prefect")
        done = subprocess.run(
            [str(installed.folder / "bin" / "python"), "-c", PROGRAM.format(now=now)], cwd=folder,
            env=installed.environment | environment | more, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, server.messages


def settings(environment: dict[str, str]) -> Settings:
    return load_settings(environment)


def weeks_told(monitor: Monitor) -> list[Window]:
    """The weeks of the demo, whatever the clock says by now."""
    newest, *_ = monitor.store.runs("weekly", 1)
    return up_to(week(newest["window_name"], monitor.config.zone), WEEKS, monitor.config.zone)


def test_it_ends_with_what_a_person_wants_to_know(told: tuple[str, list[slack.Answer]]) -> None:
    assert "4 must not act alone, 7 fine" in " ".join(told[0].split())
    for words in ("turned off", "Try next", "calmon explain billing"):
        assert words in " ".join(told[0].split())
    for planted in PLANTED:
        assert f"{planted.label} must not act alone: " in told[0]
    assert max(map(len, told[0].splitlines())) <= 80


def masked(text: str) -> str:
    """A text without what depends on the day, in one line: weeks, dates, ids, how lines are broken, Slack's token."""
    text = text.replace("not sent: no token", "sent")
    text = re.sub(r"\d{4}-W\d{2}", "WEEK", text)
    text = re.sub(r"\b\d{1,2} [A-Z][a-z]{2} \d{4}\b", "DATE", " ".join(text.split()))
    return re.sub(r"\b[0-9a-f]{16}\b", "ID", text)


@pytest.mark.parametrize("page", ["README.md", "docs/demo.md"])
def test_what_a_page_shows_of_the_demo_is_what_it_prints(page: str, told: tuple[str, list[slack.Answer]]) -> None:
    assert len(shown(page).splitlines()) > 15
    assert last_week(page) == last_week("README.md")
    printed = masked(told[0])
    assert [
        part for part in map(masked, re.split(r"^\[\.\.\.\]\n", shown(page), flags=re.M)) if part not in printed
    ] == []


def test_it_leaves_no_process_and_reaches_no_other_machine(
    environment: dict[str, str], told: tuple[str, list[slack.Answer]], installed: Installed
) -> None:
    assert told
    assert _processes_with(str(folder_of(environment))) == []
    assert installed.wanted == ""


def _processes_with(text: str) -> list[str]:
    """The command lines of processes whose environment has a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def test_slack_is_notified_of_every_label_of_the_last_week_in_a_message_of_its_own_that_is_read_at_once(
    told: tuple[str, list[slack.Answer]],
) -> None:
    roots = [message for message in told[1] if "thread_ts" not in message]  # its picture is in its thread
    read = [" ".join(text for block in message["blocks"] for text in texts(block)) for message in roots]
    assert {text.split()[0] for text in read} == {planted.label for planted in PLANTED}
    assert len(read) == len(PLANTED)
    assert max(len(text.split()) for text in read) <= 90  # with the buttons and the line under them
    (complaint,) = [text for text in read if text.startswith("complaint")]
    assert "in channel = web" in complaint  # what was planted is named, and a harmless change of language is not
    assert not any("language" in text for text in read)


def test_every_planted_change_is_a_breach_within_two_weeks_and_nothing_else_ever_is(
    environment: dict[str, str], told: tuple[str, list[slack.Answer]]
) -> None:
    assert told
    found = defaultdict(lambda: defaultdict(set))
    with open_monitor(settings(environment)) as monitor:
        told_weeks = weeks_told(monitor)
        for window in told_weeks[:8]:  # the demo leaves the baseline's own weeks unjudged
            run_window(monitor, window, act="never")
        number = {window.name: index for index, window in enumerate(told_weeks, start=1)}
        for verdict in monitor.store.verdicts(schedule="weekly", outcome="breach"):
            subject = verdict.subject
            found[subject.source, subject.label][number[verdict.window.name]].add(verdict.rule)
        judged = {number[v.window.name] for v in monitor.store.verdicts(schedule="weekly")}
    assert judged == set(range(1, WEEKS + 1))
    for planted in PLANTED:
        weeks = found.pop((planted.source, planted.label))
        assert min(weeks) >= planted.week
        in_time = set().union(*(weeks[planted.passes_threshold + later] for later in (0, 1)))
        assert set(planted.rules) <= in_time, planted
    assert dict(found) == {}


def test_the_demo_never_overwrites_what_it_has_not_made(environment: dict[str, str], tmp_path: Path) -> None:
    mine = tmp_path / "warehouse.duckdb"
    mine.write_bytes(b"precious")
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "demo"],
        env=os.environ | environment | {"CALMON_WAREHOUSE_URL": f"duckdb:///{mine}"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "the demo has not made it, so it is left alone" in " ".join(done.stderr.split())
    assert mine.read_bytes() == b"precious"
