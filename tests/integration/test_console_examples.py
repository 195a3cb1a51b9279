"""Every console example of README.md and docs/ is run, in the world of the tutorial, or is listed here with a reason.

Weeks are moved: the last one of the examples, 2026-W46, is the last one that is over. Output that the tutorial shows
must be in what the command prints. One process a command, forked: some forty of them take half a minute.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from monitor.config.load import load_config
from monitor.core.windows import last_ready
from tests.fakes import forked

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
}
TUTORIAL = "docs/tutorial.md"
LAST = date.fromisocalendar(2026, 46, 1)
#: The beginning of a command that is not run here, and why. The first that fits counts.
NOT_RUN = {
    "make ": "what its line in the Makefile calls is run by .ci/run, test_demo.py and test_prefect_flows.py",
    "prefect ": "needs a Prefect server and a worker: test_prefect_flows.py runs them",
    "docker ": "needs a container engine; test_deployments.py holds the file against its schema",
    "curl ": "needs the service and its tokens: test_http.py asks the same",
    "export ": "sets a variable of the reader's shell",
    "pip install -c constraints.txt dist/": "needs a registry: make test-wheel installs the wheel",
    "sh deployments/secrets.sh": "run by test_deployments.py",
    ".venv/bin/python -m tests.": "a server that does not end; the tests of Slack use it",
    "pip install 'calibration-monitor[dask]'": "needs a registry: make test-engines installs the extra",
    "dask ": "servers of a cluster, which do not end: tests/engines/test_cluster.py starts them",
    "calmon dashboard": "does not end: test_http.py",
    "calmon serve": "does not end: test_prefect_flows.py",
    "calmon init postgresql://": "needs their server: test_init.py",
    "CALMON_CONFIG=mails.yaml calmon init ": "needs a second file: test_init.py",
    "calmon init data/": "needs their files: test_init.py",
    "calmon init exports/": "needs their files: test_init.py, and the tutorial's own",
}
#: A command that must fail here, and what it then says: the last week of the tutorial is a bad one.
REFUSED = {"calmon baseline pin": "than in the other weeks"}
#: Programs beside calmon that examples need.
OF_THE_SHELL = {"python": sys.executable, "mkdir": "mkdir"}


@dataclass(frozen=True)
class Shown:
    """A command as a page has it, and the lines of output below."""

    page: str
    command: str
    output: tuple[str, ...]

    @property
    def not_run(self) -> str | None:
        if self.command.strip() in ("calmon init", "calmon init tickets.csv"):
            return "asks a person: test_init.py answers"
        return next((why for start, why in NOT_RUN.items() if self.command.startswith(start)), None)


def shown(page: str) -> Iterator[Shown]:
    text = re.sub(r"\\\n", " ", PAGES[page].read_text("utf-8"))
    for block in re.findall(r"^```(?:console|sh|bash)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.rstrip().split("\n")
            yield Shown(page, re.sub(r"\s+# .*", "", command), tuple(output))


EXAMPLES = [each for page in PAGES for each in shown(page)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


def moved(text: str) -> str:
    """The same with each week as long ago as it was when the page was written, and each day."""
    year, number = re.findall(r"\d+", _last_week())
    last = date.fromisocalendar(int(year), int(number), 1)

    def week(found: re.Match[str]) -> str:
        there = date.fromisocalendar(int(found[1]), int(found[2]), 1) + (last - LAST)
        return f"{there.isocalendar().year}-W{there.isocalendar().week:02}"

    def day(found: re.Match[str]) -> str:
        return (date.fromisoformat(found[0]) + (last - LAST)).isoformat()

    return re.sub(r"\b\d{4}-\d{2}-\d{2}\b", day, re.sub(r"\b(\d{4})-W(\d{2})\b", week, text))


def _last_week() -> str:
    return last_ready("weekly", datetime.now(UTC), load_config(ROOT / "alerts.yaml").zone).name


def run(folder: Path, command: str) -> str:
    """What a command prints; it must not fail, unless it must."""
    before, _, target = moved(command).partition(" > ")
    words = shlex.split(before)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CALMON_", "PREFECT_"))}
    if words[0] in OF_THE_SHELL:
        return subprocess.run(
            [OF_THE_SHELL[words[0]], *words[1:]], cwd=folder, check=True, timeout=100, capture_output=True, text=True
        ).stdout
    assert words[0] == "calmon", f"neither run nor listed with a reason: {command}"
    more = {"COLUMNS": "200", "CALMON_API_TOKENS_FILE": "tokens"}
    done = forked.calmon(folder, environment | more, *(_known(folder, word) for word in words[1:]))
    refused = REFUSED.get(command.strip(), "")
    assert done.returncode == bool(refused), f"{command}\n{done.stdout}{done.stderr}"
    assert refused in done.stderr
    if target:
        (folder / target).write_text(done.stdout, "utf-8")
    return done.stdout


def _known(folder: Path, word: str) -> str:
    """An id in place of the one that a page has made up."""
    noted = folder / "ids.txt"
    ids = dict(line.split() for line in noted.read_text("utf-8").splitlines()) if noted.exists() else {}
    return ids.get(word, word)


def note(folder: Path, word: str, pattern: str, text: str) -> None:
    """Remember the id that a command has printed."""
    found = re.search(pattern, text)
    if found:
        with (folder / "ids.txt").open("a") as stream:
            stream.write(f"{word} {found[1]}\n")


def plain(text: str) -> str:
    """The words of a text, however a table sets them."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def followed(folder: Path) -> dict[str, str]:
    """The tutorial, followed from its first line to its last: what each command printed."""
    code = re.findall(r"^```python\n(.*?)^```", PAGES[TUTORIAL].read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (folder / "make_tickets.py").write_text(code[0], "utf-8")
    printed = {}
    for each in shown(TUTORIAL):
        if each.not_run is None:
            printed[each.command] = text = run(folder, each.command)
            note(folder, "VERDICT", r"above threshold\s+([0-9a-f]{8,})", text)
    shutil.copy(folder / "alerts.yaml", folder / "new.yaml")
    return printed


@pytest.mark.slow
@pytest.mark.parametrize("each", [e for e in shown(TUTORIAL) if e.output], ids=lambda e: e.command)
def test_the_tutorial_shows_what_is_printed(each: Shown, followed: dict[str, str]) -> None:
    printed = plain(followed[each.command])
    assert [line for line in each.output if plain(moved(line)) not in printed] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page != TUTORIAL and any(shown(page))])
def test_the_examples_of_a_page_can_be_run_one_after_the_other(
    page: str, folder: Path, followed: dict[str, str], tmp_path: Path
) -> None:
    assert followed
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for each in shown(page):
        if each.not_run is None:
            note(tmp_path, "3f1c", r"noted as ([0-9a-f]+)", run(tmp_path, each.command))


def test_every_reason_for_not_running_a_command_is_needed() -> None:
    commands = [each.command for each in EXAMPLES]
    assert len(commands) > 60
    unused = [start for start in NOT_RUN if not any(command.startswith(start) for command in commands)]
    assert unused == []


def test_days_are_moved_as_far_as_weeks() -> None:
    assert LAST + timedelta(weeks=1) == date(2026, 11, 16)
    assert moved("2026-W46") == _last_week()
