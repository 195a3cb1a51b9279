"""The addresses that messages link to: pages of the dashboard, and the documents that it serves."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.config.settings import Settings
from monitor.core import documents
from monitor.core.page_paths import label_path

LONGEST = 400
"""The longest address of a label, in characters: five must fit into a line of a message."""


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses of pages: ``dashboard`` is that of ``calmon dashboard`` for people (None: no links to it).

    ``documents`` is the folder ``docs/`` somewhere else (None: the dashboard serves it), where a page is a
    Markdown file. ``pages`` are the documents that exist; others get no link.
    """

    dashboard: str | None = None
    documents: str | None = None
    pages: frozenset[str] = frozenset()

    def label(self, source: str, label: str | None) -> str | None:
        """The page of a label; None where its address is too long for a message.

        >>> Links("https://calmon.example.org/").label("tickets", "billing")
        'https://calmon.example.org/label/tickets/billing'
        """
        if self.dashboard is None:
            return None
        found = f"{self.dashboard.rstrip('/')}/{label_path(source, label)}"
        return found if len(found) <= LONGEST else None

    def page(self, name: str) -> str | None:
        """A document by its name without ending, such as ``runbook/above_threshold``.

        >>> known = frozenset({"runbook/increased", "switch"})
        >>> Links("https://calmon.example.org", pages=known).page("runbook/increased")
        'https://calmon.example.org/docs/runbook/increased'
        >>> Links(documents="https://git.example.org/calmon/blob/main/docs/", pages=known).page("switch")
        'https://git.example.org/calmon/blob/main/docs/switch.md'
        """
        if name not in self.pages:
            return None
        if self.documents is not None:
            return f"{self.documents.rstrip('/')}/{name}.md"
        return None if self.dashboard is None else f"{self.dashboard.rstrip('/')}/docs/{name}"

    def runbook(self, reason: str) -> str | None:
        """The runbook page of a reason."""
        return self.page(f"runbook/{reason}")


def links_of(settings: Settings) -> Links:
    """The addresses of the pages that messages link to."""
    return Links(settings.public_url, settings.docs_url, documents.pages())
