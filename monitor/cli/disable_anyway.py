"""``calmon automation disable`` where alerts.yaml or a variable is broken: a stop must not wait until it is corrected.

It needs the address of the history only. To turn on needs a configuration that can be read.
"""

from __future__ import annotations

import os
from datetime import datetime

from monitor.cli import common as cli
from monitor.config.load import load_config
from monitor.config.model import AutomationConfig, Config
from monitor.config.problems import ConfigProblems
from monitor.config.settings import Settings, SettingsError, load_settings, variable
from monitor.context import utc_now
from monitor.core.records import DRILL_LABEL
from monitor.core.redaction import without_secrets
from monitor.core.wording import segment_name
from monitor.history.errors import StoreMissing
from monitor.history.store import Store
from monitor.operations.change_switch import ChangeRefused, SwitchChange, operate, stored_sources
from monitor.operations.open import open_store

_NO_RULES = Config(
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


def disable_anyway(
    broken: str, *, source: str | None, label: str | None, every: bool, segment: tuple[str, str] | None,
    until: str | None, reason: str, by: str,
) -> None:  # fmt: skip
    """Turn off by the history alone, and say on standard error what is ``broken``. Raises UsageError."""
    end = _moment(until)
    history = open_store(_settings_of_history(), writes=True, creates=False)
    with history as store, cli.lines_at_the_end() as said:
        for name, each in _targets(store, source, label, every=every):
            change = SwitchChange(name, each, False, by, reason, end, None, segment)
            try:
                done = operate(store, _NO_RULES, change, utc_now)
            except ChangeRefused as error:
                raise cli.UsageError(str(error)) from error
            words = f"{segment_name(*segment)} {done.words}" if segment else done.words
            said.append(f"{name}/{each or '(all labels)'}: {words}")
    cli.err.print(f"note: {broken}", markup=False, highlight=False, soft_wrap=True)
    cli.err.print(
        "the switch was changed all the same; messages show it once that is corrected\nnext: calmon check --offline",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip


def _settings_of_history() -> Settings:
    """The settings with the address of the history alone, whatever is wrong with the others."""
    name = variable("store_url")
    return load_settings({key: value for key, value in os.environ.items() if key in (name, f"{name}_FILE")})


def _targets(store: Store, source: str | None, label: str | None, *, every: bool) -> list[tuple[str, str | None]]:
    """The switches to turn off, of those that the history knows. Raises UsageError where it knows none."""
    sources = stored_sources(store)
    if source is not None and source not in sources:
        raise cli.UsageError(f"the history has no source {source!r}; it has: {', '.join(sorted(sources)) or 'none'}")
    chosen = sorted(sources) if source is None else [source]
    if label is None and not every:
        return [(name, None) for name in chosen]
    known = {name: _labels(store, name) for name in chosen}
    found = [(name, each) for name in chosen for each in known[name] if every or each == label]
    if not found:
        raise cli.UsageError(f"the history has no label {label!r}" if label is not None else "the history has no label")
    if label is not None and len(found) > 1:
        raise cli.UsageError(f"{label!r} is in {', '.join(name for name, _ in found)}: say which with --source")
    return [*found]


def _labels(store: Store, source: str) -> list[str]:
    switched = {each.label for each in store.switches() if each.source == source}
    found = {*switched, *store.known_labels(source)} - {None, DRILL_LABEL}
    return sorted(label for label in found if label is not None)


def _moment(text: str | None) -> datetime | None:
    """A time with its offset: the time zone is in the file that cannot be used. Raises UsageError."""
    if text is None:
        return None
    found = cli.moment(text, _NO_RULES)
    if datetime.fromisoformat(text).tzinfo is None:
        raise cli.UsageError(
            "--until needs its offset here, like 2026-11-22T18:00+01:00: alerts.yaml has the time zone"
        )
    return found
