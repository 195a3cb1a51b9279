"""How a PostgreSQL session writes dates: the driver reads the ISO style only."""

from __future__ import annotations

from typing import Any


def use_iso_dates(connection: Any) -> None:
    """Let a psycopg connection write dates in the ISO style, whatever its role, database or address say.

    The order of day and month in which dates are read is kept. In the usual case nothing is sent.
    """
    style = connection.info.parameter_status("DateStyle")
    if style is None or not style.startswith("ISO"):
        connection.execute("SET DateStyle TO ISO")
        connection.commit()
