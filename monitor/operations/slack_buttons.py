"""What a press of a button in Slack does: acknowledge, silence, turn automation off, or on for operators.

A payload is read into a :class:`Press`, or refused with a named reason (pure). Then
:mod:`monitor.operations.incident_actions` or :mod:`monitor.operations.change_switch` does it, in the name of the person
who pressed. A press that Slack delivers twice acts once: a silence counts from the press, and a change of the switch
has the press as its key. No payload may end the loop, whatever text it holds.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from monitor.alerting.slack.blocks import escape
from monitor.alerting.slack.client import TransportError
from monitor.config.field_types import OPERATOR
from monitor.config.model import AutomationConfig, Config
from monitor.config.problems import ConfigProblems
from monitor.context import Monitor
from monitor.core.records import Incident, Subject, WrongRequest
from monitor.core.wording import clean
from monitor.history.errors import HistoryError
from monitor.operations import incident_actions
from monitor.operations.change_switch import KeyReused, change_switch
from monitor.story.gather import Teller

SILENCES = {"incident_silence_day": timedelta(days=1), "incident_silence_week": timedelta(weeks=1)}
ACTIONS = ("incident_ack", *SILENCES, "automation_off", "automation_on")
MODAL = "automation_on"
REASON_LENGTH = 500
REMEMBERED = 1_000
"""So many of the newest presses are answered once, although Slack may deliver one again."""

log = logging.getLogger(__name__)


class PressRefusal(StrEnum):
    """Why a press does nothing. Each has its line in ``docs/alerts.md``."""

    NOT_UNDERSTOOD = "not_understood"
    OTHER_WORKSPACE = "other_workspace"
    UNKNOWN_ACTION = "unknown_action"
    NO_INCIDENT = "no_incident"
    UNKNOWN_INCIDENT = "unknown_incident"
    NO_OPERATORS = "no_operators"
    NOT_AN_OPERATOR = "not_an_operator"
    OPERATORS_UNKNOWN = "operators_unknown"
    REASON_MISSING = "reason_missing"
    NOT_POSSIBLE = "not_possible"
    FAILED = "failed"


_ANSWERS = {
    PressRefusal.NOT_UNDERSTOOD: "calmon did not understand this press",
    PressRefusal.OTHER_WORKSPACE: "only people of the app's own workspace may press this",
    PressRefusal.UNKNOWN_ACTION: "calmon does not know this button; the message may be of another version",
    PressRefusal.NO_INCIDENT: "the button does not say which incident it is about",
    PressRefusal.UNKNOWN_INCIDENT: "the history holds no such incident; is this the right calmon?",
    PressRefusal.NO_OPERATORS: "nobody may turn automation on from Slack: `operators` in alerts.yaml names no Slack id",
    PressRefusal.NOT_AN_OPERATOR: "only operators of alerts.yaml may turn automation on; off is open to all",
    PressRefusal.OPERATORS_UNKNOWN: "who the operators are could not be found out",
    PressRefusal.REASON_MISSING: "turning automation on needs a reason",
    PressRefusal.NOT_POSSIBLE: "this cannot be done",
    PressRefusal.FAILED: "calmon could not do this; its log says why. Press again",
}


class PressRefused(Exception):
    """A press that does nothing: the named reason, and details for the person."""

    def __init__(self, reason: PressRefusal, details: str = "") -> None:
        super().__init__(f"{reason.value}: {details}" if details else reason.value)
        self.reason = reason
        self.details = details

    @property
    def words(self) -> str:
        """The answer to the person who pressed."""
        return f"{_ANSWERS[self.reason]}{f' ({self.details})' if self.details else ''}"


@dataclass(frozen=True, slots=True)
class Press:
    """One press, or one submitted modal: who, where, when, which button, about which incident.

    ``key`` is the same for each delivery of the same press. ``trigger`` opens a modal; ``reason`` is the text of a
    submitted one (None: a button was pressed).
    """

    key: str
    action: str
    incident: str
    user: str
    name: str
    channel: str
    at: datetime
    trigger: str = ""
    reason: str | None = None

    @property
    def actor(self) -> str:
        """The person's name in stored events."""
        return f"{self.name} (Slack {self.user})"


class SlackResponder(Protocol):
    """What a press needs of Slack (:class:`monitor.alerting.slack.socket_mode.SocketModeResponder`)."""

    def whisper(self, channel: str, user: str, text: str) -> None:
        """Show a text to one person only."""

    def open_modal(self, trigger: str, view: Mapping[str, Any]) -> None:
        """Show a modal to the person who pressed."""

    def members(self, group: str) -> frozenset[str]:
        """The users in a user group."""


def read_press(payload: Mapping[str, Any], team: str) -> Press:
    """The press in a payload of Slack's; ``team`` is the app's own workspace. Raises :class:`PressRefused`.

    In a channel that is shared with another workspace, people of the other one are refused.
    """
    user = text_at(payload, "user", "id")
    teams = {text_at(payload, "team", "id"), text_at(payload, "user", "team_id")} - {""}
    if not user:
        raise PressRefused(PressRefusal.NOT_UNDERSTOOD, "nobody pressed it")
    if teams != {team}:
        raise PressRefused(PressRefusal.OTHER_WORKSPACE)
    trigger, reason = text_at(payload, "trigger_id"), None
    if payload.get("type") == "view_submission":
        metadata, action = _metadata(payload), text_at(payload, "view", "callback_id")
        incident, ts = text_at(metadata, "incident"), text_at(metadata, "ts")
        key = f"slack:view:{text_at(payload, 'view', 'id')}"
        reason = clean(text_at(payload, "view", "state", "values", "reason", "reason", "value"), REASON_LENGTH)
    elif payload.get("type") == "block_actions":
        action, incident, ts = (text_at(payload, "actions", 0, name) for name in ("action_id", "value", "action_ts"))
        key = f"slack:{ts}:{user}:{action}:{incident}"
    else:
        raise PressRefused(PressRefusal.NOT_UNDERSTOOD)
    if action not in (ACTIONS if reason is None else (MODAL,)):
        raise PressRefused(PressRefusal.UNKNOWN_ACTION)
    if not incident:
        raise PressRefused(PressRefusal.NO_INCIDENT)
    try:
        at = datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise PressRefused(PressRefusal.NOT_UNDERSTOOD, "it does not say when") from error
    if reason is not None and not reason.strip():
        raise PressRefused(PressRefusal.REASON_MISSING)
    name = text_at(payload, "user", "username") or text_at(payload, "user", "name") or "somebody"
    return Press(
        key[:200], action, incident, user, clean(name, 60), channel_of(payload), at, trigger=trigger, reason=reason
    )


def channel_of(payload: Mapping[str, Any]) -> str:
    """The channel in which to answer the person; empty if the payload has none."""
    if payload.get("type") == "view_submission":
        return text_at(_metadata(payload), "channel")
    return text_at(payload, "channel", "id") or text_at(payload, "container", "channel_id")


def _metadata(payload: Mapping[str, Any]) -> object:
    """The data that :func:`reason_modal` put into the modal."""
    try:
        return json.loads(text_at(payload, "view", "private_metadata"))
    except ValueError:
        return {}


def text_at(found: Any, *path: str | int) -> str:
    """The text at a place of a payload; "" where there is none.

    >>> text_at({"user": {"id": "U1"}}, "user", "id"), text_at({"user": None}, "user", "id"), text_at([], 0)
    ('U1', '', '')
    """
    try:
        for each in path:
            found = found[each]
    except (KeyError, IndexError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


def operators(automation: AutomationConfig) -> tuple[frozenset[str], frozenset[str]]:
    """The Slack users and user groups who may turn automation on; entries that are neither are left out.

    >>> users, groups = operators(AutomationConfig(when_not_evaluated="keep",
    ...     operators=("<@U0123>", "W0456", "<!subteam^S0789|on-call>", "ada")))
    >>> sorted(users), sorted(groups)
    (['U0123', 'W0456'], ['S0789'])
    """
    ids = [match[1] for match in map(OPERATOR.fullmatch, automation.operators) if match]
    return frozenset(id_ for id_ in ids if not id_.startswith("S")), frozenset(
        id_ for id_ in ids if id_.startswith("S")
    )


def require_operator(user: str, automation: AutomationConfig, slack: SlackResponder) -> None:
    """Raise :class:`PressRefused` unless ``user`` is an operator. Groups are read only if needed."""
    users, groups = operators(automation)
    if not users and not groups:
        raise PressRefused(PressRefusal.NO_OPERATORS)
    if user in users:
        return
    problems = []
    for group in sorted(groups):
        try:
            if user in slack.members(group):
                return
        except TransportError as error:
            problems.append(error.message)
    if problems:
        raise PressRefused(PressRefusal.OPERATORS_UNKNOWN, problems[0])
    raise PressRefused(PressRefusal.NOT_AN_OPERATOR)


def reason_modal(incident: Incident, press: Press) -> dict[str, Any]:
    """The modal that asks an operator for the reason to turn automation on."""
    name = escape(Subject(incident.source, clean(incident.label) if incident.label else None).name)
    metadata = {"incident": incident.id, "channel": press.channel, "ts": f"{press.at.timestamp():.6f}"}
    text = (
        f"*{name}* may act alone again, also against the last evaluation: then for 24 hours at most. "
        "Your name and reason are stored."
    )
    return {
        "type": "modal", "callback_id": MODAL, "private_metadata": json.dumps(metadata),
        "title": _plain("Turn automation on"), "submit": _plain("Turn on"), "close": _plain("Leave off"),
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}},
            {
                "type": "input", "block_id": "reason", "label": _plain("Why?"),
                "element": {
                    "type": "plain_text_input", "action_id": "reason", "min_length": 3, "max_length": REASON_LENGTH,
                },
            },
        ],
    }  # fmt: skip


def _plain(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}


class Buttons:
    """Handles presses, one at a time, and never raises.

    ``team`` is the app's own workspace. ``config`` reads alerts.yaml again (operators may have changed). ``deliver``
    sends the messages that a press has stored, so that people see them at once.
    """

    def __init__(
        self,
        monitor: Monitor,
        slack: SlackResponder,
        team: str,
        *,
        config: Callable[[], Config],
        deliver: Callable[[], object],
    ) -> None:
        self._monitor, self._slack, self._team = monitor, slack, team
        self._config, self._deliver = config, deliver
        self._one = threading.Lock()
        self._handled: OrderedDict[str, str] = OrderedDict()

    def handle(self, payload: Mapping[str, Any]) -> str:
        """Do what was pressed and answer privately; returns the result in words."""
        with self._one:
            try:
                words, changed = self._handle(payload)
            except Exception:  # a defect, or a history that is down: the next press may go well
                log.exception("a press could not be handled")
                return self._answer(channel_of(payload), text_at(payload, "user", "id"), _ANSWERS[PressRefusal.FAILED])
        if changed:
            self._send()  # outside the lock: a modal must open within three seconds of its press
        return words

    def _handle(self, payload: Mapping[str, Any]) -> tuple[str, bool]:
        """The result, and whether there is something to send."""
        press = None
        try:
            press = read_press(payload, self._team)
            if press.key in self._handled:
                return self._handled[press.key], False
            words, changed = self._do(press)
        except PressRefused as refused:
            words, changed = self._refuse(refused, press, payload), False
        if press is not None:
            self._handled[press.key] = words
            while len(self._handled) > REMEMBERED:
                self._handled.popitem(last=False)
        return words, changed

    def _do(self, press: Press) -> tuple[str, bool]:
        incident = self._incident(press)
        if incident.is_of_monitor and press.action.startswith("automation"):
            raise PressRefused(PressRefusal.NOT_POSSIBLE, "it is about the monitor itself, which has no switch")
        if press.action == "automation_on" and press.reason is None:
            return self._ask(press, incident), False
        words = self._switch(press, incident) if press.action.startswith("automation") else self._mark(press)
        log.info("%s: %s by %s", press.action, words, press.actor)
        self._answer(press.channel, press.user, words)
        return words, True

    def _incident(self, press: Press) -> Incident:
        try:
            found = self._monitor.store.incident(press.incident)
        except HistoryError as error:
            raise PressRefused(PressRefusal.UNKNOWN_INCIDENT) from error
        if found.id != press.incident:  # the beginning of an id is accepted in a terminal, not from a button
            raise PressRefused(PressRefusal.UNKNOWN_INCIDENT)
        return found

    def _mark(self, press: Press) -> str:
        """Acknowledge or silence. A silence counts from the press, so a late delivery does not prolong it."""
        if press.action in SILENCES:
            until = press.at + SILENCES[press.action]
            done = incident_actions.silence(self._monitor, press.incident, until, press.actor)
        else:
            done = incident_actions.acknowledge(self._monitor, press.incident, press.actor)
        if done.refused:
            raise PressRefused(PressRefusal.NOT_POSSIBLE, done.words)
        return done.words

    def _ask(self, press: Press, incident: Incident) -> str:
        require_operator(press.user, self._automation(), self._slack)
        try:
            self._slack.open_modal(press.trigger, reason_modal(incident, press))
        except TransportError as error:
            raise PressRefused(PressRefusal.FAILED, error.message) from error
        return "asked for a reason"

    def _switch(self, press: Press, incident: Incident) -> str:
        enable = press.action == "automation_on"
        if enable:
            require_operator(press.user, self._automation(), self._slack)
        reason = press.reason or f"a button in Slack, incident {incident.id[:8]}"
        try:
            done = change_switch(
                self._monitor,
                incident.source,
                incident.label,
                enable=enable,
                by=press.actor,
                reason=reason,
                key=press.key,
            )
        except (WrongRequest, KeyReused) as error:
            raise PressRefused(PressRefusal.NOT_POSSIBLE, str(error)) from error
        follows = ""
        try:  # until when, and why it does not act all the same, as where its source is off
            state = self._monitor.store.switch(incident.source, incident.label)
            follows = f". {Teller.of(self._monitor).switch_now(state, against=state.verdict is not None).words}"
        except Exception:  # the switch has changed, so the answer must not report a failure
            log.exception("automation was changed; what follows is not known")
        return f"automation of {Subject(incident.source, incident.label).name}: {done}{follows if enable else ''}"

    def _automation(self) -> AutomationConfig:
        try:
            return self._config().automation
        except ConfigProblems as error:
            raise PressRefused(
                PressRefusal.OPERATORS_UNKNOWN, "alerts.yaml has mistakes: run `calmon check`"
            ) from error

    def _refuse(self, refused: PressRefused, press: Press | None, payload: Mapping[str, Any]) -> str:
        """Report the refusal to the person, to the log and, if the press names an incident, in its history."""
        user = text_at(payload, "user", "id")
        log.warning("refused a press of %s: %s", clean(user, 30) or "nobody", clean(str(refused), 300))
        if press is not None and refused.reason != PressRefusal.UNKNOWN_INCIDENT:
            key = hashlib.sha256(f"refused:{press.key}".encode()).hexdigest()[:32]  # hashed to fit its column
            why = f"{press.action.replace('_', ' ')}: {refused.words}"
            incident_actions.refuse(self._monitor, press.incident, press.actor, refused.reason, why, key=key)
        self._answer(channel_of(payload), user, refused.words)
        return str(refused)

    def _answer(self, channel: str, user: str, words: str) -> str:
        if channel and user:
            try:
                self._slack.whisper(channel, user, escape(clean(words, 1_000)))
            except TransportError as error:
                log.warning("the person who pressed could not be answered: %s", error.message)
        return words

    def _send(self) -> None:
        try:
            self._deliver()
        except Exception:  # the messages are stored: the next drain sends them
            log.exception("the change of the message waits for the next drain")
