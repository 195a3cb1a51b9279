"""The gate asked through the real client of OpenFeature."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason

from monitor.automation import Gate, GateReason
from monitor.automation.gate.openfeature import CalmonProvider
from monitor.automation.gate.sources import HttpSource, StoreSource
from monitor.core.records import SwitchState
from monitor.history.store import Store

FLAG = "automate.tickets.billing"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A history in which tickets/billing, eu.tickets/billing and tickets/a.b are on, and tickets/spam is off."""
    address, now = f"sqlite:///{tmp_path}/history.sqlite", datetime.now(UTC)
    on = SwitchState("", "", "on", lease_until=now + timedelta(days=2), changed_at=now, version=1)
    with Store.from_url(address) as store:
        for source, label, state in (
            ("tickets", "billing", "on"), ("eu.tickets", "billing", "on"), ("tickets", "a.b", "on"),
            ("tickets", "spam", "off"),
        ):  # fmt: skip
            after = replace(on, source=source, label=label, state=state)  # type: ignore[arg-type]
            store.apply_switch(SwitchState(source, label), after, None)
        store.publish_thresholds({("tickets", None): 0.8, ("eu.tickets", None): 0.8}, now)
    return address


@pytest.fixture
def client(url: str) -> Iterator[OpenFeatureClient]:
    with Gate(StoreSource(url)) as gate:
        yield client_of(CalmonProvider(gate))
    api.clear_providers()


def client_of(provider: CalmonProvider) -> OpenFeatureClient:
    api.set_provider(provider)
    return api.get_client()


def context(**attributes: Any) -> EvaluationContext:
    return EvaluationContext(attributes=attributes)


def details(client: OpenFeatureClient, flag: str, **attributes: Any) -> FlagEvaluationDetails[bool]:
    """What the client says, the same synchronously and not, whatever default it is given."""
    found = client.get_boolean_details(flag, False, context(**attributes))
    assert found == client.get_boolean_details(flag, True, context(**attributes))
    assert found == asyncio.run(client.get_boolean_details_async(flag, True, context(**attributes)))
    return found


def test_an_open_gate_is_true_with_its_reason_and_how_long_it_holds(client: OpenFeatureClient) -> None:
    found = details(client, FLAG, score=0.93)
    assert (found.value, found.reason, found.variant, found.error_code) == (True, Reason.TARGETING_MATCH, "on", None)
    assert found.flag_metadata["reason"] == "on"
    assert datetime.fromisoformat(str(found.flag_metadata["until"])) > datetime.now(UTC) + timedelta(days=1)
    assert client.get_boolean_value(FLAG, False, context(score=0.93)) is True


@pytest.mark.parametrize(
    ("flag", "attributes", "reason"),
    [
        (FLAG, {"score": 0.5}, "below_automate_at"),
        (FLAG, {"score": "0.93"}, "score_invalid"),
        (FLAG, {}, "score_invalid"),
        ("automate.tickets.spam", {"score": 0.93}, "off"),
        ("automate.tickets.nobody", {"score": 0.93}, "never_set"),
        ("automate.tickets", {"score": 0.93}, "never_set"),
        ("automate.", {"score": 0.93}, "never_set"),
        ("automate", {"score": 0.93}, "never_set"),
        ("automate.eu.tickets.billing", {"score": 0.93}, "never_set"),
        (FLAG, {"score": 0.93, "label": "spam"}, "off"),
        (FLAG, {"score": 0.93, "source": "mail"}, "never_set"),
        (FLAG, {"score": 0.93, "source": 5}, "never_set"),
        (FLAG, {"score": 0.93, "label": ["billing"]}, "never_set"),
        (FLAG, {"score": 0.93, "label": ""}, "never_set"),
    ],
)
def test_a_closed_gate_is_false_whatever_the_default(
    client: OpenFeatureClient, flag: str, attributes: dict[str, Any], reason: str
) -> None:
    found = details(client, flag, **attributes)
    assert (found.value, found.variant, found.error_code) == (False, "off", None)
    assert found.flag_metadata["reason"] == reason
    assert "until" not in found.flag_metadata


@pytest.mark.parametrize(
    ("flag", "attributes"),
    [
        ("automate.eu.tickets.billing", {"source": "eu.tickets"}),
        ("automate.eu.tickets.billing", {"source": "eu.tickets", "label": "billing"}),
        ("automate.tickets.a.b", {}),
        ("automate.tickets.spam", {"label": "billing"}),
        ("automate", {"source": "tickets", "label": "billing"}),
    ],
)
def test_what_the_context_names_wins_and_may_hold_dots(
    client: OpenFeatureClient, flag: str, attributes: dict[str, Any]
) -> None:
    assert details(client, flag, score=0.93, **attributes).value is True


def test_another_flag_is_not_ours(client: OpenFeatureClient) -> None:
    for flag in ("dark-mode", "automated.tickets.billing", "automate-tickets"):
        found = client.get_boolean_details(flag, False, context(score=0.93))
        assert (found.value, found.error_code) == (False, ErrorCode.FLAG_NOT_FOUND)
        assert client.get_string_details(flag, "x").error_code == ErrorCode.FLAG_NOT_FOUND


def test_other_types_are_a_mismatch(client: OpenFeatureClient) -> None:
    for found, default in (
        (client.get_string_details(FLAG, "no"), "no"),
        (client.get_integer_details(FLAG, 0), 0),
        (client.get_float_details(FLAG, 0.0), 0.0),
        (client.get_object_details(FLAG, {}), {}),
    ):
        assert (found.value, found.error_code) == (default, ErrorCode.TYPE_MISMATCH)
    later = asyncio.run(client.get_string_details_async(FLAG, "no"))
    assert later.error_code == ErrorCode.TYPE_MISMATCH


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        (lambda: Gate(StoreSource("sqlite:////nowhere/at/all.sqlite")), GateReason.STORE_UNREADABLE),
        (lambda: Gate(HttpSource("http://127.0.0.1:9")), GateReason.SERVICE_FAILED),
        (lambda: Gate.from_env({"CALMON_GATE_TTL_S": "x"}), GateReason.MISCONFIGURED),
    ],
)
def test_a_gate_that_reaches_nothing_is_false_although_the_default_is_true(gate: Any, reason: GateReason) -> None:
    """An error code would make the client answer with the default."""
    with gate() as opened:
        client = client_of(CalmonProvider(opened))
        found = details(client, FLAG, score=0.93)
        assert (found.value, found.reason, found.error_code) == (False, Reason.ERROR, None)
        assert (found.flag_metadata["reason"], bool(found.error_message)) == (reason.value, True)
        opened.close()
        assert details(client, FLAG, score=0.93).flag_metadata["reason"] in ("closed_down", "misconfigured")
    api.clear_providers()


def test_it_is_ready_at_once_so_that_the_default_is_never_asked(url: str) -> None:
    """The client answers with the default while a provider is not ready."""
    with Gate(StoreSource(url.replace("history", "none"))) as gate:
        for _ in range(20):
            api.set_provider(CalmonProvider(gate))
            assert api.get_client().get_boolean_value(FLAG, True, context(score=0.93)) is False
    api.clear_providers()


def test_it_closes_the_gate_it_made_itself_and_no_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALMON_STORE_URL", url)
    own, gate = CalmonProvider(), Gate(StoreSource(url))
    assert details(client_of(own), FLAG, score=0.93).value is True
    given = CalmonProvider(gate)
    assert details(client_of(given), FLAG, score=0.93).value is True
    api.clear_providers()
    end = time.monotonic() + 20
    while own.resolve_boolean_details(FLAG, True, context(score=0.93)).value:  # the client shuts down in a thread
        assert time.monotonic() < end
        time.sleep(0.01)
    assert given.resolve_boolean_details(FLAG, True, context(score=0.93)).value is True
    gate.close()
    assert "calmon gate" not in [thread.name for thread in threading.enumerate()]
    assert own.get_metadata().name == "calmon"
