"""Plays seeded histories and reads every text of them: ``python -m tests.truth [FIRST [LAST]]``.

By default 500 histories, and 25 rare ones: see ``rare.py``. Two processes, since the machines of this project have two cores. Exit 1 where a claim is false.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.truth.checker import Found, check_seed, told

HISTORIES, RARE, PROCESSES = range(500), range(1000, 1025), 2


def main(seeds: Sequence[int] = (*HISTORIES, *RARE)) -> int:
    """Play the histories of these seeds; gives the exit code."""
    whole, began = Found(), time.monotonic()
    with ProcessPoolExecutor(PROCESSES) as pool:
        for number, found in enumerate(pool.map(check_seed, seeds, chunksize=5), start=1):
            whole.add(found)
            if number % 25 == 0 or found.false:
                print(f"{number} of {len(seeds)}: {whole.summary}", flush=True)
    print(told(whole, most=200))
    print(f"by kind of text: {dict(sorted(whole.by_kind().items()))}")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if whole.false else 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    first, last = (*given, len(HISTORIES))[:2] if given else (0, 0)
    raise SystemExit(main(range(first, last)) if given else main())
