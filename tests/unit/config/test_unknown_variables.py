"""Variables that nothing reads: misspelt ones are named, those of others are not."""

from __future__ import annotations

import pytest

from monitor.config.settings import variables
from monitor.config.unknown_variables import unknown_variables


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CALMON_WAREHOUS_URL", "CALMON_WAREHOUSE_URL"),
        ("CALMON_SLACK_BOT_TOKEN_FLE", "CALMON_SLACK_BOT_TOKEN_FILE"),
        ("CALMON_CONFIG_FILE", "CALMON_CONFIG"),
        ("CALMON_PUBLIC_URI", "CALMON_PUBLIC_URL"),
        ("CALMON_DATABSE_URL", None),
    ],
)
def test_the_nearest_name_is_proposed_where_one_is_near(name: str, meant: str | None) -> None:
    (said,) = unknown_variables({name: "a secret"}, variables())
    assert said.startswith(f"{name} is set, but nothing reads it: ")
    assert said.endswith(f"is {meant} meant?" if meant else "docs/configuration.md lists what is read")


def test_what_is_read_and_what_others_set_is_not_named() -> None:
    kubernetes = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP", "PORT_8080_TCP_ADDR")
    others = [f"CALMON_{name}" for name in (*kubernetes, *(f"POSTGRES_{each}" for each in kubernetes))]
    assert unknown_variables(dict.fromkeys([*variables(), *others, "CALMON", "OTHER_URL"], "x"), variables()) == []
    assert unknown_variables({"CALMON_X": " "}, variables()) == []


def test_a_name_with_control_characters_is_one_plain_line() -> None:
    (said,) = unknown_variables({"CALMON_\x1b[31m\nX": "x"}, variables())
    assert "\x1b" not in said
    assert "\n" not in said
