"""A file somebody named: written whole, and never put in the place of what is no plain file."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from monitor.core.files import write_whole


def test_a_file_is_written_with_its_folder_and_leaves_no_draft(tmp_path: Path):
    target = tmp_path / "new" / "r.html"
    write_whole(target, "ä")
    write_whole(target, b"b")
    assert target.read_bytes() == b"b"
    assert [p.name for p in target.parent.iterdir()] == ["r.html"]


def test_the_rights_of_a_file_stay_and_a_new_one_gets_the_usual_ones(tmp_path: Path):
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.write_text("old")
    kept.chmod(0o640)
    write_whole(kept, "new")
    write_whole(new, "new")
    other = tmp_path / "other"
    other.touch()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert new.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_stays_and_what_it_leads_to_is_written(tmp_path: Path, there: bool):
    real, link = tmp_path / "real", tmp_path / "link"
    if there:
        real.write_text("old")
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_device_is_written_to_and_stays_a_device():
    before = os.stat("/dev/null")  # noqa: PTH116 - both looks alike
    write_whole(Path("/dev/null"), "gone")
    after = os.stat("/dev/null")  # noqa: PTH116
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    with pytest.raises(OSError, match="No space"):
        write_whole(Path("/dev/full"), "x")


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, "through")
    reader.join(10)
    assert found == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_as_a_file_is_written_to_where_it_is_one(tmp_path: Path):
    target = tmp_path / "out"
    with target.open("wb") as stream:
        write_whole(Path(f"/dev/fd/{stream.fileno()}"), "x")
        assert os.fstat(stream.fileno()).st_ino == target.stat().st_ino
    assert target.read_text() == "x"


def test_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(OSError, match="is a directory"):
        write_whole(tmp_path, "x")


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(tmp_path: Path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        write_whole(tmp_path / "file" / "inside", "x")
    with pytest.raises(OSError, match="too long"):
        write_whole(tmp_path / ("n" * 300), "x")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
