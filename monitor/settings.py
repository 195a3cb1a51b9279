"""The environment -> typed settings: addresses and secrets, which never stand in alerts.yaml.

Every variable is listed in ``.env.example``. A secret can be given itself (``CALMON_STORE_URL``) or
as the path of a file that holds it (``CALMON_STORE_URL_FILE``), as Docker and Kubernetes mount them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "CALMON_"

SECRETS = ("warehouse_url", "store_url", "slack_bot_token", "slack_app_token", "heartbeat_url")
"""The fields that may hold a password or token, so each has a ``..._FILE`` variable and is masked when printed."""


class SettingsError(Exception):
    """The environment cannot be used; the message names each variable and what to do, never a value."""


class Settings(BaseSettings):
    """Where everything is. Made by :func:`load_settings`; cannot be changed; printing it shows no secret."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    warehouse_url: SecretStr = SecretStr("duckdb:///var/warehouse.duckdb")
    warehouse_timeout_s: int = 900
    store_url: SecretStr = SecretStr("sqlite:///var/history.sqlite")
    config: Path = Path("alerts.yaml")
    public_url: str | None = None
    slack_bot_token: SecretStr | None = None
    slack_app_token: SecretStr | None = None
    slack_api_url: str = "https://slack.com/api/"
    api_tokens_file: Path | None = None
    heartbeat_url: SecretStr | None = None

    @property
    def report_dir(self) -> Path:
        """Where pages kept beside a run are written, relative to the working directory."""
        return Path("var/reports")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what :func:`load_settings` passes: it alone reads the environment, with its ``..._FILE`` variables."""
        return (init_settings,)

    @field_validator("warehouse_url", "store_url")
    @classmethod
    def _is_database_url(cls, value: SecretStr) -> SecretStr:
        if not re.match(r"[a-z][a-z0-9_+]*://", value.get_secret_value()):
            raise ValueError(
                "is not a database address; write it like sqlite:///var/history.sqlite or postgresql://user@host/database"
            )
        return value

    @field_validator("warehouse_timeout_s", mode="before")
    @classmethod
    def _is_time(cls, value: object) -> int:
        text = str(value)
        seconds = int(text) if text.isascii() and text.isdigit() else 0
        if not 1 <= seconds <= 86_400:
            raise ValueError("is not a whole number of seconds from 1 to 86400 (a day); write it like 900")
        return seconds

    @field_validator("public_url", "slack_api_url")
    @classmethod
    def _is_web_address(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https?://[^/\s]", value):
            raise ValueError("is not a web address; it begins with https:// or http://")
        return value

    @field_validator("heartbeat_url")
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
        return value

    @field_validator("slack_app_token")
    @classmethod
    def _is_app_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value and value.get_secret_value().startswith("xoxb-"):
            raise ValueError("holds a bot token (xoxb-…); the app token begins with xapp-")
        return value

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
    given: dict[str, str] = {}
    for name in Settings.model_fields:
        try:
            value = _given(environ, name)
        except SettingsError as error:
            errors.append(str(error))
        else:
            given |= {name: value} if value else {}
    try:
        settings = Settings.model_validate(given)
    except ValidationError as error:
        raise SettingsError("\n".join([*errors, *map(_plain, error.errors())])) from None  # its text holds the values
    if errors:
        raise SettingsError("\n".join(errors))
    return settings


def variable(field: str) -> str:
    """The environment variable of a field.

    >>> variable("store_url")
    'CALMON_STORE_URL'
    """
    return f"{PREFIX}{field}".upper()


def variables() -> tuple[str, ...]:
    """Every variable the settings read, the ``..._FILE`` ones included."""
    names = (variable(field) for field in Settings.model_fields)
    return (*names, *(f"{variable(field)}_FILE" for field in SECRETS))


def mask_url(url: str) -> str:
    """The address without password, without secret parameters; rather too little than too much is shown.

    >>> mask_url("postgresql+psycopg://calmon:s3cret@db/history?sslpassword=x&sslmode=require")
    'postgresql+psycopg://calmon:***@db/history?sslpassword=***&sslmode=require'
    """
    hidden = re.sub(r"(://[^:/@?#]*):.*@", r"\1:***@", url, flags=re.DOTALL)
    return re.sub(r"(?i)([?&][^=&#]*(?:pass|pwd|token|secret|key|credential)[^=&#]*)=[^&#]*", r"\1=***", hidden)


def _given(environ: Mapping[str, str], field: str) -> str | None:
    """What the environment says about one field, itself or through a file."""
    name = variable(field)
    value = environ.get(name, "").strip()
    path = environ.get(f"{name}_FILE", "").strip() if field in SECRETS else ""
    if not path:
        return value or None
    if value:
        raise SettingsError(f"{name} and {name}_FILE are both set; unset one of them")
    return _read_secret(f"{name}_FILE", Path(path))


def _read_secret(name: str, path: Path) -> str:
    try:
        secret = path.read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise SettingsError(f"{name}: {path} is not UTF-8 text") from None  # the error would show its bytes
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise SettingsError(f"{name}: {path} cannot be read: {reason}") from error
    if not secret:
        raise SettingsError(f"{name}: {path} is empty; write the value into it")
    return secret


def _plain(error: Any) -> str:
    """One error of pydantic, in words and without the value."""
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{variable(str(error['loc'][0]))} {reason}"


def _shown(value: object) -> object:
    if not isinstance(value, SecretStr):
        return value
    secret = value.get_secret_value()
    is_database = "://" in secret and not secret.startswith("http")
    return mask_url(secret) if is_database else "***"
