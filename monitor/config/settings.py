"""Typed settings from the environment: addresses and secrets, which are never in alerts.yaml.

Every variable is listed in ``.env.example``. A secret is given directly (``CALMON_STORE_URL``) or as the path of a file
that holds it (``CALMON_STORE_URL_FILE``), as Docker and Kubernetes mount secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError

from monitor.config import environment
from monitor.config.environment import GATE_TTL_S, SECRETS, STORE_URL, SettingsError, given, variable

__all__ = ["SECRETS", "Settings", "SettingsError", "load_settings", "variable", "variables"]


def _secret(check: Callable[[str], object]) -> AfterValidator:
    """A validator that checks the text of a secret."""

    def checked(value: SecretStr) -> SecretStr:
        check(value.get_secret_value())
        return value

    return AfterValidator(checked)


def _bot_token(value: str) -> None:
    if value.startswith("xapp-"):
        raise ValueError("holds an app token (xapp-…); the bot token begins with xoxb-")
    environment.bearer_token(value)


def _app_token(value: str) -> None:
    if value.startswith("xoxb-"):
        raise ValueError("holds a bot token (xoxb-…); the app token begins with xapp-")
    environment.bearer_token(value)


def _seconds_of_a_day(value: object) -> int:
    return environment.whole_seconds(value, 86_400, " (a day); write it like 900")


def _with_slash(value: str) -> str:
    return value.rstrip("/") + "/"  # the client appends the name of a method


_Database = Annotated[SecretStr, _secret(environment.database_address)]
_Web = Annotated[str, AfterValidator(environment.web_address)]
_SecretWeb = Annotated[SecretStr, _secret(environment.web_address)]


class Settings(BaseModel):
    """The settings of the environment, made by :func:`load_settings`. Immutable; printing them shows no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    warehouse_url: _Database = SecretStr("duckdb:///var/warehouse.duckdb")
    warehouse_timeout_s: Annotated[int, BeforeValidator(_seconds_of_a_day)] = 900
    store_url: _Database = SecretStr(STORE_URL)
    audit_url: _Database | None = None
    config: Path = Path("alerts.yaml")
    public_url: _Web | None = None
    docs_url: _Web | None = None
    slack_bot_token: Annotated[SecretStr, _secret(_bot_token)] | None = None
    slack_app_token: Annotated[SecretStr, _secret(_app_token)] | None = None
    slack_api_url: Annotated[_Web, AfterValidator(_with_slash)] = "https://slack.com/api/"
    apprise: Annotated[SecretStr, _secret(environment.apprise_addresses)] | None = None
    api_tokens_file: Path | None = None
    proxy_user_header: Annotated[str, AfterValidator(environment.header_name)] | None = None
    heartbeat_url: _SecretWeb | None = None
    watchdog_heartbeat_url: _SecretWeb | None = None
    gate_url: Annotated[str, AfterValidator(environment.service_address)] | None = None
    gate_token: Annotated[SecretStr, _secret(environment.bearer_token)] | None = None
    gate_ttl_s: Annotated[int, BeforeValidator(environment.gate_ttl)] = GATE_TTL_S
    log: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] | None = None

    @property
    def has_buttons(self) -> bool:
        """Whether both tokens are set that ``calmon slack`` needs, which answers the buttons of messages."""
        return self.slack_bot_token is not None and self.slack_app_token is not None

    @property
    def report_dir(self) -> Path:
        """The folder of pages that are written beside a run, relative to the working directory."""
        return Path("var/reports")


def load_settings(environ: Mapping[str, str]) -> Settings:
    """The settings from ``environ`` (usually ``os.environ``); an empty variable counts as not set.

    Raises :class:`SettingsError`, which names every variable that is wrong.

    >>> load_settings({"CALMON_CONFIG": "/etc/calmon/alerts.yaml"}).config.name
    'alerts.yaml'
    """
    errors: list[str] = []
    values: dict[str, str] = {}
    for name in Settings.model_fields:
        try:
            value = given(environ, name)
        except SettingsError as error:
            errors.append(str(error))
        else:
            values |= {name: value} if value else {}
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:  # its text would show the values
        for each in error.errors():
            reason = str(each["msg"]).removeprefix("Value error, ")
            errors.append(f"{variable(str(each['loc'][0]))} {reason}")
        raise SettingsError("\n".join(errors)) from None
    if errors:
        raise SettingsError("\n".join(errors))
    return settings


def variables() -> tuple[str, ...]:
    """Every variable the settings read, the ``..._FILE`` ones included."""
    names = (variable(field) for field in Settings.model_fields)
    return (*names, *(f"{variable(field)}_FILE" for field in SECRETS))
