"""Hooks for flows that fail or crash: a failure becomes an incident of the monitor itself.

Prefect calls a hook with parameters named exactly ``flow, flow_run, state``, in the run's own process if it still runs,
else in the worker's. The history stores a note of the failure; the incident and its one message are made from it
(:mod:`monitor.alerting.health.watchdog`). If the history itself failed, a small file limits the messages instead
(:mod:`monitor.alerting.health.outage`).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import product
from typing import Any

import yaml
from prefect.utilities.urls import url_for
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from monitor.alerting.apprise_sender import apprise_of
from monitor.alerting.health import outage, watchdog
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.health.issues import SCHEDULE_OF
from monitor.alerting.health.message import on_demand_failed
from monitor.alerting.slack.client import sender_of
from monitor.alerting.slack.message import delivery_of
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.config.load import load_config, text_of
from monitor.config.model import AutomationConfig, Config, Route
from monitor.config.problems import ConfigProblems
from monitor.config.settings import Settings, load_settings
from monitor.context import Monitor, utc_now
from monitor.core.redaction import hide_at_the_edge
from monitor.history.errors import HistoryError
from monitor.history.store import Store
from monitor.operations.open import open_store, open_warehouse
from monitor.run import deliver

log = logging.getLogger(__name__)

REPORTED_BY_THE_RUN = "NothingEvaluatedReported"
WATCHDOG = "calmon-watchdog"
USUAL_REPEAT = timedelta(days=1)
"""The repeat time of routes from a file that cannot be read completely."""
_READ_OF_ROUTES = (("channel", "apprise", "mention", "repeat"), ("channel", "apprise"))
"""What is read of a route of such a file: all, or where that is wrong only where to send."""
_CHANNEL = re.compile(r"""(?m)^[^#\n]*\bchannel:\s*["'](#[\w-]+)""")
"""Finds the first channel in a file that is not valid as YAML."""


def report_monitor_failed(flow: Any, flow_run: Any, state: Any) -> None:
    """Report that a scheduled flow failed: one incident, however often it fails or the hook is called.

    A run that could read no source has reported it itself, so nobody is notified twice.
    """
    if REPORTED_BY_THE_RUN in (state.message or ""):
        log.warning("reported by the run itself: %s", state.message)
        return
    hide_at_the_edge()
    settings, error = load_settings(os.environ), state.message or "no message"
    if flow.name == WATCHDOG:
        beat(settings.watchdog_heartbeat_url, failed=error)
    try:
        with open_store(settings, writes=True, creates=False) as store:
            outage.refuse_full(store, utc_now())
            watchdog.note_failure(store, flow.name, error, utc_now(), _sources_of(settings, flow.name, flow_run))
            monitor = _monitor(settings, store)
            watchdog.watch_runs(monitor)  # without data and leases, since rules may be missing
            deliver(monitor, due_only=True)
    except (HistoryError, SQLAlchemyError) as failed:
        log.error("the history cannot be used: %s", failed)
        if _is_reported(settings):
            log.error("an open incident says so already")
            return
        to = recipient(settings)
        if to is None:
            log.error("the monitor failed and no route says whom to notify: %s", error)
            return
        outage.report(settings, to, flow.name, f"{error}\n{failed}", utc_now())


def _sources_of(settings: Settings, flow: str, flow_run: Any) -> list[str]:
    """The sources that a run of a schedule was to judge; none where alerts.yaml is broken, and for other flows."""
    requested = getattr(flow_run, "parameters", {}).get("sources")
    try:
        return list(requested or load_config(settings.config).sources) if flow in SCHEDULE_OF else []
    except ConfigProblems:
        return []


def _is_reported(settings: Settings) -> bool:
    """Whether a message already reports that the monitor does not run; the history may be readable on a full disk."""
    try:
        with open_store(settings, writes=True, creates=False) as store:
            return watchdog.is_not_running_reported(store, load_config(settings.config), utc_now())
    except (HistoryError, SQLAlchemyError, ConfigProblems):
        return False


def report_run_failed(flow: Any, flow_run: Any, state: Any) -> None:
    """Report that a flow started by a person failed: one message for this run, however often the hook is called."""
    hide_at_the_edge()
    settings = load_settings(os.environ)
    to = recipient(settings)
    if to is None:
        log.error("%s failed and no route says whom to notify: %s", flow.name, state.message)
        return
    payload = on_demand_failed(
        flow.name,
        state.message or "no message",
        utc_now(),
        channel=to.addresses[0],
        run=str(flow_run.id),
        url=url_for("flow-run", obj_id=flow_run.id),
        mention=outage.mention_of(to),
    )
    try:
        with open_store(settings, writes=True, creates=False) as store:
            outage.refuse_full(store, utc_now())
            store.add_delivery(delivery_of(payload, kind="monitor", now=utc_now()))
            sender, beside = outage.sender_to(settings, to.addresses[0]), not to.channel
            drain(store, sender, now=utc_now, worker=worker_id(), beside=beside)
    except (HistoryError, SQLAlchemyError) as failed:
        outage.report(settings, to, flow.name, f"{state.message}\n{failed}", utc_now())


def _monitor(settings: Settings, store: Store) -> Monitor:
    """The adapters around this history. Of a broken alerts.yaml, the likeliest cause of the failure, only a route."""
    try:
        config = load_config(settings.config)
    except ConfigProblems:
        route = _route_of_broken(settings)
        routes = () if route is None else (route,)
        automation = AutomationConfig(when_not_evaluated="keep")
        config = Config(version=1, sources={}, rules=(), automation=automation, routes=routes)
    return Monitor(
        config, settings, open_warehouse(settings, config), store, sender_of(settings), utc_now, apprise_of(settings)
    )


def recipient(settings: Settings) -> Route | None:
    """The route of a critical incident about no particular source.

    A broken alerts.yaml is the most likely cause of the failure, so its routes are read even if the rest is wrong.
    """
    try:
        config = load_config(settings.config)
    except ConfigProblems:
        return _route_of_broken(settings)
    return config.critical_route


def _route_of_broken(settings: Settings) -> Route | None:
    """The first route that says where to send, of a file that may be wrong in all else."""
    try:
        text = text_of(settings.config)
    except ConfigProblems:
        return None
    loaded: object = None
    with suppress(yaml.YAMLError):
        loaded = yaml.safe_load(text)
    routes = loaded.get("routes") if isinstance(loaded, Mapping) else None
    named = [route for route in routes if isinstance(route, Mapping)] if isinstance(routes, list) else []
    for route, keys in product(named, _READ_OF_ROUTES):
        with suppress(ValidationError):
            found = Route.model_validate({key: route[key] for key in keys if key in route})
            if found.addresses:
                return found
    channel = _CHANNEL.search(text)
    return Route(channel=channel[1], repeat=USUAL_REPEAT) if channel else None
