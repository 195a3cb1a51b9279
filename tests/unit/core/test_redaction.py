"""Secrets in addresses and errors are hidden: known ones exactly, unknown ones by how they look."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from sqlalchemy.exc import OperationalError

from monitor.alerting.slack.client import TransportError
from monitor.config.environment import database_address, given
from monitor.core import redaction
from monitor.core.redaction import hide_at_the_edge, hide_in, remember, secrets_hidden, shown_address, without_secrets
from monitor.history.errors import StoreUnreachable
from monitor.warehouse.relation import RelationError, RelationProblem, WarehouseFailed
from tests.fakes.canaries import own_edges

ODD = "hu'nt:er@2/%4\\ x"


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test makes known is known in that test alone."""
    monkeypatch.setattr(redaction, "_known", frozenset())
    monkeypatch.setattr(redaction, "_search", None)
    with own_edges():
        yield


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:p@h/d?password=q&sslmode=require", "postgresql://u:***@h/d?password=***&sslmode=require"),
        ("postgresql://h/d?passwd=q;sslpassword=r", "postgresql://h/d?passwd=***;sslpassword=***"),
        ("duckdb:///md:x?motherduck_token=q", "duckdb:///md:x?motherduck_token=***"),
        ("s3://b/k?X-Amz-Signature=q&X-Amz-Credential=r&part=1", "s3://b/k?X-Amz-Signature=***&X-Amz-Credential=***&part=1"),
        ("https://b.blob/x?sv=1&sig=q", "https://b.blob/x?sv=1&sig=***"),
        ("https://key@sentry.example/1", "https://***@sentry.example/1"),
        ("https://hooks.slack.com/services/T1/B1/q", "https://hooks.slack.com/***"),
        ("wss://wss.slack.com/link/?ticket=q&app_id=1", "wss://wss.slack.com/link/?ticket=***&app_id=1"),
        ("postgresql://db:5432/history?keepalives_idle=60", "postgresql://db:5432/history?keepalives_idle=60"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_what_is_secret_in_it(address: str, shown: str):
    assert shown_address(address) == shown
    assert without_secrets(f"cannot open '{address}'.") == f"cannot open '{shown}'."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("host=h password='a b' user=u", "host=h password=*** user=u"),
        ('{"token": "abc", "n": 1}', '{"token": "***", "n": 1}'),
        ("sent xoxb-12-ab and xapp-1-A.", "sent *** and ***."),
        ("Authorization: Bearer abcdefgh1234", "Authorization: Bearer ***"),
        ("calmon_abcdefghijklmnopqrstuvwxyz", "***"),
        ("aws_secret_access_key=abc, region=eu", "aws_secret_access_key=***, region=eu"),
        ("set CALMON_SLACK_BOT_TOKEN to a current one", "set CALMON_SLACK_BOT_TOKEN to a current one"),
        ('column "token_logprobs" does not exist', 'column "token_logprobs" does not exist'),
    ],
)
def test_what_looks_like_a_secret_is_hidden_and_nothing_else(text: str, shown: str):
    assert without_secrets(text) == shown


@pytest.mark.parametrize("encode", [str, quote, lambda t: quote(t, safe=""), lambda t: repr(t)[1:-1]])
def test_a_known_secret_is_hidden_however_it_is_written(encode: object):
    remember(f"postgresql://u:{quote(ODD, safe='')}@h/d")
    assert without_secrets(f"no route for <{encode(ODD)}>") == "no route for <***>"  # type: ignore[operator]


def test_of_an_address_only_the_secret_parts_are_hidden():
    remember("postgresql+psycopg://calmon:calmon@warehouse/history?password=hidden-1&application_name=visible")
    text = "FATAL: calmon may not connect to history on warehouse as visible"
    assert without_secrets(text) == text
    assert without_secrets("got hidden-1") == "got ***"


def test_of_a_heartbeat_all_but_its_host_is_hidden():
    remember("https://hb.example/ping/3f2a-77aa-99")
    assert without_secrets("hb.example: no answer to /ping/3f2a-77aa-99") == "hb.example: no answer to /***"
    assert without_secrets("3f2a-77aa-99") == "***"


def test_a_secret_of_the_environment_is_known_from_its_reading_on():
    given({"CALMON_GATE_TOKEN": "grey-heron"}, "gate_token")
    assert without_secrets("refused: grey-heron") == "refused: ***"


@pytest.mark.parametrize("kind", [WarehouseFailed, StoreUnreachable, TransportError])
def test_errors_of_ours_hold_no_secret(kind: type[Exception]):
    assert str(kind("no answer from postgresql://h/d?password=q")) == "no answer from postgresql://h/d?password=***"


def test_a_relation_error_holds_no_secret():
    problem = RelationProblem("tickets", "refused: host=h password=q", "correct it")
    assert str(RelationError([problem])) == "tickets: refused: host=h password=***; correct it"


def test_an_error_of_others_is_stripped_with_what_led_to_it():
    error = ValueError("token=abc")
    error.__cause__ = OSError(5, "postgresql://u:p@h/d")
    with pytest.raises(ValueError, match=r"token=\*\*\*") as raised, secrets_hidden():
        raise error
    assert raised.value.__cause__.args == (5, "postgresql://u:***@h/d")
    hide_in(error)  # a circle ends
    error.__cause__.__cause__ = error
    hide_in(error)


def test_an_error_of_sqlalchemy_shows_no_secret_of_its_statement_or_parameters():
    secret = OperationalError("SELECT 'token=abc'", {"password": "sword:fish"}, OSError("x"))
    usual = OperationalError("SELECT 1", {"label": "billing"}, OSError("x"))
    hide_in(secret)
    hide_in(usual)
    assert "abc" not in str(secret)
    assert "sword" not in str(secret)
    assert "billing" in str(usual)


def test_no_log_line_and_no_traceback_holds_a_secret(caplog: pytest.LogCaptureFixture):
    hide_at_the_edge()
    hide_at_the_edge()
    log = logging.getLogger("somebody.elses")
    log.warning("asked %s", "https://u:p@h/x?token=q")
    try:
        raise OSError("password=swordfish")
    except OSError:
        log.exception("lost %(n)d", {"n": 1})
    log.warning("odd %d", 1)
    assert "https://u:***@h/x?token=***" in caplog.text
    assert "swordfish" not in caplog.text
    assert "OSError: password=***" in caplog.text
    assert "lost 1" in caplog.text


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:p@ss@host/d", "postgresql://u:p@ss:w@host:5432/d", "postgresql://u:p@s/s@host/d",
        "postgresql://u:p?a@b@host/d", "postgresql://u:p@host:word/d", "mysql://u:a:b@c@h",
        "postgresql://host:pa:ss/d",
    ],
)  # fmt: skip
def test_a_password_that_is_not_percent_encoded_is_refused_with_the_remedy(address: str):
    with pytest.raises(ValueError, match="percent-encode the user and password in it \\(@ as %40") as raised:
        database_address(address)
    assert "ss" not in str(raised.value).replace("password", "")


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///var/history.sqlite", "sqlite:////a@b/h.sqlite", "duckdb:///md:x?motherduck_token=a@b", "sqlite://",
        "postgresql://u:p%40ss@host:5432/d?options=a@b", "postgresql://u:@/d?host=/tmp/x", "postgresql://u@[::1]:5432/d",
        "postgresql://u:p:w@host/d", "duckdb:///:memory:", "postgresql:///d",
    ],
)  # fmt: skip
def test_an_address_that_can_be_read_is_taken(address: str):
    assert database_address(address) == address
