"""The environment becomes settings, or an error that names the variable and never a value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from monitor.config.settings import SECRETS, Settings, SettingsError, load_settings, variable, variables
from monitor.core.redaction import shown_address

ROOT = Path(__file__).parents[3]
FILLED = {
    "warehouse_url": "postgresql://calmon:hunter2@db/warehouse",
    "store_url": "postgresql://calmon:hunter2@db/history",
    "audit_url": "postgresql://calmon:hunter2@db/people",
    "slack_bot_token": "xoxb-hunter2",
    "slack_app_token": "xapp-hunter2",
    "heartbeat_url": "https://example.com/ping/hunter2",
    "watchdog_heartbeat_url": "https://example.com/look/hunter2",
    "gate_token": "hunter2",
    "apprise": "oncall=json://calmon:hunter2@example.com",
}


def error_of(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as raised:
        load_settings(environ)
    return str(raised.value)


def secret(settings: Settings, field: str) -> str:
    return str(getattr(settings, field).get_secret_value())


def test_an_empty_environment_gives_the_embedded_defaults() -> None:
    settings = load_settings({})
    assert secret(settings, "warehouse_url") == "duckdb:///var/warehouse.duckdb"
    assert secret(settings, "store_url") == "sqlite:///var/history.sqlite"
    assert settings.config == Path("alerts.yaml")
    assert settings.report_dir == Path("var/reports")
    assert settings.slack_api_url == "https://slack.com/api/"
    others = (settings.public_url, settings.slack_bot_token, settings.slack_app_token, settings.api_tokens_file)
    heartbeats = (settings.heartbeat_url, settings.watchdog_heartbeat_url)
    addresses = (*heartbeats, settings.gate_url, settings.audit_url)
    assert (*others, *addresses, settings.gate_token) == (None,) * 9
    assert settings.proxy_user_header is None
    assert settings.gate_ttl_s == 30


def test_every_field_is_read_from_its_variable() -> None:
    environ = {variable(field): value for field, value in FILLED.items()}
    environ |= {"CALMON_CONFIG": "/etc/a.yaml", "CALMON_PUBLIC_URL": "https://calmon.example.com"}
    environ |= {"CALMON_WAREHOUSE_TIMEOUT_S": " 60 "}
    environ |= {"CALMON_API_TOKENS_FILE": "/etc/tokens", "CALMON_SLACK_API_URL": "http://127.0.0.1:9/api"}
    environ |= {"CALMON_PROXY_USER_HEADER": "X-Forwarded-User"}
    environ |= {"CALMON_GATE_URL": "http://calmon:8080/base/", "CALMON_GATE_TTL_S": "5"}
    settings = load_settings(environ)
    assert settings.proxy_user_header == "X-Forwarded-User"
    assert (settings.gate_url, settings.gate_ttl_s) == ("http://calmon:8080/base", 5)
    assert {field: secret(settings, field) for field in FILLED} == FILLED
    assert settings.warehouse_timeout_s == 60
    assert (settings.config, settings.public_url) == (Path("/etc/a.yaml"), "https://calmon.example.com")
    assert (settings.api_tokens_file, settings.slack_api_url) == (Path("/etc/tokens"), "http://127.0.0.1:9/api/")


def test_only_the_given_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALMON_CONFIG", "from-the-process.yaml")
    assert load_settings({}).config == Path("alerts.yaml")


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    assert load_settings(dict.fromkeys(variables(), "")) == load_settings({})


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "with a byte order mark"])
@pytest.mark.parametrize("field", SECRETS)
def test_a_secret_may_be_in_a_file(field: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(mark + FILLED[field] + "\r\n", encoding="utf-8")
    assert secret(load_settings({f"{variable(field)}_FILE": str(path)}), field) == FILLED[field]


@pytest.mark.parametrize("field", SECRETS)
def test_a_secret_given_twice_is_an_error(field: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(FILLED[field], encoding="utf-8")
    name = variable(field)
    message = error_of({name: FILLED[field], f"{name}_FILE": str(path)})
    assert message == f"{name} and {name}_FILE are both set; unset one of them"


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file"), (b"", "is empty"), (b"\xff\xfe\x00", "is not UTF-8 text")],
)
def test_a_secret_file_that_cannot_be_used_is_named(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    message = error_of({"CALMON_STORE_URL_FILE": str(path)})
    assert message.startswith(f"CALMON_STORE_URL_FILE: {path} ")
    assert said in message


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CALMON_WAREHOUSE_URL", "/var/hunter2.duckdb", "is not a database address"),
        ("CALMON_STORE_URL", "hunter2", "is not a database address"),
        ("CALMON_STORE_URL", "sqlite://hunter2.sqlite", "names a file, so it needs three slashes"),
        ("CALMON_WAREHOUSE_URL", "duckdb://hunter2.duckdb", "names a file, so it needs three slashes"),
        ("CALMON_WAREHOUSE_TIMEOUT_S", "hunter2", "is not a whole number of seconds"),
        ("CALMON_WAREHOUSE_TIMEOUT_S", "0", "is not a whole number of seconds"),
        ("CALMON_WAREHOUSE_TIMEOUT_S", "1e3", "is not a whole number of seconds"),
        ("CALMON_WAREHOUSE_TIMEOUT_S", "86401", "is not a whole number of seconds from 1 to 86400 (a day)"),
        ("CALMON_PUBLIC_URL", "hunter2.example.com", "is not a web address"),
        ("CALMON_SLACK_API_URL", "ftp://hunter2", "is not a web address"),
        ("CALMON_HEARTBEAT_URL", "hunter2", "is not a web address"),
        ("CALMON_SLACK_BOT_TOKEN", "xapp-hunter2", "holds an app token"),
        ("CALMON_SLACK_APP_TOKEN", "xoxb-hunter2", "holds a bot token"),
        ("CALMON_SLACK_BOT_TOKEN", "xoxb-1\nxapp-hunter2", "holds spaces"),  # http.client's error would show it
        ("CALMON_SLACK_APP_TOKEN", "xapp-1 hunter2", "holds spaces"),
        ("CALMON_GATE_URL", "hunter2.example.com", "is not a web address"),
        ("CALMON_GATE_URL", "https://router:hunter2@calmon", "has more than a host, a port and a path"),
        ("CALMON_GATE_TOKEN", "hunter2 hunter2", "holds spaces"),
        ("CALMON_GATE_TTL_S", "hunter2", "is not a whole number of seconds from 1 to 3600"),
        ("CALMON_GATE_TTL_S", "0", "is not a whole number of seconds"),
    ],
)
def test_a_wrong_value_is_named_but_never_shown(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings({name: value})
    assert str(raised.value).startswith(f"{name} {said}")
    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__  # pydantic's own error, in a traceback, would show the value


def test_all_errors_are_reported_at_once() -> None:
    message = error_of(
        {"CALMON_STORE_URL": "x", "CALMON_PUBLIC_URL": "y", "CALMON_WAREHOUSE_URL_FILE": "/nowhere/at/all"}
    )
    assert [line.split()[0].rstrip(":") for line in message.split("\n")] == [
        "CALMON_WAREHOUSE_URL_FILE", "CALMON_STORE_URL", "CALMON_PUBLIC_URL",
    ]  # fmt: skip


def test_printing_the_settings_shows_no_secret() -> None:
    settings = load_settings({variable(field): value for field, value in FILLED.items()})
    for shown in (repr(settings), str(settings), f"{settings}", repr([settings])):
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///var/history.sqlite", "sqlite:///var/history.sqlite"),
        ("postgresql://calmon@db/history", "postgresql://calmon@db/history"),
        ("postgresql://db:5432/history", "postgresql://db:5432/history"),
        ("postgresql://:p@db/history", "postgresql://:***@db/history"),
        ("postgresql://u:p@ss/w:rd@db/history", "postgresql://u:***@db/history"),
        ("duckdb:///md:x?motherduck_token=abc&a=1", "duckdb:///md:x?motherduck_token=***&a=1"),
        ("postgresql://db/x?user=u&PASSWORD=p", "postgresql://db/x?user=u&PASSWORD=***"),
    ],
)
def test_passwords_and_secret_parameters_are_masked(url: str, shown: str) -> None:
    assert shown_address(url) == shown


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings({}).config = Path("other.yaml")


def test_the_example_file_lists_every_variable_with_a_comment() -> None:
    text = (ROOT / ".env.example").read_text("utf-8")
    assert set(re.findall(r"^(?:# )?(CALMON_\w+)=", text, re.MULTILINE)) == set(variables())
    for paragraph in text.strip().split("\n\n")[1:]:
        assert paragraph.startswith("# "), paragraph


def test_the_example_file_shows_the_defaults() -> None:
    text = (ROOT / ".env.example").read_text("utf-8")
    written = dict(re.findall(r"^(CALMON_\w+)=(.*)$", text, re.MULTILINE))
    assert load_settings(written) == load_settings({})
