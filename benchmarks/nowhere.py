"""A sender for benchmarks with thousands of messages: it accepts each one at once, and sends nothing."""

from __future__ import annotations

from datetime import datetime

from monitor.context import Sent, SlackCheck
from monitor.core.records import Delivery


class Nowhere:
    """A :class:`monitor.context.Sender`."""

    def send(self, delivery: Delivery, _root: Sent | None = None, /) -> Sent:
        """Accept the delivery."""
        return Sent("C1", delivery.id)

    def find(self, _delivery: Delivery, _root: Sent | None = None, /) -> None:
        """None: nothing was sent before."""

    def find_unfinished(self, _trouble: str, _channel: str, _since: datetime, /) -> None:
        """None: nothing was sent before."""

    def check(self) -> SlackCheck:
        """Every token is accepted."""
        return SlackCheck(True)
