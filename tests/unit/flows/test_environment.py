"""What `make serve` and `make demo` read before they start anything: the file .env of the folder, as `calmon` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flows import demo, serve


@pytest.mark.parametrize("main", [serve.main, demo.main])
def test_a_program_of_the_flows_reads_the_file_env_and_a_broken_one_starts_nothing(
    main: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALMON_CONFIG", "")  # so that it is put back; an empty variable counts as not set
    (tmp_path / ".env").write_text("CALMON_CONFIG=rules-of-ours.yaml\n", "utf-8")
    assert main() == 2
    assert "rules-of-ours.yaml" in capsys.readouterr().err
    monkeypatch.setenv("CALMON_CONFIG", "")
    (tmp_path / ".env").write_text("CALMON_CONFIG='rules\n", "utf-8")
    assert main() == 2
    assert "a quotation mark of CALMON_CONFIG is not closed" in capsys.readouterr().err
