"""The light of a label, as reports show it; the rule is in :mod:`monitor.conclusions`."""

from __future__ import annotations

from monitor.conclusions import Light, light

__all__ = ["Light", "light"]
