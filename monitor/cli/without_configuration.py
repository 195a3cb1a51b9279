"""What a stop needs where alerts.yaml or a variable is broken: the history alone. It must not wait for a correction.

The history knows every source and label that gates may say yes for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from monitor.cli import common as cli
from monitor.config.load import load_config
from monitor.config.model import AutomationConfig, Config
from monitor.config.problems import ConfigProblems
from monitor.config.settings import Settings, SettingsError, load_settings, variable
from monitor.context import Monitor, utc_now
from monitor.core.redaction import without_secrets
from monitor.history.errors import StoreMissing
from monitor.operations.open import open_monitor, open_store

_NO_SOURCES = Config(
    version=1, sources={}, rules=(), automation=AutomationConfig(when_not_evaluated="keep"), routes=()
)  # fmt: skip


def what_is_broken() -> str | None:
    """Why the settings or alerts.yaml cannot be used, in one line; None if they can."""
    try:
        load_config(cli.settings().config)
    except ConfigProblems as problems:
        first = problems.problems[0]
        return without_secrets(f"{first.file} cannot be used: {first.summary}")
    except SettingsError as error:
        return without_secrets(cli.first_line(error))
    return None


def has_history() -> bool:
    """Whether there is a history, or at least an address of one that does not say that there is none."""
    try:
        with open_store(_settings_of_history(), writes=True, creates=False):
            return True
    except StoreMissing:
        return False
    except Exception:  # noqa: BLE001 - whatever it is, the change itself reports it
        return True


@contextmanager
def monitor_of_history() -> Iterator[Monitor]:
    """The history, beside a configuration without any source: all sources are those that the history knows."""
    settings = _settings_of_history()
    with (
        cli.plain_errors(),
        open_monitor(settings, _NO_SOURCES, clock=utc_now, creates=False, reads=False) as opened,
    ):
        yield opened


def _settings_of_history() -> Settings:
    """The settings with the address of the history alone, whatever is wrong with the others."""
    name = variable("store_url")
    return load_settings({key: value for key, value in os.environ.items() if key in (name, f"{name}_FILE")})
