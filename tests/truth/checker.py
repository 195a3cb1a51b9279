"""Compares what people are told with the stored rows: each story field by field, each face with its story.

A claim has a kind. Every claim is counted; those that do not hold are kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.truth import incidents, messages, pages, stories
from tests.truth.histories import Told, play
from tests.truth.rows import Row, Rows
from tests.truth.world import Event, plan

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
"""Where histories are played, if there is one: a disk that writes each change at once takes most of the time."""


@dataclass(frozen=True)
class FalseClaim:
    """A claim that does not hold: where, of which kind, what was told, and what is so."""

    where: str
    kind: str
    told: Any
    stored: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}\n    told:   {self.told}\n    stored: {self.stored}"


@dataclass
class Findings:
    """What reading one or many histories gave; ``kinds`` counts the claims."""

    histories: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    false: list[FalseClaim] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Add those of other histories."""
        self.histories += other.histories
        self.kinds += other.kinds
        self.false += other.false

    def __str__(self) -> str:
        head = f"{self.histories} histories, {self.kinds.total():,} claims checked, {len(self.false)} false"
        return "\n".join([head, *map(str, self.false[:40])])


@dataclass
class Checker:
    """Checks one history, step by step. What was told before is kept where later claims are compared with it."""

    seed: int
    until: frozenset[str] = frozenset()
    findings: Findings = field(default_factory=lambda: Findings(histories=1))
    since: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    living: dict[str, Row] = field(default_factory=dict)
    judged: set[tuple[str, ...]] = field(default_factory=set)
    read: frozenset[str] = frozenset()
    where: str = ""

    def __call__(self, told: Told, event: Event) -> None:
        """After a step: the rows agree with each other, and everything that is told with them."""
        rows = Rows(told.folder / "history.sqlite", told.clock.now)
        where = f"seed {self.seed}, {told.clock.now:%Y-%m-%d %H:%M} after {event.kind} {event.what}"
        self.where = where
        if event.kind == "restore":
            self.since.clear()
            self.living.clear()
        else:
            incidents.check(self, rows, told)
            if event.kind in ("run", "person", "look", "watch"):
                stories.check(self, rows, told)
            messages.check(self, rows, told, event)
        self.read = messages.keys_of(rows)
        if event.kind == "look":
            pages.check(self, rows, told)
        if self.until and any(claim.kind in self.until for claim in self.findings.false):
            raise Enough

    def equal(self, kind: str, told: Any, stored: Any) -> None:
        """A claim that is the same as what is stored."""
        self.holds(kind, told == stored, told, stored)

    def holds(self, kind: str, holds: bool, told: Any, stored: Any = "") -> None:
        """A claim that holds or does not."""
        self.findings.kinds[kind] += 1
        if not holds:
            self.findings.false.append(FalseClaim(self.where, kind, told, stored))

    def within(self, kind: str, told: Iterable[str], stored: Collection[str], text: str) -> None:
        """Every one of these is stored."""
        extra = sorted(set(told) - set(stored))
        self.holds(kind, not extra, f"{extra} in {text!r}", "not a field of its story")


class Enough(Exception):
    """A history has shown what was looked for."""


def check_seed(seed: int, until: Collection[str] = ()) -> Findings:
    """Play one history and check all of it; or up to the first false claim of these kinds."""
    checker = Checker(seed, frozenset(until))
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="truth-", dir=where) as folder, suppress(Enough):
        play(plan(seed), Path(folder), checker)
    return checker.findings


def check_seeds(seeds: Iterable[int]) -> Findings:
    """Many histories."""
    whole = Findings()
    for seed in seeds:
        whole.add(check_seed(seed))
    return whole
