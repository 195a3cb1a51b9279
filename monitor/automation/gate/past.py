"""The newest history that a process has seen, so that it notices when an older copy is put back. Pure."""

from __future__ import annotations

from types import EllipsisType

from monitor.core.records import Mark


class Past:
    """The highest mark that this process has seen; None at first, so an older copy is noticed only later."""

    def __init__(self, seen: Mark | None = None) -> None:
        self.seen = seen
        self._left: Mark | None = None

    def refusal(self, mark: Mark | None, before: Mark | EllipsisType | None = ...) -> str | None:
        """Why a snapshot with this mark must not be used, in words. None if it may; then the mark is remembered.

        A history that went back is refused until an operator raises its epoch. Its version alone proves nothing:
        counted on from the older copy it overtakes the one seen before, while labels that were turned off in between
        are on. If several threads read, ``before`` is the mark ``seen`` when the reading began, since another thread
        may have read a newer version meanwhile.

        >>> past = Past()
        >>> past.refusal(Mark("a", 1, 8)) is None, past.refusal(Mark("a", 1, 7))
        (True, 'the history went back to version 7 of epoch 1; version 8 of epoch 1 was seen before')
        >>> past.refusal(Mark("a", 1, 9)) is None, past.refusal(Mark("a", 2, 9)) is None
        (False, True)
        """
        known = self.seen if isinstance(before, EllipsisType) else before
        if mark is None:
            return None if known is None else "the history has no identity any more"
        if known is not None and mark.is_older_than(known):
            if _line(mark) == _line(known):
                self._left = known
            if mark.history != known.history:
                return f"another history was put in its place ({_name(mark)}); {_name(known)} was seen before"
            return f"the history went back to {_name(mark)}; {_name(known)} was seen before"
        left = self._left
        if left is not None and _line(mark) == _line(left):
            return f"the history went back behind {_name(left)}; nobody has confirmed it"
        if self.seen is None or not mark.is_older_than(self.seen):
            self.seen = mark
        return None


def _line(mark: Mark) -> tuple[str, int]:
    return mark.history, mark.epoch


def _name(mark: Mark) -> str:
    return f"version {mark.version} of epoch {mark.epoch}"
