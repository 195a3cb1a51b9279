"""What the HTTP service asks of history and configuration: :class:`Backend`, and what it is given and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from monitor.automation.gate.snapshot import SwitchSnapshot
from monitor.core.records import Annotation
from monitor.operations.annotate import NewAnnotation
from monitor.service.forms import Form
from monitor.service.pages.base import Answer, Page, PageRequest


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A requested change: one switch (label None: the source's own) on or off.

    ``key`` is the client's idempotency key with the token's name before it.
    """

    source: str
    label: str | None
    enable: bool
    by: str
    reason: str
    until: datetime | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A change in the history; ``already``: an earlier request made it."""

    source: str
    label: str | None
    state: str
    by: str
    reason: str
    at: datetime
    until: datetime | None
    lease_until: datetime | None
    already: bool


class Backend(Protocol):
    """What the service needs. Every method may raise :class:`RequestRefused`, and is called in a thread."""

    def board(self) -> SwitchSnapshot:
        """Every switch and threshold, now."""

    def now(self) -> datetime:
        """The time, with its zone."""

    def change(self, requested: RequestedChange) -> Stored:
        """Turn a switch off or on, once for each key."""

    def annotations(self, source: str | None, label: str | None) -> list[Annotation]:
        """The annotations that are not removed, by time; for a label with those of its whole source."""

    def annotate(self, requested: NewAnnotation) -> tuple[Annotation, bool]:
        """Store an annotation, once for each key; returns it, and whether an earlier request stored it."""

    def remove_annotation(self, id: str, by: str, reason: str) -> tuple[Annotation, bool]:
        """Remove an annotation from every axis; returns it, and whether it was removed before."""

    def show(self, page: Page, request: PageRequest) -> Answer:
        """A page of the dashboard, or one of its tables."""

    def submit(self, form: Form, fields: Mapping[str, str], by: str) -> str:
        """Do what a form asks for; returns the address of the page that shows it."""

    def newest_week(self) -> str | None:
        """The name of the newest week that was evaluated; None if none was."""

    def report(self, week: str) -> str:
        """The report of one week as HTML."""

    def drift(self, source: str, week: str) -> str:
        """The page about a source's feature columns that a run kept. Raises :class:`RequestRefused` without one."""

    def metrics(self) -> str:
        """The newest numbers in Prometheus' text format."""

    def document(self, name: str) -> str:
        """A document as HTML ("" is the list of all). Raises :class:`RequestRefused` for an unknown name."""

    def picture(self, name: str) -> bytes:
        """A PNG of the documents. Raises :class:`RequestRefused` for an unknown name."""
