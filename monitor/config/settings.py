"""The environment -> typed settings: addresses and secrets, which are never in alerts.yaml.

Every variable is listed in ``.env.example``. A secret can be given itself (``CALMON_STORE_URL``) or
as the path of a file that holds it (``CALMON_STORE_URL_FILE``), as Docker and Kubernetes mount them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, field_validator

from monitor.config import environment
from monitor.config.environment import GATE_TTL_S, SECRETS, STORE_URL, SettingsError, given, variable
from monitor.core.redaction import shown_address

__all__ = ["SECRETS", "Settings", "SettingsError", "load_settings", "variable", "variables"]


class Settings(BaseModel):
    """Where everything is. Made by :func:`load_settings`; cannot be changed; printing it shows no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    warehouse_url: SecretStr = SecretStr("duckdb:///var/warehouse.duckdb")
    warehouse_timeout_s: int = 900
    store_url: SecretStr = SecretStr(STORE_URL)
    config: Path = Path("alerts.yaml")
    public_url: str | None = None
    docs_url: str | None = None
    slack_bot_token: SecretStr | None = None
    slack_app_token: SecretStr | None = None
    slack_api_url: str = "https://slack.com/api/"
    api_tokens_file: Path | None = None
    heartbeat_url: SecretStr | None = None
    watchdog_heartbeat_url: SecretStr | None = None
    gate_url: str | None = None
    gate_token: SecretStr | None = None
    gate_ttl_s: int = GATE_TTL_S

    @property
    def report_dir(self) -> Path:
        """Where pages kept beside a run are written, relative to the working directory."""
        return Path("var/reports")

    @field_validator("warehouse_url", "store_url")
    @classmethod
    def _is_database_url(cls, value: SecretStr) -> SecretStr:
        environment.database_address(value.get_secret_value())
        return value

    @field_validator("warehouse_timeout_s", mode="before")
    @classmethod
    def _is_time(cls, value: object) -> int:
        return environment.whole_seconds(value, 86_400, " (a day); write it like 900")

    @field_validator("public_url", "docs_url", "slack_api_url")
    @classmethod
    def _is_web_address(cls, value: str | None) -> str | None:
        return environment.web_address(value) if value is not None else None

    @field_validator("heartbeat_url", "watchdog_heartbeat_url")
    @classmethod
    def _is_secret_web_address(cls, value: SecretStr | None) -> SecretStr | None:
        cls._is_web_address(value.get_secret_value() if value else None)
        return value

    @field_validator("slack_api_url")
    @classmethod
    def _ends_with_slash(cls, value: str) -> str:
        return value.rstrip("/") + "/"  # the client joins it with the name of a method

    @field_validator("slack_bot_token")
    @classmethod
    def _is_bot_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value and value.get_secret_value().startswith("xapp-"):
            raise ValueError("holds an app token (xapp-…); the bot token begins with xoxb-")
        environment.bearer_token(value.get_secret_value() if value else "-")
        return value

    @field_validator("slack_app_token")
    @classmethod
    def _is_app_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value and value.get_secret_value().startswith("xoxb-"):
            raise ValueError("holds a bot token (xoxb-…); the app token begins with xapp-")
        environment.bearer_token(value.get_secret_value() if value else "-")
        return value

    @field_validator("gate_url")
    @classmethod
    def _is_service_address(cls, value: str | None) -> str | None:
        return environment.service_address(value) if value is not None else None

    @field_validator("gate_token")
    @classmethod
    def _is_bearer_token(cls, value: SecretStr | None) -> SecretStr | None:
        environment.bearer_token(value.get_secret_value() if value else "-")
        return value

    @field_validator("gate_ttl_s", mode="before")
    @classmethod
    def _is_gate_ttl(cls, value: object) -> int:
        return environment.gate_ttl(value)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """What ``repr`` and ``str`` print: addresses without their passwords, no token at all."""
        return [(name, _shown(getattr(self, name))) for name in type(self).model_fields]


def load_settings(environ: Mapping[str, str]) -> Settings:
    """The settings that ``environ`` (usually ``os.environ``) gives; an empty variable counts as not set.

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
    except ValidationError as error:
        raise SettingsError("\n".join([*errors, *map(_plain, error.errors())])) from None  # its text holds the values
    if errors:
        raise SettingsError("\n".join(errors))
    return settings


def variables() -> tuple[str, ...]:
    """Every variable the settings read, the ``..._FILE`` ones included."""
    names = (variable(field) for field in Settings.model_fields)
    return (*names, *(f"{variable(field)}_FILE" for field in SECRETS))


def _plain(error: Any) -> str:
    """One error of pydantic, in words and without the value."""
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{variable(str(error['loc'][0]))} {reason}"


def _shown(value: object) -> object:
    if not isinstance(value, SecretStr):
        return value
    secret = value.get_secret_value()
    is_database = "://" in secret and not secret.startswith("http")
    return shown_address(secret) if is_database else "***"
