"""What is told of one label, or of a source as a whole, as of a time: typed facts, and the words for them. Pure.

Every face (terminal, page, Slack, file) shows fields of a story, and computes none of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.core.diagnoses import Diagnosis, DiagnosisState, LabelProblem, LikelyCause, NextStep, NotTold, Since
from monitor.core.records import BURST, OF_LABEL, UNCHECKED, VANISHED, Incident, Subject, Verdict
from monitor.core.wording import and_more, clean, count_of, ending, isolated, percent, points, segment_name, who
from monitor.story.incident import state_words
from monitor.story.switch import SwitchStory

LABELS_NAMED = 6
STATE_WORDS = {
    DiagnosisState.UNSAFE: "must not act alone",
    DiagnosisState.DEGRADED: "degraded",
    DiagnosisState.CANNOT_TELL: "cannot tell",
    DiagnosisState.FINE: "fine",
}
HEADLINES = {
    LabelProblem.OVERCONFIDENT: "{name} is overconfident",
    LabelProblem.LESS_ACCURATE: "{name} is less accurate",
    LabelProblem.MISSES: "{name} misses too many",
    LabelProblem.LESS_DISCRIMINATING: "{name} tells right from wrong less well",
    LabelProblem.MISCALIBRATED: "{name} has scores that do not match what turns out",
    LabelProblem.UNDERCONFIDENT: "{name} is underconfident",
    LabelProblem.SHIFTED: "{name} has other traffic than before",
}
NOT_OF_ITEMS = (
    LabelProblem.MISSES, LabelProblem.LESS_DISCRIMINATING, LabelProblem.MISCALIBRATED, LabelProblem.SHIFTED,
)  # fmt: skip
"""Problems that the share of right items does not show."""
_OF_KIND = {
    BURST: "{many} of {source} need somebody",
    VANISHED: "{name} has no rows any more",
    UNCHECKED: "no truth of what acts alone: {many} of {source}",
}
NOT_TOLD = {
    NotTold.SOURCE_NOT_READ: "{its} source could not be read",
    NotTold.REJECTED_ROWS: "too many of {its} rows were rejected",
    NotTold.NO_ROWS: "{it_has} no rows",
    NotTold.NO_TRUTH_WHERE_IT_ACTS: "no item that acted alone has a truth",
    NotTold.NOT_MATURE: "{its} truths are still coming in",
    NotTold.NO_BASELINE: "there is no baseline that {it} can be compared with",
    NotTold.TOO_FEW_ROWS: "{it_has} too few rows",
}
_STEPS = {
    "repair_data": "repair the data",
    "retrain": "retrain, or go back to the model before",
    "pin_again": "pin a baseline of it: `calmon baseline pin{about}`",
}


@dataclass(frozen=True, slots=True)
class LabelStory:
    """What is told of a label as of a time. Texts are one sentence each, without a full stop; "" where there is none.

    ``headline`` says what is the matter, ``facts`` what was measured, ``since`` when it began, ``cost`` what it has
    cost, ``where`` in which part of the rows it is, ``cause`` what else changed then, ``next_step`` what helps and by
    how much, ``do_now`` what somebody on call does at any hour. ``doubt`` says what could not be judged.
    ``diagnosis`` is that of the newest ``window``; ``trouble`` the one that the texts are about where it cannot tell,
    or where the incident is over. ``incident`` is the newest one, None if there never was one.
    """

    source: str
    label: str | None
    name: str
    as_of: datetime
    diagnosis: Diagnosis
    trouble: Diagnosis | None
    incident: Incident | None
    switch: SwitchStory | None
    headline: str
    facts: str = ""
    since: str = ""
    cost: str = ""
    where: str = ""
    cause: str = ""
    next_step: str = ""
    do_now: str = ""
    doubt: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def state(self) -> DiagnosisState:
        """What to think of the label now."""
        return self.diagnosis.state

    @property
    def window(self) -> str:
        """The newest window that was judged."""
        return self.diagnosis.window.name

    @property
    def needs_somebody(self) -> bool:
        """Whether somebody must look at it: it is in trouble or was when last judged, vanished, or seems renamed."""
        kind = self.incident.kind if self.incident is not None and self.incident.is_open else ""
        told = kind == VANISHED or (kind == OF_LABEL and self.diagnosis.is_trouble) or self.goes_on_unseen
        return self.diagnosis.needs_somebody or told or bool(self.diagnosis.notes.renamed_to)

    @property
    def goes_on_unseen(self) -> bool:
        """Whether its trouble is not over, though nothing could be judged in the newest window."""
        is_open = self.incident is None or self.incident.is_open
        needed = self.trouble is not None and self.trouble.needs_somebody
        return self.state is DiagnosisState.CANNOT_TELL and needed and is_open

    @property
    def known(self) -> str:
        """What the sentence says after the headline, "" where it says no more."""
        if self.diagnosis.state is DiagnosisState.FINE or self.diagnosis.notes.explained_by:
            return ""
        since = f"its trouble {self.since} is not over" if self.goes_on_unseen and self.since else self.since
        known = "; ".join(part for part in (self.doubt or self.facts, since) if part)
        return f": {known}" if known else ""

    @property
    def automation(self) -> str:
        """What is said of its switch, as short as may be; "" where there is none."""
        return "" if self.switch is None else self.switch.short or self.switch.words

    @property
    def sentence(self) -> str:
        """The story in one sentence, without a full stop: the headline, what was measured, and since when."""
        return self.headline + self.known


def label_story(
    diagnosis: Diagnosis,
    *,
    as_of: datetime,
    trouble: Diagnosis | None = None,
    incident: Incident | None = None,
    switch: SwitchStory | None = None,
    lead: Verdict | None = None,
    of_source: bool = False,
) -> LabelStory:
    """The story of ``diagnosis``. ``trouble`` is the newest diagnosis with a trouble that still goes on, or just ended.

    ``lead`` is the verdict that the trouble rests on first. ``of_source``: the name says of which source the label is.
    """
    source, label = diagnosis.source, diagnosis.label
    name = who(Subject(source, label)) + (f" of {clean(source)}" if of_source else "")
    about = diagnosis if diagnosis.is_trouble else trouble
    told = LabelStory(
        source, label, name, as_of, diagnosis, about, incident, switch, headline_of(diagnosis, name, incident, switch),
        doubt=doubt_of(diagnosis),
        evidence=(about or diagnosis).because,
    )  # fmt: skip
    if about is None:
        draw = f"`calmon audit draw --source {shlex.quote(clean(source))} --each 40 --out audit.csv`"
        audit = f"have some checked: {draw}" if diagnosis.notes.unchecked else ""
        step = rename_words(diagnosis) or audit or step_words(diagnosis.advice, diagnosis)
        return replace(told, do_now=do_now(diagnosis, switch), next_step=step)
    is_fine, explained = diagnosis.state is DiagnosisState.FINE, bool(diagnosis.notes.explained_by)
    return replace(
        told,
        facts=facts_of(about, lead),
        since=since_words(about.since),
        cost=cost_of(about),
        where="" if about.segment is None else f"in {segment_name(*about.segment)}",
        cause=cause_words(about.cause),
        next_step=rename_words(diagnosis)
        or ("" if is_fine or explained or _is_taken(about.advice, switch) else step_words(about.advice, about)),
        do_now=do_now(diagnosis, switch),
    )


def _is_taken(step: NextStep | None, switch: SwitchStory | None) -> bool:
    """Whether the step is to act from a score below which automation is blocked already."""
    taken = None if switch is None else switch.acts_from
    return step is not None and step.score is not None and taken is not None and taken >= step.score


def story_of_many(stories: Sequence[LabelStory]) -> LabelStory:
    """The story of many labels in one incident: that of the worst, which is named; automation is counted."""

    def rank(story: LabelStory) -> tuple[int, bool]:
        return list(DiagnosisState).index(story.state), story.switch is None or not story.switch.allowed

    worst = min(stories, key=rank)
    about = worst.trouble or worst.diagnosis
    facts = f"{worst.name} {'is ' if about.cost is not None else ''}{worst.facts}" if worst.facts else ""
    off = sum(story.switch is not None and not story.switch.allowed for story in stories)
    words = f"Automation is off for {off} of {count_of(len(stories), 'label')}"
    switch = None if worst.switch is None else replace(worst.switch, words=words, short="")
    cost, step = (f"{worst.name}: {text}" if text else "" for text in (worst.cost, worst.next_step))
    return replace(worst, facts=facts, switch=switch, cost=cost, next_step=step)


def headline_of(
    diagnosis: Diagnosis, name: str, incident: Incident | None = None, switch: SwitchStory | None = None
) -> str:
    """What is the matter, in a few words."""
    if incident is not None and incident.kind in _OF_KIND and (incident.is_open or incident.labels):
        many, source = count_of(len(incident.labels), "label"), clean(incident.source)
        over = not incident.is_open and diagnosis.state is DiagnosisState.FINE
        words = "fine again: {many} of {source}" if over else _OF_KIND[incident.kind]
        return words.format(name=name, many=many, source=source)
    if labels := diagnosis.notes.explained_by:
        return f"{name}: what is wrong is in {labels_words(labels)}; of the rest nothing is confirmed"
    if diagnosis.state is DiagnosisState.UNSAFE:
        below = "" if switch is None or switch.acts_from is None else f" below {switch.acts_from:g}"
        return f"{name} must not act alone{below}"
    if diagnosis.state is DiagnosisState.DEGRADED and diagnosis.problem is not None:
        return HEADLINES[diagnosis.problem].format(name=name)
    if diagnosis.state is DiagnosisState.CANNOT_TELL:
        return f"{name} cannot be judged"
    over = incident is not None and not incident.is_open
    return f"{name} is fine again" if over else f"{name} is fine"


def title_of(story: LabelStory, incident: Incident) -> str:
    """The headline of a message about an incident: one that is over is so, whatever is known of its label now."""
    over = not incident.is_open and story.state is not DiagnosisState.FINE
    return f"{story.headline} (resolved)" if over else story.headline


def facts_of(diagnosis: Diagnosis, lead: Verdict | None) -> str:
    """What was measured: of the rows that act since it began, else what the leading rule found."""
    cost, facts = diagnosis.cost, {} if lead is None else lead.detail.get("truth_error", {})
    wrong = f", of which wrong truths make at most {points(facts['share'])}" if facts else ""
    share = diagnosis.notes.with_truth
    wrong += "" if share is None else f"; {percent(share)} of what acted in {diagnosis.window.name} has a truth"
    if cost is None or (lead is not None and diagnosis.problem in NOT_OF_ITEMS):
        return "" if lead is None else ending(lead).removeprefix("is ") + wrong
    acted = "that acted" if cost.acted else "that would have acted"
    return (
        f"{percent(cost.correct)} right, scores claimed {percent(cost.claimed)} "
        f"({count_of(round(cost.items), 'item')} {acted}){wrong}"
    )


def since_words(since: Since | None) -> str:
    """When it began.

    >>> since_words(Since("2026-W35", "2026-W34", "2026-W36"))
    'since 2026-W35 (2026-W34 to 2026-W36)'
    >>> since_words(Since("2026-W35", "2026-W35", "2026-W35", gradual=True))
    'slowly since 2026-W35'
    """
    if since is None:
        return ""
    slowly = "slowly since" if since.gradual else "since"
    span = "" if since.low == since.high else f" ({since.low} to {since.high})"
    return f"{slowly} {since.window}{span}"


def cost_of(diagnosis: Diagnosis) -> str:
    """How many more items were wrong than their scores claimed."""
    cost = diagnosis.cost
    if cost is None or cost.extra_errors <= 0:
        return ""
    low, high = (f"{max(round(limit), 0):,}" for limit in (cost.low, cost.high))
    would = "" if cost.acted else "would have been "
    return f"about {round(cost.extra_errors):,} more {would}wrong than the scores claimed ({low} to {high})"


def cause_words(cause: LikelyCause | None) -> str:
    """What else changed when it began.

    >>> cause_words(LikelyCause("version", "2.1", "2026-W35", 0.8))
    'model version 2.1 arrived in 2026-W35 (80% of the change)'
    """
    if cause is None:
        return ""
    share = "" if cause.share is None else f" ({percent(min(cause.share, 1.0))} of the change)"
    what = isolated(clean(cause.what, 60))
    known = {
        "version": f"model version {what} arrived in {cause.began}",
        "mix": f"the share of {what} changed in {cause.began}",
        "class_mix": f"its share of all items went from {what} in {cause.began}, and only that changed",
        "annotation": f"{what} ({cause.began})",
    }
    return known[cause.kind] + share


def step_words(step: NextStep | None, about: Diagnosis | None = None) -> str:
    """The next step, with what it is expected to gain; its command is for the label that it is ``about``.

    >>> step_words(NextStep("act_from_score", score=0.95, items=71.0, before=0.58, after=0.97, low=0.95, high=0.98))
    'act alone only from score 0.95: 71 items a window go on, 97% right instead of 58% (95% to 98%)'
    >>> step_words(NextStep("recalibrate", "platt", before=0.103, after=0.012, low=0.0, high=0.031))
    'recalibrate by platt: ECE 0.103 to 0.012 (0.000 to 0.031)'
    """
    if step is None:
        return ""
    if step.step == "act_from_score" and step.score is not None:
        gain = f", {percent(step.after)} right instead of {percent(step.before)}" if step.after is not None else ""
        span = f" ({percent(step.low)} to {percent(step.high)})" if step.low is not None else ""
        items = f"{count_of(round(step.items or 0), 'item')} a window go on"
        return f"act alone only from score {step.score:g}: {items}{gain}{span}"
    if step.step == "recalibrate":
        gain = "" if step.before is None or step.after is None else f": ECE {step.before:.3f} to {step.after:.3f}"
        limits = "" if step.low is None or step.high is None else f" ({step.low:.3f} to {step.high:.3f})"
        return f"recalibrate{f' by {step.method}' if step.method else ''}{gain}{limits}"
    named = [] if about is None else [("source", about.source), ("label", about.label)]
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in named if value is not None)
    return _STEPS[step.step].format(about=options)


def doubt_of(diagnosis: Diagnosis) -> str:
    """Why nothing can be told of the newest window."""
    if diagnosis.reason is None:
        return ""
    notes, why = diagnosis.notes, NOT_TOLD[diagnosis.reason].format(it="it", its="its", it_has="it has")
    if diagnosis.reason is NotTold.NO_BASELINE and diagnosis.advice is None:
        return f"{diagnosis.window.name} is part of what its baseline was made from"
    if diagnosis.reason is NotTold.NO_ROWS and notes.last_rows:
        usual = f", usually about {count_of(notes.usual_rows, 'row')}" if notes.usual_rows else ""
        renamed = f"; {_name(notes.renamed_to)} appeared then and is like it" if notes.renamed_to else ""
        return f"{why} in {diagnosis.window.name}; the last ones came in {notes.last_rows}{usual}{renamed}"
    if diagnosis.reason is NotTold.TOO_FEW_ROWS and notes.weeks:
        return (
            f"{why} in {diagnosis.window.name}; {count_of(notes.weeks, diagnosis.window.unit)} together would be enough"
        )
    return f"{why} in {diagnosis.window.name}"


def rename_words(diagnosis: Diagnosis) -> str:
    """What to do about a label that seems to have another name now, with the command."""
    new, label = diagnosis.notes.renamed_to, diagnosis.label
    if not new or label is None:
        return ""
    names = " ".join(shlex.quote(clean(each)) for each in (diagnosis.source, label, new))
    return f"if renamed: `calmon label rename {names} --reason TEXT`"


def _name(label: str) -> str:
    return isolated(clean(label, 40))


def do_now(diagnosis: Diagnosis, switch: SwitchStory | None) -> str:
    """What somebody on call does at any hour: as little as is safe."""
    unsafe = diagnosis.state is DiagnosisState.UNSAFE
    if switch is None:
        return "look at it in working hours" if diagnosis.needs_somebody else ""
    if not switch.allowed:
        return "check that people decide these items" if unsafe and switch.button is not None else ""
    if switch.held_until is not None and unsafe:
        return "turn automation off unless the operator's reason still holds"
    if unsafe and switch.state == "on":
        return "turn automation off"
    if switch.state == "limited" and unsafe:
        return "check that people decide the items that are left out"
    return "look at it in working hours" if diagnosis.needs_somebody else ""


def story_lines(story: LabelStory) -> list[str]:
    """A story in at most three lines: what is the matter; where, why and at what cost; automation and what to do."""
    why = "; ".join(part for part in (story.cost, story.where, story.cause) if part)
    act = "; ".join(part for part in (story.automation, f"now: {story.do_now}" if story.do_now else "") if part)
    ahead = f"next: {story.next_step}" if story.next_step else ""
    if why and act and ahead:
        return [story.sentence, why, f"{act}; {ahead}"]
    return [line for line in (story.sentence, why, act, ahead) if line]  # a command has a line of its own


def people_words(incident: Incident) -> str:
    """Who acknowledged the incident, silenced or resolved it; "" if nobody did."""
    somebody_did = incident.state != "open" if incident.is_open else incident.resolved_by is not None
    return state_words(incident) if somebody_did else ""


def labels_words(labels: tuple[str, ...]) -> str:
    """The labels of a burst.

    >>> labels_words(("a", "b"))
    'a, b'
    """
    return and_more([_name(label) for label in labels], LABELS_NAMED)
