"""The system's user, for changes that have no other name."""

from __future__ import annotations

import getpass

UNKNOWN = "unknown"


def system_user() -> str:
    """The name of the system's user; "unknown" for a user without one, as in many containers."""
    try:
        return getpass.getuser().strip() or UNKNOWN
    except (KeyError, OSError):
        return UNKNOWN
