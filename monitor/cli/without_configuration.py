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
from monitor.operations.open import open_monitor

_NO_SOURCES = Config(
    version=1, sources={}, rules=(), automation=AutomationConfig(when_not_evaluated="keep"), routes=()
)  # fmt: skip


@contextmanager
def monitor_to_switch(*, stops: bool, writes: bool) -> Iterator[tuple[Monitor, str]]:
    """(The monitor, "") with plain errors; or, where alerts.yaml or a variable is broken, of the history, and why.

    The latter is for a change that ``stops``, beside a configuration without any source: its sources are those that the
    history knows. Where there is no history there is nothing to stop, only something to correct.
    """
    broken: ConfigProblems | SettingsError | None = None
    try:
        settings = cli.settings()
        config = load_config(settings.config)
    except (ConfigProblems, SettingsError) as error:
        if not stops:
            raise
        broken, settings, config = error, _settings_of_history(), _NO_SOURCES
    is_broken = broken is not None
    try:
        with open_monitor(
            settings, config, clock=utc_now, writes=writes or is_broken, creates=not is_broken, reads=False
        ) as opened:
            yield opened, "" if broken is None else _in_one_line(broken)
    except StoreMissing as missing:
        raise broken or missing from missing


def _in_one_line(error: ConfigProblems | SettingsError) -> str:
    if isinstance(error, ConfigProblems):
        first = error.problems[0]
        return without_secrets(f"{first.file} cannot be used: {first.summary}")
    return without_secrets(cli.first_line(error))


def _settings_of_history() -> Settings:
    """The settings with the address of the history alone, whatever is wrong with the others."""
    name = variable("store_url")
    return load_settings({key: value for key, value in os.environ.items() if key in (name, f"{name}_FILE")})
