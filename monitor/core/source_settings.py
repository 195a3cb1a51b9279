"""The settings of a source that decide what its numbers mean, as stored with counts, and how two of them differ.

A setting that is not stored has its default, so settings of later versions need no change of what is stored already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Settings = Mapping[str, str]
"""Setting -> its value as text, as :func:`monitor.config.counting.settings_of` writes it."""

QUERY = "query "
"""What the text of a relation begins with that is a SELECT; a hash of the statement follows."""

COLUMN = "columns."
"""What the name of a column's setting begins with."""

_RELATIONS = ("relation", "truth.relation")
_OF_CLUSTERS = f"{COLUMN}cluster"
_SAME_NUMBERS = frozenset(
    {"window_on", "types", *(f"{COLUMN}{name}" for name in ("item", "resolved_at", "predicted_at")), _OF_CLUSTERS}
)
"""Settings that change neither score nor outcome of a row: names, and in which window it is."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting with its values then and now; "" is the default."""

    name: str
    then: str
    now: str

    @property
    def is_of_query(self) -> bool:
        """Whether a relation is, or was, a SELECT, whose text says which rows are counted."""
        return self.then.startswith(QUERY) or self.now.startswith(QUERY)

    @property
    def changes_numbers(self) -> bool:
        """Whether scores, outcomes or the choice of rows may differ, so that counts cannot be compared.

        A table of another name mostly holds the same rows: that alone is only reported.

        >>> SettingChange("relation", "tickets", "tickets_v2").changes_numbers
        False
        >>> SettingChange("score_scale", "", "100.0").changes_numbers
        True
        """
        return self.is_of_query if self.name in _RELATIONS else self.name not in _SAME_NUMBERS

    def __str__(self) -> str:
        if self.then.startswith(QUERY) and self.now.startswith(QUERY):
            return f"{self.name}: another SELECT"
        return f"{self.name}: {self._words(self.then)} then, {self._words(self.now)} now"

    def _words(self, value: str) -> str:
        if value.startswith(QUERY):
            return "a SELECT"
        return value or (self.name.removeprefix(COLUMN) if self.name.startswith(COLUMN) else "not set")


def changes(then: Settings, now: Settings) -> tuple[SettingChange, ...]:
    """What differs, by name.

    >>> [str(each) for each in changes({"score_is": "x", "columns.score": "p"}, {"score_is": "x"})]
    ['columns.score: p then, score now']
    """
    names = sorted({*then, *now})
    pairs = [SettingChange(name, then.get(name, ""), now.get(name, "")) for name in names]
    return tuple(pair for pair in pairs if pair.then != pair.now)


def other_numbers(found: Sequence[SettingChange]) -> tuple[SettingChange, ...]:
    """The changes for which counts cannot be compared."""
    return tuple(change for change in found if change.changes_numbers)


def other_evidence(found: Sequence[SettingChange]) -> tuple[SettingChange, ...]:
    """The changes for which evidence cannot be added up: how far rows of one cluster agree is part of it, too."""
    return tuple(change for change in found if change.changes_numbers or change.name == _OF_CLUSTERS)


def other_rows(found: Sequence[SettingChange]) -> tuple[SettingChange, ...]:
    """The changes for which a window may have other rows though its relation has not.

    Another table's name and another column of clusters are none.

    >>> [each.name for each in other_rows([SettingChange("relation", "a", "b"), SettingChange("window_on", "", "x")])]
    ['window_on']
    """
    return tuple(change for change in found if change.is_of_query or change.name not in (*_RELATIONS, _OF_CLUSTERS))


def in_words(found: Sequence[SettingChange]) -> str:
    """The changes as one text.

    >>> in_words([SettingChange("positive", "", "yes"), SettingChange("relation", "a", "b")])
    'positive: not set then, yes now; relation: a then, b now'
    """
    return "; ".join(map(str, found))


def as_detail(found: Sequence[SettingChange]) -> list[list[str]]:
    """The changes as the detail of a verdict keeps them."""
    return [[change.name, change.then, change.now] for change in found]


def from_detail(kept: Sequence[Sequence[str]]) -> tuple[SettingChange, ...]:
    """The changes that :func:`as_detail` wrote."""
    return tuple(SettingChange(*each) for each in kept)
