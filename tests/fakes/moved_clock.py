"""``python -m tests.fakes.moved_clock DAYS WORDS...``: calmon as a process whose clock is DAYS ahead."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor import context


def move(days: float) -> None:
    """Move the clock. This must run before the commands are imported, since they import the clock by name."""

    def moved() -> datetime:
        return datetime.now(UTC) + timedelta(days=days)

    context.utc_now = moved
    from monitor.operations import open as opening  # binds the clock when it is imported

    opened: Any = opening.open_monitor
    opened.__wrapped__.__kwdefaults__["clock"] = moved


if __name__ == "__main__":
    move(float(sys.argv[1]))
    sys.argv = ["calmon", *sys.argv[2:]]
    from monitor.cli import main

    main()
