"""What can go wrong with the history, each with the remedy in its message."""

from __future__ import annotations

from monitor.core.redaction import without_secrets


class HistoryError(Exception):
    """The history could not be used as asked. The message holds no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(without_secrets(message))


class WrongStoreAddress(HistoryError):
    """The address is not one of a history: a mistake in the settings, which trying again will not fix."""


class StoreUnreachable(HistoryError):
    """The database does not answer."""


class StoreMissing(HistoryError):
    """There is no history at the address, and nobody asked for one to be made."""


class HistoryLost(HistoryError):
    """There was a history at the address, and it is gone: nobody but an operator may put another in its place."""


class HistoryDamaged(HistoryError):
    """The history is there, and cannot be what it should be."""


class SchemaOutdated(HistoryError):
    """The tables are of another revision than this program."""


class NotFound(HistoryError):
    """Nothing has that id."""


class Ambiguous(HistoryError):
    """More than one thing begins with that id."""


class LostRace(Exception):
    """Somebody else changed the same rows first; the transaction must be rolled back, and all be decided again."""


class VersionClash(HistoryError):
    """Somebody else stored this version in the meantime."""
