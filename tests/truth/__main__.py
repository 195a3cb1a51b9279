"""Plays seeded histories and reads every text of them: ``python -m tests.truth [FIRST [LAST]]`` (default: 0 500).

Two processes, since the machines of this project have two cores. Exit 1 where a claim is false.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.truth.checker import Found, check_seed, told

HISTORIES, PROCESSES = 500, 2


def main(first: int = 0, last: int = HISTORIES) -> int:
    """Play the histories of these seeds; gives the exit code."""
    whole, began = Found(), time.monotonic()
    with ProcessPoolExecutor(PROCESSES) as pool:
        for number, found in enumerate(pool.map(check_seed, range(first, last), chunksize=5), start=1):
            whole.add(found)
            if number % 25 == 0 or found.false:
                print(f"{number} of {last - first}: {whole.summary}", flush=True)
    print(told(whole, most=200))
    print(f"by kind of text: {dict(sorted(whole.by_kind().items()))}")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if whole.false else 0


if __name__ == "__main__":
    raise SystemExit(main(*(int(word) for word in sys.argv[1:3])))
