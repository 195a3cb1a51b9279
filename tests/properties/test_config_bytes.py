"""Whatever bytes alerts.yaml holds: it is a configuration, or its mistakes are named. Nothing else is ever raised."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.config.load import load_config
from monitor.config.problems import ConfigProblems

ROOT = Path(__file__).parents[2]
WRITTEN = [path.read_bytes() for path in (ROOT / "alerts.yaml", *sorted((ROOT / "tests/cases/rules").glob("s*.yaml")))]
ODD = (
    b"&a ", b"*a", b"<<: *a", b"? ", b": ", b"- ", b"{", b"}", b"[", b"|", b"%YAML 1.1\n", b"---\n", b"\t", b"\0",
    b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\xe2\x80\xa8", b"!!binary ", b"!!timestamp 2026-01-01",
    b"1e400", b".nan", b"~", b"off", b"190:20:30", b'"\\ud800"', b'"\\x00"', b'"', b"'", b"#", b"9" * 400, b" " * 300,
)  # fmt: skip


def changed(seed: int) -> bytes:
    """One of our files with a few places cut, repeated, or with something odd in them."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    text = bytearray(rng.choice(WRITTEN))
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, length = rng.randrange(len(text) + 1), rng.randrange(1, 40)
        given = (b"", rng.choice(ODD), rng.randbytes(1), bytes(text[at : at + 5 * length]))[rng.randrange(4)]
        text[at : at + length * rng.randrange(2)] = given
    return bytes(text)


def loads(folder: Path, content: bytes) -> bool:
    """Whether the content is a configuration; if not, its problems are in words that can be printed."""
    path = folder / "alerts.yaml"
    path.write_bytes(content)
    said = ""
    try:
        load_config(path)
    except ConfigProblems as error:
        said = str(error)
    assert not said or "CAL0" in said
    assert said.encode("utf-8").count(b"\x1b") == 0
    return not said


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_by_their_problem(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    assert not loads(tmp_path_factory.getbasetemp(), content)


def test_files_that_are_damaged_load_or_are_refused_by_their_problems(tmp_path: Path):
    loaded = sum(loads(tmp_path, changed(seed)) for seed in range(300))
    assert 0 < loaded < 300
