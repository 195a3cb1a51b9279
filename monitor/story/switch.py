"""What is told of a label's switch: state, person, since when, until when, why, and how to change it. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from monitor.automation.state import CLOCK_IS_BEHIND, CLOSED_HISTORY, GateReason, effective, is_for_a_time
from monitor.automation.switch import kept_words
from monitor.core.records import Identity, KeptScores, SwitchState
from monitor.core.score_ranges import Ranges, ranges_text
from monitor.core.wording import clean, segment_name, stamp

REASON_LENGTH, NAME_LENGTH = 200, 60
_RUNS = ("weekly run", "daily run")


@dataclass(frozen=True, slots=True)
class SwitchStory:
    """The state of a label's switch at one moment.

    ``words`` is a sentence without its full stop, ``short`` the same without who turned it on ("": no shorter one).
    ``button`` is what a message offers to undo: "on" offers to turn it off, "off" to turn it on, None nothing.
    ``allowed``: automation may act, but not on ``segments`` or ``blocked`` scores, and only from ``acts_from`` on where
    that is shown to be safe. ``held_until``: an operator's enable
    against the evidence ends then.
    ``stays`` says why it does not come back by itself. ``enable_helps``: an operator's enable turns it on, which it
    does not while every gate is closed. ``command`` changes it.
    """

    words: str
    button: Literal["on", "off"] | None = None
    allowed: bool = False
    blocked: Ranges = ()
    acts_from: float | None = None
    held_until: datetime | None = None
    segments: tuple[tuple[str, str], ...] = ()
    stays: str = ""
    short: str = ""
    enable_helps: bool = True
    command: str = ""

    @property
    def state(self) -> Literal["on", "off", "limited"]:
        """Whether it may act now; "limited": not on all of its items."""
        if not self.allowed:
            return "off"
        return "limited" if self.blocked or self.segments else "on"


def command_for(source: str, label: str | None, *, enable: bool) -> str:
    """The command that turns automation of a label on or off; without a label the source's own switch.

    >>> command_for("tickets", "it support", enable=False)
    "calmon automation disable --source tickets --label 'it support' --reason TEXT"
    >>> command_for("tickets", None, enable=True)
    'calmon automation enable --source tickets --reason TEXT'
    """
    about = "" if label is None else f" --label {shlex.quote(label)}"
    return f"calmon automation {'enable' if enable else 'disable'} --source {shlex.quote(source)}{about} --reason TEXT"


def switch_story(
    state: SwitchState,
    now: datetime,
    *,
    whole: SwitchState | None,
    identity: Identity | None = None,
    against: bool = False,
    dry_run: bool = False,
    off_since: datetime | None = None,
) -> SwitchStory:
    """The state of automation for the label of ``state``; ``whole`` is its source's switch (None: it is the subject).

    ``against``: a rule that would turn it off is in breach. ``off_since`` is when automation became off, which is
    before its switch was turned off where the lease had ended earlier (None: not known).
    """
    found = effective(state, now, whole=whole, identity=identity)
    proved = _proved(state, found.blocked) if found.allowed else None
    dry = " (dry run: runs change no switch)" if dry_run else ""
    about = state.label
    if found.allowed:
        story = _on(state, found.blocked, now, against=against)
    elif found.reason in CLOSED_HISTORY:
        story = SwitchStory(
            f"Automation is off: {found.detail} (calmon db confirm --reason TEXT, once it is looked at)",
            "off",
            enable_helps=False,
        )
    elif found.reason == GateReason.CLOCK_BEHIND:
        # the reason in full has the time in it
        story = SwitchStory(f"Automation is off: {CLOCK_IS_BEHIND}", "off", enable_helps=False)
    elif whole is not None and found.reason == GateReason.SOURCE_OFF:
        about = None  # the enable of a label would not open it
        story = SwitchStory(_off(whole).words.replace("is off", f"is off for all of {clean(state.source)}", 1))
    else:
        story = _off(state, off_since)
    return replace(
        story, words=story.words + dry, short=story.short + dry if story.short else "", allowed=found.allowed,
        blocked=found.blocked, segments=found.segments, acts_from=None if proved is None else proved.score,
        command=command_for(state.source, about, enable=not found.allowed),
    )  # fmt: skip


def _off(state: SwitchState, off_since: datetime | None = None) -> SwitchStory:
    if state.state == "never_set":
        return SwitchStory("Automation is off: it was never turned on")
    if state.by_operator and state.actor in _RUNS:  # a run's breach came before anybody turned it on
        found = "" if state.not_evaluated else ", and was found in breach"
        return SwitchStory(f"Automation is off: it was never turned on{found}", "off")
    if state.state != "on":
        return SwitchStory(f"Automation is off{_since_and_why(state, off_since)}", "off")
    if state.lease_until is None:
        return SwitchStory("Automation is off: it has no lease", "off")
    # a late run may have renewed a lease that had ended to a time that is over as well
    ended = min(state.lease_until, off_since or state.lease_until)
    since = f"Automation is off since {stamp(ended)}"
    if is_for_a_time(state):
        name = clean(state.actor, NAME_LENGTH)
        words = f"{since}: the enable by {name} has ended"
        return SwitchStory(words, "off")
    return SwitchStory(f"{since}: its lease ended, no evaluation renewed it", "off")


def _since_and_why(state: SwitchState, off_since: datetime | None) -> str:
    turned = state.changed_at
    since = f" since {stamp(turned)}" if turned is not None else ""
    again = ""
    if turned is not None and off_since is not None and off_since < turned:
        since, again = f" since {stamp(off_since)}", f", turned off once more on {stamp(turned)}"
    if state.actor and state.actor not in _RUNS:  # also if a person's "off" is past its time: a run may end it
        how = f"{again} by " if again else ": turned off by "
        return f"{since}{how}{clean(state.actor, NAME_LENGTH)}: {clean(state.reason, REASON_LENGTH)}"
    if again or not state.actor:  # a run that turns off an ended lease is no news
        return since
    return f"{since} ({clean(state.actor, NAME_LENGTH)})"


def _proved(state: SwitchState, blocked: Ranges) -> KeptScores | None:
    """What is shown of the scores that are left; None where other scores are blocked too."""
    return state.kept if blocked == state.blocked else None


def _on(state: SwitchState, blocked: Ranges, now: datetime, *, against: bool) -> SwitchStory:
    """A label that is on, with its score ranges and segments that may not act; their enable may end by itself."""
    proved = _proved(state, blocked)
    scores = f"scores {ranges_text(blocked)}" if blocked and proved is None else ""
    off = [segment_name(*each.segment) for each in state.segments if each.is_off(now)]
    ending = [
        f"for {segment_name(*each.segment)} only until {stamp(each.off_from)}"
        for each in state.segments
        if each.off_from is not None and each.off_from > now
    ]
    parts = " and ".join(part for part in (scores, " and ".join(off)) if part)
    only = f" {kept_words(proved)}" if proved is not None else ""
    closed = "".join((only, f", but not for {parts}" if parts else "", *(f", {each}" for each in ending)))
    if not state.by_operator or state.lease_until is None:
        end = f", until {stamp(state.lease_until)} unless an evaluation renews it" if state.lease_until else ""
        return SwitchStory(f"Automation is on{closed}{end}", "on")
    why, until = f"enabled by {clean(state.actor, NAME_LENGTH)}", f"until {stamp(state.lease_until)}"
    reason = clean(state.reason, REASON_LENGTH)
    if is_for_a_time(state):
        left_on = "left on against this finding" if against else "left on"
        return SwitchStory(
            f"Automation is {left_on}{closed}: {why} {until}: {reason}", "on", held_until=state.lease_until
        )
    short = f"Automation is on{closed}, {until} unless an evaluation renews it"
    return SwitchStory(f"{short}: {why}: {reason}", "on", short=short)
