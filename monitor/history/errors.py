"""Errors of the history. Each message says how to fix it."""

from __future__ import annotations

from monitor.core.redaction import without_secrets


class HistoryError(Exception):
    """The history could not be used as requested. The message contains no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(without_secrets(message))


class WrongStoreAddress(HistoryError):
    """The address is not that of a history. The settings are wrong; trying again does not help."""


class StoreUnreachable(HistoryError):
    """The database does not answer."""


class NoRight(HistoryError):
    """The role of the address may not create or change the tables."""


class StoreMissing(HistoryError):
    """There is no history at the address, and the caller did not ask to create one."""


class HistoryLost(HistoryError):
    """The history at the address is gone. Only an operator may create another in its place."""


class HistoryDamaged(HistoryError):
    """The history exists, but is not a valid one."""


class SchemaOutdated(HistoryError):
    """The tables have another schema revision than this program needs."""


class NotFound(HistoryError):
    """Nothing has that id."""


class Ambiguous(HistoryError):
    """More than one thing begins with that id."""


class LostRace(Exception):
    """Somebody else changed the same rows first. The transaction must be rolled back, and the decision made again."""


class VersionClash(HistoryError):
    """Somebody else stored this version in the meantime."""
