"""Slack for benchmarks that send thousands of messages: each is there at once, and nobody sees it."""

from __future__ import annotations

from monitor.context import Sent, SlackCheck
from monitor.core.records import Delivery


class Nowhere:
    """A :class:`monitor.context.Sender`."""

    def send(self, delivery: Delivery, _root: Sent | None = None, /) -> Sent:
        """Sent."""
        return Sent("C1", delivery.id)

    def find(self, _delivery: Delivery, _root: Sent | None = None, /) -> None:
        """Nothing was sent before."""

    def check(self) -> SlackCheck:
        """Every token is accepted."""
        return SlackCheck(True)
