"""The time limit of a reading: it cancels until the block ends, and never before its time or afterwards."""

from __future__ import annotations

import threading
import time

from monitor.core.sessions import TimeLimit


def watching_thread() -> threading.Thread:
    (found,) = [thread for thread in threading.enumerate() if thread.name == "warehouse time limit"]
    return found


def test_a_block_that_ends_in_time_is_never_cancelled():
    calls = []
    limit = TimeLimit(600)
    with limit.watching(lambda: calls.append(time.monotonic())):
        watch = watching_thread()
    assert not watch.is_alive()  # so nothing is left that could cancel later
    assert (calls, limit.expired) == ([], False)


def test_what_takes_too_long_is_cancelled_until_it_ends_since_once_may_fall_between_two_statements():
    twice, calls = threading.Event(), []

    def cancel() -> None:
        calls.append(time.monotonic())
        if len(calls) == 2:
            twice.set()
        raise ConnectionError("there is nothing to cancel")

    limit = TimeLimit(0.1)
    with limit.watching(cancel):
        watch = watching_thread()
        assert twice.wait(300)
    assert limit.expired
    assert not watch.is_alive()
