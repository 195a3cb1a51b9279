"""What is told of an incident: what a window or a person changed, in words. Pure."""

from __future__ import annotations

from monitor.core.records import Incident, IncidentEvent, IncidentReason
from monitor.core.wording import clean, moment, stamp

_R = IncidentReason
_WORDS = {
    _R.OPENED: "new",
    _R.CONTINUES: "goes on",
    _R.OTHER_PROBLEM: "goes on, with another problem",
    _R.WORSE: "has become more severe",
    _R.CAME_BACK: "is back",
    _R.CANNOT_TELL: "could not be judged; stays open",
    _R.FINE_AGAIN: "is fine again",
    _R.NOT_SEEN: "was not seen for four weeks: resolved",
    _R.ROWS_ARE_BACK: "has rows again",
    _R.CHECKED_AGAIN: "no longer acts alone without any truth",
    _R.NOT_WATCHED: "is not watched by any rule any more: resolved",
    _R.NO_TROUBLE: "no trouble",
    _R.ALREADY_COUNTED: "was counted already",
    _R.OLDER_WINDOW: "a newer window was counted already",
    _R.ACKNOWLEDGED: "acknowledged",
    _R.SILENCED: "silenced",
    _R.SILENCE_ENDED: "the silence has ended",
    _R.RESOLVED_BY_HAND: "resolved by hand",
    _R.NOTED: "a note was added",
    _R.ALREADY_ACKNOWLEDGED: "is acknowledged already",
    _R.ALREADY_SILENCED: "is silenced for as long already",
    _R.ALREADY_RESOLVED: "is resolved already",
    _R.NOT_OVER: "its silence is not over",
    _R.NAME_MISSING: "a name is needed: `--by NAME`",
    _R.REASON_MISSING: "a reason is needed",
    _R.END_NOT_AHEAD: "a silence must end in the future",
    _R.ENDS_BY_ITSELF: "ends by itself once it is over: acknowledge or silence it",
}


def reason_words(reason: IncidentReason | str) -> str:
    """A reason in words; one that this version does not know as it is.

    >>> reason_words("fine_again"), reason_words("of another version")
    ('is fine again', 'of another version')
    """
    return _WORDS[IncidentReason(reason)] if reason in set(_R) else str(reason)


def event_words(event: IncidentEvent) -> str:
    """Why something happened to an incident, with what a person wrote; of a refused press only why it was refused."""
    said = str(event.detail.get("why") or "")
    if event.kind == "refused":
        return said
    return reason_words(event.reason) + (f": {said}" if said else "")


def state_words(incident: Incident) -> str:
    """The state of an incident with the person, or the time, behind it."""
    if silence := silence_words(incident):
        return silence
    if incident.state == "acknowledged":
        at = f", {moment(incident.acknowledged_at)}" if incident.acknowledged_at is not None else ""
        return f"acknowledged by {clean(incident.acknowledged_by or 'somebody')}{at}"
    if incident.state == "resolved":
        by = f" by {clean(incident.resolved_by)}" if incident.resolved_by else ""
        return f"resolved{by}{f' in {incident.resolved_window}' if incident.resolved_window else ''}"
    return "open"


def silence_words(incident: Incident) -> str:
    """Until when it is silenced, by whom, and what ends that earlier; "" if it is not."""
    if incident.state != "silenced" or incident.silenced_until is None:
        return ""
    lesser = "" if incident.severity == "critical" else ", or until it becomes more severe"
    return f"silenced until {stamp(incident.silenced_until)}{lesser}, by {clean(incident.silenced_by or 'somebody')}"
