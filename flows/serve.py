"""``calmon serve``: the weekly and daily schedules in one terminal, with nothing else to start.

If no Prefect server is configured (PREFECT_API_URL), one runs on this machine while this process runs. Its database
stays in var/prefect, so runs that were due while this process was down run later.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from monitor.config.env_file import read_into
from monitor.config.load import load_config
from monitor.config.model import Config
from monitor.config.problems import ConfigProblems
from monitor.config.settings import SettingsError, load_settings, variables
from monitor.config.unknown_variables import unknown_variables
from monitor.context import utc_now
from monitor.core.files import alone
from monitor.core.schedules import schedules
from monitor.core.shipped import LOGGING_FILE, shipped

USUAL_PORT = 4200
LEASES = {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem"}
"""Concurrency slots are stored in files: in memory, the slot of a killed run would never become free."""
ENDS_WITH_THIS = """\
import ctypes, runpy, signal
if at_end_of_parent := getattr(ctypes.CDLL(None), "prctl", None):
    at_end_of_parent(1, signal.SIGKILL)
runpy.run_module("prefect", run_name="__main__", alter_sys=True)
"""
"""Prefect's command line in a process that Linux ends with this one, also where this one is killed."""
SECONDS_BETWEEN_CHECKS = 0.3
SECONDS_TO_END = 30
"""A shutdown that takes longer is interrupted."""
_asked_to_end = threading.Event()


def main() -> int:
    """Serve until interrupted; a broken configuration starts nothing."""
    try:
        read_into(os.environ)
        for text in unknown_variables(os.environ, variables()):
            print(f"note: {text}", file=sys.stderr)
        config = load_config(load_settings(os.environ).config)
    except (ConfigProblems, SettingsError) as error:
        print(error, file=sys.stderr)
        return 2
    if unusable := socks_proxies(os.environ):
        print(f"{unusable[0]} names a SOCKS proxy, with which Prefect asks not even its own server: "
              f"pip install socksio, or unset {' '.join(unusable)}", file=sys.stderr)  # fmt: skip
        return 2
    os.environ.setdefault("PREFECT_LOGGING_SETTINGS_PATH", str(shipped(LOGGING_FILE)))
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(ending, _ask_to_end)
    try:
        if os.environ.get("PREFECT_API_URL"):
            serve_schedules(config)
        else:
            with local_server() as server:
                print(f"Every run can be seen at {server.url.removesuffix('/api')}", flush=True)
                serve_schedules(config, server)
    except (AskedToEnd, KeyboardInterrupt):
        pass
    except ServerFailed as error:
        print(error, file=sys.stderr)
        return 1
    except Exception:  # a second request during an import may be raised as any error
        if not _asked_to_end.is_set():
            raise
    print("Stopped. Runs that fall due now are made up for when this is started again.", flush=True)
    return 0


def socks_proxies(environ: Mapping[str, str]) -> list[str]:
    """The variables that name a SOCKS proxy, where httpx lacks what it needs for one: it fails before any exemption.

    >>> socks_proxies({"ALL_PROXY": "socks5://proxy.example:1080", "HTTP_PROXY": "http://proxy.example:8080"})
    ['ALL_PROXY']
    """
    proxies = (name for name in environ if name.lower() in ("all_proxy", "http_proxy", "https_proxy"))
    return [] if find_spec("socksio") else sorted(name for name in proxies if environ[name].lower().startswith("socks"))


class ServerFailed(Exception):
    """The Prefect server of this process did not start, or has ended; the message names the log with the reason."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The Prefect server that this process has started, and the file of its output."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def raise_if_ended(self) -> None:
        """Raise ServerFailed if the server has ended, or was killed: nothing starts another one."""
        if (code := self.process.poll()) is not None:
            raise ServerFailed(f"the Prefect server ended with {code}; {self.log} may say why. Start this again")


class AskedToEnd(Exception):
    """Somebody has asked this process to end. It is raised only where no work is interrupted."""


def _ask_to_end(_number: int, _frame: FrameType | None) -> None:
    """A signal handler: every signal leads to an orderly shutdown, so that the server does not keep running.

    The first signal only sets an event, which is checked where no work is interrupted: an error raised elsewhere could
    be swallowed by other code. A second signal, or the alarm after SECONDS_TO_END, raises KeyboardInterrupt at once.
    """
    if _asked_to_end.is_set():
        raise KeyboardInterrupt
    _asked_to_end.set()
    signal.alarm(SECONDS_TO_END)


def raise_if_asked_to_end() -> None:
    """Raise AskedToEnd if somebody has asked this process to end."""
    if _asked_to_end.is_set():
        raise AskedToEnd


def serve_schedules(config: Config, server: LocalServer | None = None) -> None:
    """Run the deployments of deployments/prefect.yaml in this process, one run of each at a time.

    Raises ServerFailed when the ``server`` of this process ends. Prefect itself would ask for it for minutes.
    """
    # Prefect reads its settings when it is imported, so the server's address must be set before.
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy  # noqa: PLC0415
    from prefect.runner import Runner  # noqa: PLC0415
    from prefect.schedules import Cron  # noqa: PLC0415

    from flows import start  # noqa: PLC0415
    from flows.audit import draw_audit  # noqa: PLC0415
    from flows.backfill import backfill  # noqa: PLC0415
    from flows.daily import daily  # noqa: PLC0415
    from flows.drain import drain_outbox  # noqa: PLC0415
    from flows.prune import prune_history  # noqa: PLC0415
    from flows.rebaseline import rebaseline  # noqa: PLC0415
    from flows.replay import replay  # noqa: PLC0415
    from flows.watchdog import watchdog  # noqa: PLC0415
    from flows.weekly import weekly  # noqa: PLC0415

    # Late evaluations wait for each other. Flows that check the present state skip a run if one is running.
    wait = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
    skip = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)
    cron = schedules(config.timezone)
    due = {name: Cron(each["cron"], timezone=each["timezone"]) for name, each in cron.items()}
    scheduled = [
        flow.to_deployment(name=flow.name, schedule=due[flow.name], concurrency_limit=limit)
        for flow, limit in (
            (weekly, wait),
            (daily, wait),
            (watchdog, skip),
            (drain_outbox, skip),
            (prune_history, skip),
        )
    ]
    on_demand = [flow.to_deployment(name=flow.name) for flow in (backfill, rebaseline, replay, draw_audit)]
    # Pausing at the end would delete the runs that become due before the next start.
    runner = Runner(name="calmon", pause_on_shutdown=False)

    def prepare() -> None:
        for each in (*scheduled, *on_demand):
            deployment: Any = each  # without an event loop, Prefect returns at once
            runner.add_deployment(deployment)
        for line in start.begin(config, utc_now()):
            print(line, flush=True)

    while_server_answers(prepare, server)
    # The runner's own SIGTERM handler leaves its work unfinished and warns about it.
    runner.handle_sigterm = _ask_to_end  # type: ignore[method-assign]
    asyncio.run(run_until_asked_to_end(runner.start(), server))


def while_server_answers(work: Callable[[], None], server: LocalServer | None) -> None:
    """Do ``work``, and leave it if somebody asks this process to end or its ``server`` has ended.

    The work has a thread of its own, which ends with the process: a request to a server that has ended lasts a minute.
    Raises AskedToEnd, ServerFailed, or what the work raises.
    """
    outcome: Future[None] = Future()

    def in_thread() -> None:
        try:
            work()
            outcome.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again below
            outcome.set_exception(error)

    threading.Thread(target=in_thread, daemon=True).start()
    while not wait([outcome], timeout=SECONDS_BETWEEN_CHECKS).done:
        raise_if_asked_to_end()
        if server is not None:
            server.raise_if_ended()
    if outcome.exception() is not None and server is not None:
        with suppress(subprocess.TimeoutExpired):  # a request may fail a moment before the server has ended
            server.process.wait(timeout=1)
        server.raise_if_ended()
    outcome.result()


async def run_until_asked_to_end(work: Coroutine[Any, Any, None], server: LocalServer | None = None) -> None:
    """Await ``work``, and cancel it if somebody asks this process to end or its ``server`` has ended.

    Raises ServerFailed in the second case, also where ``work`` has failed for want of the server.
    """
    running = asyncio.create_task(work)
    while not running.done() and not _asked_to_end.is_set() and (server is None or server.process.poll() is None):
        await asyncio.wait([running], timeout=SECONDS_BETWEEN_CHECKS)
    if _asked_to_end.is_set():
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return
    if server is not None and server.process.poll() is not None:
        running.cancel()
        await asyncio.wait([running], timeout=SECONDS_TO_END)
        server.raise_if_ended()
    await running


@contextmanager
def local_server() -> Iterator[LocalServer]:
    """A Prefect server for this machine only, stopped at the end of the block. Raises ServerFailed where one runs."""
    home = Path(os.environ.setdefault("PREFECT_HOME", str(Path("var/prefect").resolve())))
    home.mkdir(parents=True, exist_ok=True)
    with alone(home / "server", 0) as is_first:
        if not is_first:
            raise ServerFailed("`calmon serve` runs already in this folder: stop that one first")
        port, log = free_port(), home / "server.log"
        url = f"http://127.0.0.1:{port}/api"
        os.environ["PREFECT_API_URL"] = url
        command = [sys.executable, "-c", ENDS_WITH_THIS, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        defaults = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_SERVER_LOGGING_LEVEL": "WARNING", **LEASES}
        with log.open("wb") as out:
            # In its own session: Ctrl-C in the terminal reaches only this process, which stops the server last.
            process = subprocess.Popen(  # noqa: S603 - fixed arguments
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=defaults | os.environ
            )
        try:
            server = LocalServer(url, process, log)
            wait_until_healthy(server)
            yield server
        finally:
            stop(process)


def free_port() -> int:
    """The default port of a Prefect server (or PREFECT_SERVER_API_PORT) if it is free, else any free port."""
    for port in (int(os.environ.get("PREFECT_SERVER_API_PORT") or USUAL_PORT), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerFailed("no port of 127.0.0.1 is free")


def wait_until_healthy(server: LocalServer, seconds: float = 300) -> None:
    """Return once the server answers; raise ServerFailed if it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        raise_if_asked_to_end()
        server.raise_if_ended()
        try:
            with urllib.request.urlopen(f"{server.url}/health", timeout=5):  # noqa: S310 - a local address
                return
        except (urllib.error.URLError, OSError):
            time.sleep(SECONDS_BETWEEN_CHECKS)
    raise ServerFailed(f"the Prefect server did not answer within {seconds:.0f} s; {server.log} may say why")


def stop(server: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """End the server, by force if it takes too long or somebody asks for the end again."""
    server.terminate()
    try:
        server.wait(timeout=seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
