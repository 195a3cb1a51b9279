"""The schedules of deployments/prefect.yaml: their time zones, and when each is due next."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from monitor.core.shipped import SCHEDULES_FILE, shipped

_SCHEDULE = re.compile(r'(cron: "(?P<cron>[^"]+)"\n +timezone: )UTC')


def zone_of(cron: str, timezone: str) -> str:
    """The time zone of a schedule where the one of alerts.yaml is ``timezone``.

    What runs in every hour runs in UTC: in a zone where clocks are put back, Prefect leaves out the hour that comes
    twice, so that the watchdog would be silent for 75 minutes.

    >>> zone_of("30 6 * * 1", "Europe/Berlin"), zone_of("*/15 * * * *", "Europe/Berlin")
    ('Europe/Berlin', 'UTC')
    """
    return "UTC" if cron.split()[1:2] == ["*"] else timezone


def next_time(cron: str, timezone: str, now: datetime) -> datetime:
    """When a schedule of a time and maybe a day of the week (``30 6 * * 1``) is due next, in its time zone.

    >>> now = datetime(2026, 11, 27, 15, tzinfo=ZoneInfo("UTC"))
    >>> f"{next_time('30 6 * * 1', 'Europe/Berlin', now):%A %Y-%m-%d %H:%M}"
    'Monday 2026-11-30 06:30'
    """
    minute, hour, *_, weekday = cron.split()
    local = now.astimezone(ZoneInfo(timezone))
    days = (local.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0) + timedelta(n) for n in range(9))
    return next(day for day in days if day > local and weekday in ("*", f"{day.isoweekday() % 7}"))


def in_zone(schedules: str, timezone: str) -> str:
    """The text of the shipped schedules, which are in UTC, for an alerts.yaml with that time zone."""
    return _SCHEDULE.sub(lambda found: found[1] + zone_of(found["cron"], timezone), schedules)


def schedules(timezone: str) -> dict[str, dict[str, str]]:
    """Deployment name -> its ``cron`` and ``timezone``, from deployments/prefect.yaml."""
    loaded: dict[str, Any] = yaml.safe_load(in_zone(shipped(SCHEDULES_FILE).read_text("utf-8"), timezone))
    return {d["name"]: d["schedules"][0] for d in loaded["deployments"] if d.get("schedules")}
