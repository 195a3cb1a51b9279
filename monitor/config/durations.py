"""Durations as people write them in alerts.yaml: ``30m``, ``24h``, ``9d``, ``1w``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_WRITTEN = re.compile(r"([0-9]{1,6}) ?([mhdw])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

LONGEST = timedelta(days=366)


def parse_duration(written: str) -> timedelta | None:
    """The duration; None if the text is not one (a number needs its unit).

    >>> parse_duration("9d"), parse_duration("1w"), parse_duration("9 days"), parse_duration("9")
    (datetime.timedelta(days=9), datetime.timedelta(days=7), None, None)
    """
    found = _WRITTEN.fullmatch(written.strip())
    return None if found is None else int(found[1]) * _UNITS[found[2]]


DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MORNING = 8


def next_morning(written: str, now: datetime) -> datetime | None:
    """Eight in the morning of the next such day after today, in the time zone of ``now``; None if it names no day.

    >>> friday = datetime(2026, 11, 27, 18)
    >>> [f"{next_morning(day, friday):%a %d %H:%M}" for day in ("friday", "Mon", "tomorrow")]
    ['Fri 04 08:00', 'Mon 30 08:00', 'Sat 28 08:00']
    """
    word = written.strip().lower()
    found = [number for number, day in enumerate(DAYS) if word in (day, day[:3])]
    if not found and word != "tomorrow":
        return None
    ahead = (found[0] - now.weekday()) % 7 or 7 if found else 1
    return (now + timedelta(days=ahead)).replace(hour=MORNING, minute=0, second=0, microsecond=0)


def nearest_duration(written: object) -> str | None:
    """The duration that was probably meant, such as ``9d`` for ``9 days``; None if that is not clear.

    >>> nearest_duration("9 days"), nearest_duration("2 Hours"), nearest_duration(9)
    ('9d', '2h', None)
    """
    found = re.fullmatch(r"([0-9]{1,6})\s*([a-z]+)\.?", str(written).strip().lower())
    if found is None:
        return None
    words = {"min": "m", "mins": "m", "minute": "m", "minutes": "m", "hr": "h", "hrs": "h", "hour": "h", "hours": "h"}
    words |= {"m": "m", "h": "h", "d": "d", "w": "w", "day": "d", "days": "d", "wk": "w", "week": "w", "weeks": "w"}
    return f"{found[1]}{words[found[2]]}" if found[2] in words else None
