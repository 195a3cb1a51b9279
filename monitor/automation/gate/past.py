"""What a process remembers of the histories it has seen, so that an older one put back under it is noticed. Pure."""

from __future__ import annotations

from types import EllipsisType

from monitor.core.records import Mark


class Past:
    """The highest mark seen. Each process begins without one: what nobody here has seen, nobody here can miss."""

    def __init__(self, seen: Mark | None = None) -> None:
        self.seen = seen
        self._left: Mark | None = None

    def refusal(self, mark: Mark | None, before: Mark | EllipsisType | None = ...) -> str | None:
        """Why a snapshot with this mark must not be used, in words; None, and remembered, where it may.

        A history that went back is refused until somebody raises its epoch: its version, counted on from the older
        copy, overtakes the one seen before, and what was turned off in between is on all the same. ``before`` is what
        was ``seen`` when the reading began, where several threads read: to be behind another thread is not to go back.

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
