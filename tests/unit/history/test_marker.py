"""The marker of a history never goes back, whoever else writes it meanwhile."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from time import monotonic

import pytest

from monitor.core.records import Identity, Mark, Recorded
from monitor.history import marker


def identity(version: int) -> Identity:
    return Identity(Mark("h", 1, version), confirmed=True, newest_at=None, why="", changed_by="", changed_at=None)


def version_in(file: Path) -> int | None:
    recorded = marker.read_marker(file)
    return None if recorded is None else recorded.mark.version


def test_a_newer_state_that_another_records_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, read = tmp_path / "history.sqlite.epoch", marker.read_marker
    marker.write_marker(file, identity(1))
    newer = threading.Thread(target=marker.write_marker, args=(file, identity(3)))

    def slowly(path: Path | None) -> Recorded | None:
        recorded = read(path)
        if threading.current_thread() is threading.main_thread():
            newer.start()
            newer.join(timeout=0.3)  # without a lock it is done before the older state is written
        return recorded

    with monkeypatch.context() as patch:
        patch.setattr(marker, "read_marker", slowly)
        marker.write_marker(file, identity(2))
    newer.join()
    assert version_in(file) == 3


def test_an_older_state_and_the_same_one_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history.json"
    marker.write_marker(file, identity(2))
    before = file.stat().st_ino
    for version in (1, 2):
        marker.write_marker(file, identity(version))
        assert (version_in(file), file.stat().st_ino) == (2, before)
    marker.remove_marker(file)
    marker.remove_marker(file)
    assert version_in(file) is None


def test_a_stopped_process_that_holds_the_lock_keeps_nobody_from_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker, "WAIT_S", 0.2)
    file, began = tmp_path / "history.sqlite.epoch", monotonic()
    with (tmp_path / "history.sqlite.epoch.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        marker.write_marker(file, identity(1))
    assert version_in(file) == 1
    assert monotonic() - began >= 0.2
