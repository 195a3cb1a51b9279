"""What goes wrong with the monitor itself in a rare story: its flows, its token, Slack's refusals, an older history.

As in :mod:`tests.truth.troubles`, all of it is planned before the story is played. Only rare stories have any of it
(:data:`tests.truth.histories.RARE`), so that the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from monitor.core.records import Window

LOOKS_EVERY = timedelta(minutes=15)
PATIENCE = timedelta(hours=1)
"""How long a watchdog may be silent, and a run may wait, before it is said."""
REFUSAL = "Slack refuses the message: invalid_blocks"


@dataclass(frozen=True)
class Span:
    """A time in which something is wrong. ``what`` says of what: a channel, a flow."""

    start: datetime
    end: datetime
    what: str = ""
    error: str = ""

    def holds(self, at: datetime) -> bool:
        return self.start <= at < self.end


@dataclass(frozen=True)
class Waiting(Span):
    """Prefect holds these runs: (flow, due), the oldest first."""

    runs: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class PutBack:
    """An older copy of the history is put back, and an operator confirms it later.

    ``by_command``: with ``calmon db restore``; else its file is copied, and the next look of the watchdog finds that.
    """

    copied: datetime
    at: datetime
    confirmed: datetime
    by: str
    why: str
    by_command: bool = True


@dataclass(frozen=True)
class Mishaps:
    """Everything of this kind in one story.

    ``stopped``: the watchdog does not look. ``failures``: a flow fails, until it runs again. ``refused``: Slack refuses
    all messages to a channel for good. ``tokenless``: no process has a token. ``killed``: the weeks whose run is killed.
    """

    stopped: Sequence[Span] = ()
    waiting: Sequence[Waiting] = ()
    failures: Sequence[Span] = ()
    refused: Sequence[Span] = ()
    tokenless: Sequence[Span] = ()
    killed: Sequence[str] = ()
    put_back: PutBack | None = None

    def looked(self, at: datetime) -> datetime:
        """When the watchdog looked last, as of a time: at the last quarter of an hour in which it ran."""
        pause = next((span for span in self.silences if span.holds(at)), None)
        last = at if pause is None else pause.start
        return last - (last - datetime.min.replace(tzinfo=last.tzinfo)) % LOOKS_EVERY

    @property
    def silences(self) -> Sequence[Span]:
        """When the watchdog does not look, as it is stopped or fails."""
        return [*self.stopped, *(span for span in self.failures if span.what == "calmon-watchdog")]

    def is_watched(self, at: datetime) -> bool:
        """Whether the watchdog looks at this time."""
        return not any(span.holds(at) for span in self.silences)

    def waiting_at(self, at: datetime) -> Sequence[tuple[str, str]]:
        """The runs that wait, as the watchdog finds them."""
        return next((span.runs for span in self.waiting if span.holds(at)), ())

    def has_no_token(self, at: datetime, sent: datetime) -> bool:
        """Whether no process has a token; or none had one, and nothing is known of one since: ``sent`` is the last message."""
        return any(span.start <= at and (at < span.end or sent < span.end) for span in self.tokenless)

    def failing(self, flow: str, at: datetime) -> Span | None:
        """The failure of a flow that has not run since."""
        return next((span for span in self.failures if span.what == flow and span.holds(at)), None)


def mishaps_of(weeks: Sequence[Window], rng: Random) -> Mishaps:
    """The mishaps of a story of these weeks: most of all kinds, each in a week of its own where there are enough."""
    order = [weeks[k] for k in rng.sample(range(1, len(weeks)), k=len(weeks) - 1)] * 2
    stopped, waiting, failed, killed, refused, tokenless = order[:6]
    return Mishaps(
        stopped=tuple(_stopped(stopped, rng)),
        waiting=tuple(_waiting(waiting, rng)),
        failures=tuple(_failures(failed, rng)),
        refused=tuple(_refused(refused, rng)),
        tokenless=tuple(_tokenless(tokenless, rng)),
        killed=(killed.name,) if rng.random() < 0.7 else (),
        put_back=_put_back(weeks, rng) if rng.random() < 0.5 else None,
    )


def _after(week: Window, rng: Random) -> datetime:
    """A time of the days after the run of a week."""
    return week.end + timedelta(days=rng.randint(0, 3), hours=rng.randint(8, 20), minutes=rng.randint(0, 59))


def _stopped(week: Window, rng: Random) -> Iterator[Span]:
    if rng.random() < 0.7:
        start = _after(week, rng)
        yield Span(start, start + timedelta(hours=rng.choice((3, 9, 40))))


def _waiting(week: Window, rng: Random) -> Iterator[Waiting]:
    """One run or many, since before the watchdog finds them."""
    if rng.random() < 0.7:
        start = _after(week, rng)
        dues = sorted(start - PATIENCE - timedelta(minutes=rng.randint(1, 90)) for _ in range(rng.choice((1, 3, 7))))
        flows = [rng.choice(("calmon-weekly", "calmon-drain")) for _ in dues]
        runs = tuple((flow, f"{due:%Y-%m-%d %H:%M}") for flow, due in zip(flows, dues, strict=True))
        yield Waiting(start, start + timedelta(hours=rng.choice((4, 12))), runs=runs)


def _failures(week: Window, rng: Random) -> Iterator[Span]:
    """A flow fails, and runs again hours later."""
    if rng.random() < 0.8:
        start, flow = _after(week, rng), rng.choice(("calmon-drain", "calmon-watchdog"))
        error = rng.choice(("Flow run exceeded timeout of 240.0 second(s)", "OSError: no space left on device"))
        yield Span(start, start + timedelta(hours=rng.choice((2, 6, 30))), flow, error)


def _refused(week: Window, rng: Random) -> Iterator[Span]:
    """Slack refuses everything for one channel, from before a run of a week on."""
    if rng.random() < 0.7:
        start = week.end + timedelta(hours=rng.choice((1, 5)))
        yield Span(start, start + timedelta(hours=rng.choice((10, 60))), rng.choice(("#ml-oncall", "#ml-monitoring")))


def _tokenless(week: Window, rng: Random) -> Iterator[Span]:
    if rng.random() < 0.7:
        start = week.end + timedelta(hours=rng.choice((1, 5)))
        yield Span(start, start + timedelta(hours=rng.choice((10, 60, 200))))


def _put_back(weeks: Sequence[Window], rng: Random) -> PutBack:
    """A backup of some day, put back a week or two later, and confirmed some hours or days after that."""
    number = rng.randrange(0, len(weeks) - 2)
    copied = weeks[number].end + timedelta(days=rng.randint(1, 3), hours=4, minutes=31)
    at = copied + timedelta(days=rng.choice((2, 7, 8)), hours=5)
    by, why = rng.choice(("ana", "ben")), rng.choice(("the disk was damaged", "a wrong command emptied a table"))
    confirmed = at + timedelta(hours=rng.choice((3, 30, 100)))
    return PutBack(copied, at, confirmed, by, why, by_command=rng.random() < 0.6)
