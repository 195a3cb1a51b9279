"""The handbook's level of a label, as reports show it; the rule is in :mod:`monitor.report.conclusions`."""

from __future__ import annotations

from monitor.report.conclusions import Level, level

__all__ = ["Level", "level"]
