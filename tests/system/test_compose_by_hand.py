"""What docker-compose.yml starts, started by hand: the same commands and environment, for two weeks and an upgrade.

Only what a container gives is put in its place: folders, addresses, ports, and PostgreSQL itself. Prefect's own
database is in a server from Debian: it wants pg_trgm, which the server from PyPI does not have.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import yaml

from monitor.core.windows import week
from monitor.history.store import Store
from monitor.run import run_window
from tests.conftest import new_postgres_database
from tests.fakes import slack
from tests.fakes.world import BASELINE, CONFIG, WEEKS, pinned_world, rows, write_duckdb
from tests.integration.test_prefect_flows import (
    ROOT,
    Server,
    clean_environment,
    flow_run,
    free_port,
    healthy,
    monday_after,
    scheduled_run,
    until,
)

PREFECT_AUTH = "calmon:a-secret-of-this-test"
GRACE_S = 60
pytestmark = [pytest.mark.postgres, pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(1800)]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass(frozen=True)
class Host:
    """In place of a host of containers: its folder, its variables, and what stands for the containers' places."""

    folder: Path
    places: Mapping[str, str]
    variables: Mapping[str, str]

    def here(self, text: str) -> str:
        """A text of docker-compose.yml as it holds on this host."""
        text = re.sub(r"\$\{(\w+):\+([^}]*)\}", lambda m: m[2] if self.variables.get(m[1]) else "", text)
        text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda m: self.variables.get(m[1]) or m[2], text)
        text = re.sub("|".join(map(re.escape, self.places)), lambda m: self.places[m[0]], text)
        return text.replace("$$", "$")

    def command(self, name: str) -> list[str]:
        """The command of a service, from the folder of this environment's programs."""
        program, *more = (self.here(word) for word in SERVICES[name]["command"])
        return [str(Path(sys.executable).parent / program) if program != "sh" else program, *more]

    def environment(self, name: str) -> dict[str, str]:
        """What a container of the service finds in its environment, and what keeps a test quiet and patient."""
        own = {key: self.here(str(value)) for key, value in SERVICES[name].get("environment", {}).items()}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return clean_environment() | own | {"PATH": path} | ({"PREFECT_SERVER_API_PORT": self.places["4200"]})

    def run(self, name: str, *words: str) -> str:
        """Run a service to its end: its own command, or another (`docker compose run --rm`)."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / words[0]), *words[1:]] if words else self.command(name),
            cwd=self.folder, env=self.environment(name), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (name, words, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def running(self, name: str) -> Iterator[Path]:
        """Run a service for as long as the block lasts; gives its log."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            started = subprocess.Popen(
                self.command(name), cwd=self.folder, env=self.environment(name), stdout=out, stderr=subprocess.STDOUT
            )
            try:
                yield log
                assert started.poll() is None, log.read_text("utf-8", "replace")[-3000:]
            finally:
                started.terminate()
                try:
                    started.wait(timeout=GRACE_S)
                except subprocess.TimeoutExpired:  # Prefect's worker may lose the interrupt that it sends to itself
                    started.kill()  # as a container engine does then
                    started.wait()


@pytest.fixture
def workspace() -> Iterator[slack.FakeSlack]:
    with slack.running(socket_mode=True) as found:
        yield found


@pytest.fixture
def prefect_database() -> Iterator[str]:
    """The address of Prefect's database, made by the script of compose, in a PostgreSQL with its extensions."""
    installed = sorted(Path("/usr/share/postgresql").glob("*/extension/pg_trgm.control"))
    if not installed:
        missing = "no PostgreSQL with pg_trgm is installed (apt-get install postgresql)"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    programs = Path("/usr/lib/postgresql") / installed[-1].parents[1].name / "bin"
    port, as_user = str(free_port()), {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    # not under tmp_path, which other users may not enter, and as root the server runs as one
    with tempfile.TemporaryDirectory(prefix="calmon-prefect-", ignore_cleanup_errors=True) as folder:
        if as_user:
            shutil.chown(folder, **as_user)
        data, at = f"{folder}/data", ("-h", "127.0.0.1", "-p", port, "-U", "postgres")
        made = (programs / "initdb", "-D", data, "-U", "postgres", "--auth", "trust", "--no-sync")
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **as_user)
        options = ("-c", "listen_addresses=127.0.0.1", "-p", port, "-k", folder, "-c", "fsync=off")
        with (Path(folder) / "log").open("wb") as log, subprocess.Popen(
            (programs / "postgres", "-D", data, *options), stdout=log, stderr=log, cwd=folder, **as_user
        ) as server:  # fmt: skip
            try:
                until(
                    lambda: subprocess.run((programs / "pg_isready", *at), check=False).returncode == 0, Path(log.name)
                )
                script = ("-v", "ON_ERROR_STOP=1", "-f", ROOT / "deployments" / "postgres-init.sql")
                subprocess.run((programs / "psql", *at, *script), check=True, capture_output=True)
                yield f"postgresql+asyncpg://postgres@127.0.0.1:{port}/prefect"
            finally:
                server.send_signal(signal.SIGINT)  # ends its connections


@pytest.fixture
def host(tmp_path: Path, postgres_url: str, prefect_database: str, workspace: slack.FakeSlack) -> Host:
    """A host with the project's files, its secrets in files, and twelve weeks of rows."""
    for name in ("flows", "deployments"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "alerts.yaml").write_text(CONFIG, "utf-8")
    write_duckdb(tmp_path / "warehouse.duckdb", rows())
    secrets = {
        "calmon_store_url": new_postgres_database(postgres_url),
        "prefect_database_url": prefect_database,
        "calmon_warehouse_url": f"duckdb:///{tmp_path / 'warehouse.duckdb'}",
        "calmon_slack_bot_token": slack.TOKEN,
        "calmon_slack_app_token": slack.APP_TOKEN,
        "calmon_api_tokens": "",
        "prefect_auth": PREFECT_AUTH,
    }
    (tmp_path / "secrets").mkdir()
    for name, secret in secrets.items():
        (tmp_path / "secrets" / name).write_text(secret, "utf-8")
    port, page = str(free_port()), str(free_port())
    places = {
        "/run/secrets": str(tmp_path / "secrets"), "/opt/calmon": str(tmp_path),
        "/tmp": str(tmp_path / "tmp"),  # noqa: S108 - in the container
        "prefect-server:4200": f"127.0.0.1:{port}", "4200": port, "8080": page,
        "0.0.0.0": "127.0.0.1",  # noqa: S104 - in the container
    }  # fmt: skip
    given = {f"CALMON_{name}_FILE": "yes" for name in ("WAREHOUSE_URL", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN")}
    return Host(tmp_path, places, given | {"CALMON_SLACK_API_URL": workspace.url})


def test_two_weeks_go_through_the_processes_of_compose(
    host: Host, prefect_database: str, workspace: slack.FakeSlack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    address = (host.folder / "secrets" / "calmon_store_url").read_text("utf-8")
    host.run("migrate")
    host.run("worker", "calmon", "baseline", "pin", "--from", BASELINE[0], "--to", BASELINE[1], "--reason", "trusted")
    before = host.run("worker", "calmon", "run", "weekly", "--week", WEEKS[9], "--json")

    port = host.places["4200"]
    with ExitStack() as running:
        log = running.enter_context(host.running("prefect-server"))
        until(lambda: healthy(f"http://127.0.0.1:{port}/api"), log)
        host.run("deploy")
        with pytest.raises(urllib.error.HTTPError, match="401"):  # without it, anybody could run code with our secrets
            Server(f"http://127.0.0.1:{port}/api", {}).ask("/deployments/filter", {})
        server = Server(f"http://127.0.0.1:{port}/api", {}, PREFECT_AUTH)
        worker = running.enter_context(host.running("worker"))
        page = running.enter_context(host.running("service"))
        buttons = running.enter_context(host.running("slack"))
        until(lambda: answers(f"http://127.0.0.1:{host.places['8080']}/health"), page)
        until(lambda: workspace.asked("apps.connections.open"), buttons)
        for name in (WEEKS[10], WEEKS[11]):
            run = scheduled_run(server, "calmon-weekly", monday_after(name))
            until(lambda run=run: flow_run(server, run)["state_type"] in ENDED, worker)  # type: ignore[misc]
            assert flow_run(server, run)["state_type"] == "COMPLETED", worker.read_text("utf-8")
        with psycopg.connect(prefect_database.replace("+asyncpg", "")) as database:
            kept = database.execute("SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'").fetchone()
        assert kept[0] >= 2, "Prefect's runs are in PostgreSQL"

    with Store.from_url(address, create=False) as store:
        found = {verdict.id for verdict in store.verdicts(schedule="weekly")}
        states = {switch.label: switch.state for switch in store.switches()}
        of_monitor = {delivery.payload["text"] for delivery in store.deliveries() if delivery.kind == "monitor"}
    assert found == verdicts_of_the_same_weeks_in_one_process(tmp_path_factory.mktemp("alone"))
    assert all(verdict["id"] in found for verdict in yaml.safe_load(before)["verdicts"])
    assert states["slipping"] == "off"
    # the watchdog of compose may have come round meanwhile: of leases that ended months ago, or runs that wait
    told = [text for text in workspace.texts("ml-monitoring") if text not in of_monitor]
    assert [text.partition(":")[0] for text in told] == [
        "slipping must not act alone"
    ]  # one, edited in the second week


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def verdicts_of_the_same_weeks_in_one_process(folder: Path) -> set[str]:
    world = pinned_world(folder)
    with world.opened() as monitor:
        for name in WEEKS[9:12]:
            run_window(monitor, week(name, monitor.config.zone))
        return {verdict.id for verdict in monitor.store.verdicts(schedule="weekly")}
