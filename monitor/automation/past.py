"""What a process remembers of the histories it has seen, so that an older one put back under it is noticed. Pure."""

from __future__ import annotations

from monitor.records import Mark


class Past:
    """The highest mark seen. Each process begins without one: what nobody here has seen, nobody here can miss."""

    def __init__(self, seen: Mark | None = None) -> None:
        self.seen = seen

    def refusal(self, mark: Mark | None) -> str | None:
        """Why a board with this mark must not be used, in words; None, and remembered, where it may.

        >>> past = Past()
        >>> past.refusal(Mark("a", 1, 8)) is None, past.refusal(Mark("a", 1, 7))
        (True, 'the history went back to version 7 of epoch 1; version 8 of epoch 1 was seen before')
        """
        if self.seen is None:
            self.seen = mark
            return None
        if mark is None:
            return "the history has no identity any more"
        if mark.is_older_than(self.seen):
            return _words(mark, self.seen)
        self.seen = mark
        return None


def _words(mark: Mark, seen: Mark) -> str:
    found = f"version {mark.version} of epoch {mark.epoch}"
    known = f"version {seen.version} of epoch {seen.epoch}"
    if mark.history != seen.history:
        return f"another history was put in its place ({found}); {known} was seen before"
    return f"the history went back to {found}; {known} was seen before"
