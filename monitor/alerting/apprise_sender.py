"""Sends notices through Apprise, which knows PagerDuty, e-mail, Teams and a hundred others: the sender beside Slack's.

Nothing that it sent can be edited or looked for, so what may have been sent is sent again, marked as a possible repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import unescape

from monitor.alerting.slack.client import TransportError
from monitor.config.environment import apprise_addresses
from monitor.config.settings import Settings
from monitor.context import Sent, SlackCheck
from monitor.core.records import APPRISE, Delivery

NOT_INSTALLED = "Apprise is not installed: pip install 'calibration-monitor[apprise]'"


class AppriseSender:
    """A ``Sender`` for the receivers of ``CALMON_APPRISE``, by name."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses

    @property
    def names(self) -> tuple[str, ...]:
        """The names that routes may have."""
        return tuple(self._addresses)

    def send(self, delivery: Delivery, root: Sent | None = None, /) -> Sent:
        """Send a notice, or the text of a message for Slack, once, or raise TransportError. There are no edits."""
        if delivery.operation == "edit":
            return root or Sent("", "")
        name, payload = delivery.channel.removeprefix(APPRISE), delivery.payload
        top, _, rest = unescape(payload["text"]).partition(": ")
        title, body = (payload.get("title", payload["text"]), payload["body"]) if "body" in payload else (top, rest)
        if name not in self._addresses:
            raise TransportError(f"CALMON_APPRISE has no {name!r}")
        try:
            import apprise  # noqa: PLC0415 - an extra, and slow to import
        except ImportError as error:
            raise TransportError(NOT_INSTALLED) from error
        try:
            to = apprise.Apprise()
            understood = to.add(self._addresses[name])
            kind = apprise.NotifyType(payload.get("type", "info" if delivery.kind == "test" else "failure"))
            done = understood and to.notify(title=title, body=body, notify_type=kind)
        except Exception as error:  # of any of its many receivers: the run must go on
            raise TransportError(f"Apprise failed for {name!r}: {type(error).__name__}") from error
        if not done:
            how = "it did not take it, or was not reached" if understood else "Apprise does not understand its address"
            raise TransportError(f"{name!r}: {how}")
        return Sent(name[:64], delivery.id)

    def find(self, delivery: Delivery, _root: Sent | None = None, /) -> Sent | None:
        """Raise TransportError: no receiver can be searched."""
        raise TransportError(f"{delivery.channel} cannot be searched", permanent=True)

    def check(self) -> SlackCheck:
        """Whether Apprise understands every address; none is called."""
        try:
            import apprise  # noqa: PLC0415 - as above
        except ImportError:
            return SlackCheck(False, problem=NOT_INSTALLED)
        wrong = [name for name, address in self._addresses.items() if not apprise.Apprise().add(address)]
        problem = f"Apprise does not understand the address of {', '.join(wrong)}" if wrong else ""
        return SlackCheck(not wrong, user=", ".join(self._addresses), problem=problem)


def apprise_of(settings: Settings) -> AppriseSender | None:
    """The receivers of ``CALMON_APPRISE``; None where it is not set."""
    if settings.apprise is None:
        return None
    return AppriseSender(apprise_addresses(settings.apprise.get_secret_value()))
