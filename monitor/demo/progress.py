"""One progress bar for the steps of the demo, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Steps:
    """A bar for the present step; the bars of finished steps stay above it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, text: str, total: int) -> None:
        """Finish the step before and start one of ``total`` parts."""
        self.finish()
        self._task = self._progress.add_task(text, total=total)

    def advance(self) -> None:
        """One part is done."""
        if self._task is not None:
            self._progress.advance(self._task)

    def finish(self) -> None:
        """Show the present step as done."""
        if self._task is not None:
            total = self._progress.tasks[self._task].total
            self._progress.update(self._task, completed=total)

    def of(self, text: str) -> Callable[[int, int], None]:
        """A callback (done, total) for functions that report their own progress."""

        def report(done: int, total: int) -> None:
            if self._task is None or self._progress.tasks[self._task].description != text:
                self.begin(text, total)
            if self._task is not None:
                self._progress.update(self._task, completed=done, total=total)

        return report


@contextmanager
def steps() -> Iterator[Steps]:
    """The bar, drawn while the block lasts."""
    text, count = TextColumn("{task.description}"), MofNCompleteColumn()
    columns = (SpinnerColumn(), text, BarColumn(), count, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        shown = Steps(progress)
        yield shown
        shown.finish()
