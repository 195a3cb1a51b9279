"""The file .env: what it says of calmon's variables, and what the environment says first."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.config.env_file import missing_of
from monitor.config.settings import SettingsError
from monitor.operations.starter_files import starter_environment


def written(folder: Path, text: str) -> Path:
    path = folder / ".env"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_init_writes_is_read_back(tmp_path: Path) -> None:
    address = "postgresql://a:it's%20a#b@db/x?sslmode=require"
    assert missing_of({}, written(tmp_path, starter_environment(address))) == {"CALMON_WAREHOUSE_URL": address}


def test_values_are_read_as_a_shell_reads_them_and_other_variables_are_not_ours(tmp_path: Path) -> None:
    text = (
        "# CALMON_CONFIG=no\nexport CALMON_CONFIG=rules.yaml # why\nCALMON_STORE_URL=\"sqlite:///a b.sqlite\"\n"
        "\nPATH=/nowhere\nCALMON_PUBLIC_URL=\n  CALMON_DOCS_URL=https://d/#x\nnonsense\n"
    )  # fmt: skip
    assert missing_of({}, written(tmp_path, text)) == {
        "CALMON_CONFIG": "rules.yaml",
        "CALMON_STORE_URL": "sqlite:///a b.sqlite",
        "CALMON_DOCS_URL": "https://d/#x",
    }


@pytest.mark.parametrize("name", ["CALMON_STORE_URL", "CALMON_STORE_URL_FILE"])
def test_the_environment_comes_first_whichever_way_it_says_so(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, "CALMON_STORE_URL=sqlite:///mine.sqlite\nCALMON_CONFIG=mine.yaml\n")
    assert missing_of({name: "/run/secrets/x"}, path) == {"CALMON_CONFIG": "mine.yaml"}
    assert "CALMON_STORE_URL" in missing_of({name: ""}, path)  # an empty variable counts as not set


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert missing_of({}, written(tmp_path, "\ufeffCALMON_CONFIG=mine.yaml\r\n")) == {"CALMON_CONFIG": "mine.yaml"}


def test_without_a_file_nothing_is_missing(tmp_path: Path) -> None:
    assert missing_of({}, tmp_path / ".env") == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"CALMON_STORE_URL='hunter2\n", "line 1: a quotation mark of CALMON_STORE_URL"), (b"\xff\xfe", "UTF-8")],
)
def test_a_file_that_cannot_be_read_is_named_without_its_values(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(content)
    with pytest.raises(SettingsError, match=says) as error:
        missing_of({}, tmp_path / ".env")
    assert "hunter2" not in str(error.value)
