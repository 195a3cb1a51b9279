"""The sizes of the benchmarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of all benchmarks.

    ``labels`` labels everywhere. The race: ``rows`` a label and ``resamples``
    an interval, of which a round measures as many as it can in ``patience`` seconds (the numpy row bootstrap) or
    ``peer_patience`` (the others); ``memory`` too, in separate processes. Replay: ``replayed`` weeks and their days.
    """

    labels: int = 20
    rows: int = 100_000
    resamples: int = 1000
    patience: float = 30.0
    peer_patience: float = 4.0
    rounds: int = 3
    memory: bool = True
    replayed: int = 52


QUICK = Size(
    labels=4,
    rows=20_000,
    resamples=100,
    patience=0.2,
    peer_patience=0.05,
    rounds=2,
    replayed=4,
)
"""Small data, to check that everything runs, not how fast."""
