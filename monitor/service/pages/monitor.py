"""``/monitor``: whether the monitor itself works: runs, readings, messages and versions."""

from __future__ import annotations

from datetime import timedelta
from importlib import metadata

from monitor.alerting.health.issues import NEVER_RUN, findings
from monitor.alerting.health.look import observed
from monitor.history.reader import REVISION
from monitor.service.pages.base import Page, PageContent, PageContext

SPANS = {"4": 4, "13": 13, "26": 26, "52": 52}


def make(context: PageContext) -> PageContent:
    """The last weeks of the monitor's own work."""
    weeks, now, store = SPANS[context.choice("weeks", SPANS, "13")], context.now, context.store
    since = now - timedelta(weeks=weeks)
    runs = [row for row in store.runs(limit=8 * weeks + 8, until=now) if row["window_start"] >= since]
    readings = store.readings_seen(since, now)
    has_buttons = context.settings.has_buttons
    records = observed(store, context.config, now, of_replica=True, has_buttons=has_buttons)
    try:
        code = metadata.version("calibration-monitor")
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        code = "not installed"
    identity, revision = store.identity(), store.revision()
    mark = identity.mark
    of_history = f"{mark.history}, epoch {mark.epoch}, version {mark.version}"
    values = {
        "runs": runs,
        "readings": {(row["source"], row["schedule"]): row for row in reversed(readings)}.values(),
        "failed": [row for row in readings if row["state"] != "ok"],
        "rejected": store.rejected_by_reason(since, now),
        "waiting": [d for d in store.undelivered(now - timedelta(days=7)) if d.state != "sent"],
        "deliveries": store.delivery_counts(),
        "issues": findings(records, now), "ever_run": records.since is not None, "never_run": NEVER_RUN,
        "incidents": store.unresolved_incidents(of_monitor=True), "spans": SPANS,
        "weeks": str(weeks),
        "versions": [
            ("Code", code), ("Schema of the history", f"{revision} (this program: {REVISION})"),
            ("Rules revision", context.config.revision),
            ("History", of_history + ("" if identity.confirmed else ", not confirmed")),
        ],
    }  # fmt: skip
    return PageContent("monitor.html.j2", "Monitor", values)


PAGE = Page("/monitor", make, nav="Monitor", query=frozenset({"weeks"}))
