"""Plays seeded histories and compares all that is told with what is stored: ``python -m tests.truth [FIRST [LAST]]``.

By default 300 histories, in two processes. Exit 1 where a claim is false.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from rich.progress import track

from tests.truth.checker import Findings, check_seed

HISTORIES, PROCESSES = range(300), 2


def main(seeds: Iterable[int] = HISTORIES) -> int:
    """Play the histories of these seeds; gives the exit code."""
    whole, seeds = Findings(), list(seeds)
    with ProcessPoolExecutor(PROCESSES) as pool:
        for one in track(pool.map(check_seed, seeds), "histories", len(seeds)):
            whole.add(one)
    print(whole)
    print("\n".join(f"{many:>9,} {kind}" for kind, many in whole.kinds.most_common()))
    return 1 if whole.false else 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    first, last = (*given, given[0] + 1)[:2] if given else (0, 0)
    raise SystemExit(main(range(first, last)) if given else main())
