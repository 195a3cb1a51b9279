"""The sizes of the benchmarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of all benchmarks.

    ``labels`` labels everywhere. The race: ``rows`` a label and ``resamples``
    an interval, of which a round measures as many as it can in ``patience`` seconds (the numpy row bootstrap) or
    ``peer_patience`` (the others); ``memory`` too, in separate processes. Weeks: ``weeks`` of ``week_rows`` a
    label, and runs of ``run_rows`` a label. Replay: ``replayed`` weeks and their days.
    """

    labels: int = 20
    rows: int = 100_000
    resamples: int = 1000
    patience: float = 30.0
    peer_patience: float = 4.0
    rounds: int = 3
    memory: bool = True
    week_rows: tuple[int, ...] = (500, 2_000, 10_000)
    weeks: int = 6
    run_rows: int = 100_000
    replayed: int = 52


QUICK = Size(
    labels=4,
    rows=20_000,
    resamples=100,
    patience=0.2,
    peer_patience=0.05,
    rounds=2,
    week_rows=(1_000,),
    weeks=2,
    run_rows=1_000,
    replayed=4,
)
"""Small data, to check that everything runs, not how fast."""
