"""Durations as people write them in alerts.yaml: ``30m``, ``24h``, ``9d``, ``1w``."""

from __future__ import annotations

import re
from datetime import timedelta

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
