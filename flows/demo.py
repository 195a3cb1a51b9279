"""``make demo``: runs the demo's story through the Prefect flows, on a Prefect server of its own."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from pathlib import Path

from monitor.config.env_file import read_into
from monitor.config.load import load_config
from monitor.config.problems import ConfigProblems
from monitor.config.settings import SettingsError, load_settings
from monitor.core.records import WrongRequest
from monitor.demo import story
from monitor.report.console import console

ENVIRONMENT = {
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


def main() -> int:
    """Run the demo; errors are reported before anything is started."""
    try:
        read_into(os.environ)
        settings = load_settings(os.environ)
        load_config(settings.config)
        story.prepare(settings)
    except (ConfigProblems, SettingsError, WrongRequest) as error:
        print(error, file=sys.stderr)
        return 2
    print("Starting a Prefect server for the demo (about ten seconds) ...", file=sys.stderr, flush=True)
    prepare_prefect()
    # Prefect reads its settings when it is imported.
    from flows.demo_story import demo  # noqa: PLC0415

    result = demo()
    console().print(result)
    return 0


def prepare_prefect() -> None:
    """Set up a quiet Prefect with a server that ends with this process, so that no real server gets made-up runs."""
    os.environ.pop("PREFECT_API_URL", None)
    home = Path(os.environ.setdefault("PREFECT_HOME", str(Path("var/prefect-demo").resolve())))
    home.mkdir(parents=True, exist_ok=True)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # The table at the end shows what was not sent. A log line would break the progress bar.
    logging.getLogger("monitor").setLevel(logging.ERROR)
    atexit.register(discard_last_errors)  # registered before Prefect's handlers, so it is called after them


def discard_last_errors() -> None:
    """Discard later output on standard error.

    When the process ends, DuckDB's binding prints warnings about objects that Prefect's threads still hold. They are
    harmless.
    """
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


if __name__ == "__main__":
    sys.exit(main())
