"""The time zone of each schedule of deployments/prefect.yaml."""

from __future__ import annotations

import re

_SCHEDULE = re.compile(r'(cron: "(?P<cron>[^"]+)"\n +timezone: )UTC')


def zone_of(cron: str, timezone: str) -> str:
    """The time zone of a schedule where the one of alerts.yaml is ``timezone``.

    What runs in every hour runs in UTC: in a zone where clocks are put back, Prefect leaves out the hour that comes
    twice, so that the watchdog would be silent for 75 minutes.

    >>> zone_of("30 6 * * 1", "Europe/Berlin"), zone_of("*/15 * * * *", "Europe/Berlin")
    ('Europe/Berlin', 'UTC')
    """
    return "UTC" if cron.split()[1:2] == ["*"] else timezone


def in_zone(schedules: str, timezone: str) -> str:
    """The text of the shipped schedules, which are in UTC, for an alerts.yaml with that time zone."""
    return _SCHEDULE.sub(lambda found: found[1] + zone_of(found["cron"], timezone), schedules)
