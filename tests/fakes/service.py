"""The real service in a process of its own: `calmon dashboard` on a free port, a history with a few switches."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, sleep

import httpx

from monitor.config.load import load_config
from monitor.history.store import Store
from monitor.operations.change_switch import SwitchChange, operate
from monitor.service.tokens import TokensFile
from tests.fakes import forked

ODD = "Größe/ä b%2F?#é+🙂"
LONG = "x" * 1000
PATIENCE_S = 60.0
CERTIFICATES = httpx.create_ssl_context()
"""Read once for all clients, though the service speaks plain HTTP here."""
CONFIG = """\
version: 1
timezone: UTC
sources:
  tickets:
    relation: tickets
    score_is: probability_of_label
    automate_at: 0.8
    labels: {billing: {}, legal: {}, phishing: {critical: true, automate_at: 0.9}, "ODD": {}, LONG: {}}
  mail:
    relation: mail
    score_is: probability_of_label
    labels: {spam: {}}
rules:
  - {id: automated-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     severity: critical, actions: [slack, disable_automation]}
automation: {when_not_evaluated: keep}
""".replace("ODD", ODD).replace("LONG", LONG)


@dataclass(frozen=True)
class Place:
    """A folder with alerts.yaml, a tokens file with its tokens by name, and the address of a history."""

    folder: Path
    store_url: str
    tokens: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        given = {
            "CALMON_STORE_URL": self.store_url,
            "CALMON_CONFIG": str(self.folder / "alerts.yaml"),
            "CALMON_API_TOKENS_FILE": str(self.folder / "tokens") if self.tokens else "",
        }
        return {name: value for name, value in os.environ.items() if not name.startswith("CALMON_")} | given


SCOPES = {
    "router": {"read"}, "stopper": {"disable"}, "starter": {"enable"},
    "boss": {"read", "disable", "enable", "annotate"},
}  # fmt: skip


def make_place(folder: Path, store_url: str | None = None, *, tokens: bool = True) -> Place:
    """`billing` and the odd label are on, `phishing` is off, `legal` was never set."""
    (folder / "alerts.yaml").write_text(CONFIG, "utf-8")
    url = store_url or f"sqlite:///{folder / 'history.sqlite'}"
    file = TokensFile(folder / "tokens")
    made = {name: file.add(name, frozenset(scopes)) for name, scopes in SCOPES.items()} if tokens else {}  # type: ignore[arg-type]
    config = load_config(folder / "alerts.yaml")
    with Store.from_url(url) as store:
        for label, enable in (("billing", True), (ODD, True), ("phishing", False)):
            operate(store, config, SwitchChange("tickets", label, enable, "ann", "set up"), lambda: datetime.now(UTC))
    return Place(folder, url, made)


@dataclass
class Running:
    """A service that runs: its address, its process, and a client without a token."""

    url: str
    process: BaseProcess
    place: Place
    log: Path

    def client(self, token: str | None = None, **more: object) -> httpx.Client:
        """A client with the token of that name, or without one."""
        headers = {"Authorization": f"Bearer {self.place.tokens[token]}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, verify=CERTIFICATES, **more)  # type: ignore[arg-type]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the service, and return its exit code."""
        os.kill(self.process.pid or 0, number)
        self.process.join(PATIENCE_S)
        assert self.process.exitcode is not None
        return self.process.exitcode

    def output(self) -> str:
        """All its output so far, of both streams."""
        return self.log.read_text("utf-8")


@contextmanager
def running(place: Place, *options: str, **environment: str) -> Iterator[Running]:
    """`calmon dashboard` as a person starts it, until the end of the block."""
    log = place.folder / f"service-{monotonic()}.log"
    words = ("dashboard", "--port", "0", *options)
    process = forked.start(place.folder, place.environment | environment, *words, output=log, errors=log)
    try:
        yield Running(_address(process, log), process, place, log)
    finally:
        process.terminate()
        process.join(PATIENCE_S)


def _address(process: BaseProcess, log: Path) -> str:
    end = monotonic() + PATIENCE_S
    while monotonic() < end and process.exitcode is None:
        if found := re.search(r"calmon listens on (http://\S+)", log.read_text("utf-8")):
            return found[1]
        sleep(0.05)
    raise AssertionError(f"the service did not start:\n{log.read_text('utf-8')}")
