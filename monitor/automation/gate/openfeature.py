"""The gate as an OpenFeature provider: routers use their OpenFeature client. Needs the extra ``openfeature``.

    from openfeature import api
    from openfeature.evaluation_context import EvaluationContext

    api.set_provider(CalmonProvider())
    context = EvaluationContext(attributes={"score": 0.93})
    api.get_client().get_boolean_value("automate.tickets.billing", False, context)

After an error OpenFeature returns the caller's default, which may be True. So a closed gate is always the answer False,
never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from openfeature.evaluation_context import EvaluationContext
from openfeature.event import ProviderEventDetails
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import AbstractProvider, Metadata

from monitor.automation.gate.gate import AsyncGate, Gate
from monitor.automation.gate.snapshot import Decision
from monitor.automation.state import GateReason

PREFIX = "automate"
_FAILED = (GateReason.STORE_UNREADABLE, GateReason.SERVICE_FAILED, GateReason.MISCONFIGURED, GateReason.CLOSED_DOWN)
_BROKEN = {**dict.fromkeys(_FAILED, Reason.ERROR), GateReason.STALE: Reason.STALE}
_T = TypeVar("_T")
_Question = tuple[Any, Any, Any, Any]


class CalmonProvider(AbstractProvider):
    """Boolean flags ``automate.<source>.<label>``; the score is the context's attribute ``score``.

    Every attribute is also the value of a segment column, such as ``channel``. The attributes ``source`` and ``label``
    override the flag's name; a source with a dot in its name needs them, since the name is split at the first dot. The
    flag's metadata hold ``reason`` (a :class:`GateReason`), ``detail`` and, for a "yes", ``until``. Without ``gate``
    the provider makes one from the environment, and closes it at shutdown.
    """

    def __init__(self, gate: Gate | None = None) -> None:
        super().__init__()
        self._owned = gate is None
        self._gate = Gate.from_env() if gate is None else gate

    def attach(self, on_emit: Callable[..., None]) -> None:
        """Report the provider as ready at once: before its first reading a gate says "no", a client its default."""
        super().attach(on_emit)
        self.emit_provider_ready(ProviderEventDetails())

    def shutdown(self) -> None:
        """Close the gate, if this provider made it."""
        if self._owned:
            self._gate.close()

    def get_metadata(self) -> Metadata:
        """The provider's name."""
        return Metadata(name="calmon")

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Whether automation may act; never an error for a flag ``automate....``."""
        if not _is_ours(flag_key):
            return _not_found(flag_key, default_value)
        return _resolved(self._gate.allows(*_question(flag_key, evaluation_context)))

    async def resolve_boolean_details_async(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Whether automation may act, without blocking the event loop."""
        if not _is_ours(flag_key):
            return _not_found(flag_key, default_value)
        return _resolved(await AsyncGate(self._gate).allows(*_question(flag_key, evaluation_context)))

    def _not_boolean(
        self, flag_key: str, default_value: _T, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[_T]:
        """An error: these flags are boolean."""
        if not _is_ours(flag_key):
            return _not_found(flag_key, default_value)
        message = f"{flag_key!r} is boolean"
        return FlagResolutionDetails(default_value, ErrorCode.TYPE_MISMATCH, message, Reason.ERROR)

    resolve_string_details = _not_boolean
    resolve_integer_details = _not_boolean
    resolve_float_details = _not_boolean
    resolve_object_details = _not_boolean


def _is_ours(flag_key: str) -> bool:
    return flag_key == PREFIX or flag_key.startswith(f"{PREFIX}.")


def _question(flag_key: str, context: EvaluationContext | None) -> _Question:
    """Source, label, score and segments. The gate says "no" to missing values and wrong types."""
    attributes = context.attributes if context is not None else {}
    named = _named(flag_key, attributes.get("source"))
    source, label = attributes.get("source", named[0]), attributes.get("label", named[1])
    return source, label, attributes.get("score"), attributes


def _named(flag_key: str, source: object) -> tuple[str | None, str | None]:
    """Source and label from the name of a flag; ``source``, from the context, may contain dots.

    >>> _named("automate.tickets.billing.eu", None), _named("automate.eu.tickets.billing", "eu.tickets")
    (('tickets', 'billing.eu'), ('eu.tickets', 'billing'))
    """
    rest = flag_key[len(PREFIX) + 1 :]
    if isinstance(source, str):
        return (source, rest[len(source) + 1 :]) if rest.startswith(f"{source}.") else (source, None)
    first, dot, label = rest.partition(".")
    return (first, label) if dot else (None, None)


def _resolved(decision: Decision) -> FlagResolutionDetails[bool]:
    reason = _BROKEN.get(decision.reason, Reason.TARGETING_MATCH)
    metadata: dict[str, bool | int | float | str] = {"reason": decision.reason.value, "detail": decision.detail}
    metadata |= {"until": decision.until.isoformat()} if decision.until else {}
    return FlagResolutionDetails(
        value=decision.allowed,
        reason=reason,
        variant="on" if decision.allowed else "off",
        flag_metadata=metadata,
        error_message=decision.detail if decision.reason in _BROKEN else None,
    )


def _not_found(flag_key: str, default: _T) -> FlagResolutionDetails[_T]:
    message = f"{flag_key!r} is no flag of calmon's; they are named {PREFIX}.<source>.<label>"
    return FlagResolutionDetails(default, ErrorCode.FLAG_NOT_FOUND, message, Reason.ERROR)
