"""Tokens: stored hashed, compared with all, a wrong file refused by line, a changed one seen at once."""

from __future__ import annotations

import hashlib
import hmac
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from monitor.service.tokens import Entry, TokensBroken, TokensFile, digest_of, entry_of, hidden, new_token, parse

HASH = hashlib.sha256(b"calmon_one").hexdigest()
OTHER = hashlib.sha256(b"calmon_two").hexdigest()


def test_a_line_is_a_name_a_hash_and_scopes_and_the_rest_is_passed_over() -> None:
    text = f"# who may ask\n\n  router  sha256:{HASH}\tread\r\non-call sha256:{OTHER} disable,read\n"
    assert parse(text) == (
        Entry("router", HASH, frozenset({"read"})),
        Entry("on-call", OTHER, frozenset({"read", "disable"})),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("router", "line 1: write NAME sha256:HASH SCOPES"),
        (f"# x\nrouter sha256:{HASH}", "line 2: write NAME"),
        (f"router {HASH} read", "line 1: write NAME"),
        (f"router sha256:{HASH[:-1]} read", "line 1: write NAME"),
        (f"router sha256:{HASH.upper()} read", "line 1: write NAME"),
        (f"router sha256:{HASH} read # mine", "line 1: write NAME"),
        (f"röuter sha256:{HASH} read", "line 1: write NAME"),
        (f"router sha256:{HASH} read,write", "line 1: a scope is one of read, disable, enable, annotate"),
        (f"router sha256:{HASH} read,", "line 1: a scope is one of"),
        (f"a sha256:{HASH} read\na sha256:{OTHER} read", "line 2: the name or the hash is there twice"),
        (f"a sha256:{HASH} read\nb sha256:{HASH} read", "line 2: the name or the hash is there twice"),
        ("calmon_secret sha256:xyz read", "line 1: write NAME"),
    ],
)
def test_a_wrong_line_is_named_and_never_shown(text: str, said: str) -> None:
    with pytest.raises(TokensBroken) as raised:
        parse(text)
    assert str(raised.value).startswith(said)
    assert HASH not in str(raised.value)
    assert "calmon_secret" not in str(raised.value)


def test_a_written_line_reads_back() -> None:
    entry = Entry("on-call", HASH, frozenset({"enable", "read"}))
    assert parse(entry.line()) == (entry,)


def test_new_tokens_are_different_and_hold_256_random_bits() -> None:
    made = {new_token() for _ in range(1000)}
    assert len(made) == 1000
    assert all(token.startswith("calmon_") and len(token) == len("calmon_") + 43 for token in made)


def test_only_the_whole_token_is_known() -> None:
    entries = (Entry("one", digest_of("calmon_one"), frozenset({"read"})),)
    found = entry_of(entries, "calmon_one")
    assert found.name == "one"
    for wrong in ("", "calmon_on", "calmon_one ", "CALMON_ONE", "calmon_two", HASH, f"sha256:{HASH}", "\udcff"):
        assert entry_of(entries, wrong) is None


def test_a_token_is_compared_with_every_entry_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def spy(first: str, second: str) -> bool:
        compared.append(first)
        return plain(first, second)

    plain = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", spy)
    entries = tuple(Entry(str(k), digest_of(f"calmon_{k}"), frozenset({"read"})) for k in range(5))
    for token, name in (("calmon_0", "0"), ("calmon_4", "4"), ("calmon_none", None)):
        compared.clear()
        found = entry_of(entries, token)
        assert (found.name if found else None) == name
        assert compared == [entry.digest for entry in entries]


def test_the_file_holds_only_the_hash_and_is_closed_to_others(tmp_path: Path) -> None:
    file = TokensFile(tmp_path / "tokens")
    token = file.add("router", frozenset({"read"}))
    assert token not in file.path.read_text("utf-8")
    assert hashlib.sha256(token.encode()).hexdigest() in file.path.read_text("utf-8")
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.warning() is None
    file.path.chmod(0o644)
    assert "chmod o-rw" in str(file.warning())


def test_a_token_is_added_after_a_last_line_without_an_end(tmp_path: Path) -> None:
    file = TokensFile(tmp_path / "tokens")
    file.path.write_text(f"one sha256:{HASH} read")
    file.add("two", frozenset({"enable"}))
    assert [entry.name for entry in file.entries()] == ["one", "two"]


def test_a_name_is_given_once_and_is_plain(tmp_path: Path) -> None:
    file = TokensFile(tmp_path / "tokens")
    file.add("router", frozenset({"read"}))
    with pytest.raises(ValueError, match="has a token called router"):
        file.add("router", frozenset({"read"}))
    for name in ("", "a b", "a:b", "-a", "a\n", "x" * 65):
        with pytest.raises(ValueError, match="up to 64 letters"):
            file.add(name, frozenset({"read"}))
    assert len(file.entries()) == 1


def test_a_broken_file_is_not_added_to(tmp_path: Path) -> None:
    file = TokensFile(tmp_path / "tokens")
    file.path.write_text("nonsense\n")
    with pytest.raises(TokensBroken, match="line 1"):
        file.add("router", frozenset({"read"}))
    assert file.path.read_text() == "nonsense\n"


def test_a_changed_file_is_seen_at_the_next_look_even_if_size_and_time_are_the_same(tmp_path: Path) -> None:
    file = TokensFile(tmp_path / "tokens")
    file.path.write_text(f"one sha256:{HASH} read\n")
    assert file.entries()[0].digest == HASH
    was = file.path.stat()
    file.path.write_text(f"one sha256:{OTHER} read\n")
    os.utime(file.path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert file.entries()[0].digest == OTHER


@pytest.mark.parametrize("content", [b"nonsense", b"\xff\xfe", b"#" * 1_000_001, None])
def test_a_file_that_breaks_refuses_until_it_is_fixed(content: bytes | None, tmp_path: Path) -> None:
    file = TokensFile(tmp_path / "tokens")
    good = f"one sha256:{HASH} read\n".encode()
    file.path.write_bytes(good)
    assert len(file.entries()) == 1
    if content is None:
        file.path.unlink()
    else:
        file.path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(TokensBroken):
            file.entries()
    file.path.write_bytes(good)
    assert len(file.entries()) == 1


def test_what_looks_like_a_token_is_hidden_in_logs() -> None:
    token = new_token()
    assert hidden(f"/x/{token}/y?z={token}") == "/x/calmon_***/y?z=calmon_***"


def test_of_many_who_add_one_name_at_once_one_does_and_the_file_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    barrier = Barrier(8)

    def add(_: int) -> str | None:
        barrier.wait()
        try:
            return TokensFile(path).add("router", frozenset({"read"}))
        except ValueError:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [token for token in pool.map(add, range(8)) if token is not None]
    assert len(made) == 1
    assert [(each.name, each.digest) for each in parse(path.read_text())] == [("router", digest_of(made[0]))]
