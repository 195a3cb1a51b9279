"""A diagnosis: what is the matter with one label, or one source as a whole, in one window.

Everything that is done or said about a label comes from its diagnosis; verdicts are the evidence behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter

from monitor.core.records import SEVERITY_RANK, Severity, Verdict, Window

Segment = tuple[str, str]


class DiagnosisState(StrEnum):
    """What to think of a label; the worst first."""

    UNSAFE = "unsafe"
    DEGRADED = "degraded"
    CANNOT_TELL = "cannot_tell"
    FINE = "fine"


class LabelProblem(StrEnum):
    """What is wrong, the most harmful first."""

    OVERCONFIDENT = "overconfident"
    LESS_ACCURATE = "less_accurate"
    MISSES = "misses"
    LESS_DISCRIMINATING = "less_discriminating"
    MISCALIBRATED = "miscalibrated"
    UNDERCONFIDENT = "underconfident"
    SHIFTED = "shifted"


class NotTold(StrEnum):
    """Why nothing can be told of a label."""

    SOURCE_NOT_READ = "source_not_read"
    REJECTED_ROWS = "rejected_rows"
    NO_ROWS = "no_rows"
    NO_TRUTH_WHERE_IT_ACTS = "no_truth_where_it_acts"
    NOT_MATURE = "not_mature"
    NO_BASELINE = "no_baseline"
    TOO_FEW_ROWS = "too_few_rows"


CauseKind = Literal["version", "mix", "class_mix", "annotation"]
AutomationState = Literal["on", "off", "limited"]
Step = Literal["recalibrate", "act_from_score", "repair_data", "retrain", "pin_again"]


@dataclass(frozen=True, slots=True)
class Since:
    """The window in which a trouble began, and the first and the last one that the data allow.

    ``gradual``: it grew over several windows, so that ``window`` is the first of them.
    """

    window: str
    low: str
    high: str
    gradual: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """What a trouble has cost since it began, among the rows that act.

    ``items`` acted, by the share of time that automation was on; ``correct`` of them were right (a share) where scores
    ``claimed`` another share; ``extra_errors`` more were wrong than claimed, with limits. Not ``acted``: automation was
    off all the time, and these are the rows that would have acted.
    """

    items: float
    correct: float
    claimed: float
    extra_errors: float
    low: float
    high: float
    acted: bool = True


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """What else changed when a trouble began.

    ``kind``: a model *version* arrived, the *mix* of rows changed (``what`` is then "column=value"), only the share of
    true items did (*class_mix*, "20% to 10%"), or somebody wrote an *annotation*. ``share`` is the part of the change
    that it explains, None if that cannot be measured.
    """

    kind: CauseKind
    what: str
    began: str
    share: float | None = None

    @property
    def text(self) -> str:
        """The cause for tables and JSON.

        >>> LikelyCause("version", "2.0", "2026-W41").text
        'version 2.0'
        """
        return f"{self.kind} {self.what}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step, and what it is expected to gain; numbers are None where the step has none.

    *recalibrate* by ``method``: the ECE falls from ``before`` to ``after``. *act_from_score* ``score``: ``items`` of
    each window act, and ``after`` of them are right instead of ``before``. ``low`` and ``high`` are limits of
    ``after``. ``unseen`` says on which rows this was measured: on windows that no fit saw, or (of a single window) on
    rows of it that none saw.
    """

    step: Step
    method: str = ""
    score: float | None = None
    items: float | None = None
    before: float | None = None
    after: float | None = None
    low: float | None = None
    high: float | None = None
    unseen: Literal["windows", "rows", ""] = ""

    @property
    def text(self) -> str:
        """The step for tables and JSON.

        >>> NextStep("act_from_score", score=0.93, before=0.81, after=0.96).text
        'act from score 0.93: accuracy 0.810 to 0.960'
        """
        what = {"act_from_score": f"act from score {self.score}", "recalibrate": f"recalibrate by {self.method}"}
        words = what.get(self.step, self.step.replace("_", " "))
        if self.before is None or self.after is None:
            return words
        return f"{words}: {'accuracy' if self.score is not None else 'ECE'} {self.before:.3f} to {self.after:.3f}"


@dataclass(frozen=True, slots=True)
class Notes:
    """What a diagnosis says beside its state.

    ``unconfirmed`` rules are beyond their limit, but this can be chance; ``info`` are breaches of rules that never make
    a state; ``not_judged`` has rules with their reason. ``within_limits``: no value is beyond its limit, whether it
    could be judged or not. ``segments`` are further parts of the rows with a trouble. ``weeks`` is how many windows
    together would be enough rows; ``last_rows`` and ``usual_rows`` say in which window a label without rows had some
    last, and how many it had usually, ``renamed_to`` which label like it appeared then. ``unchecked`` items acted alone
    in a window without the truth of any, as in the window before. ``explained_by`` are the labels in trouble without
    whose rows nothing is confirmed of the source as a whole. ``with_truth`` is the share of what acted that has a
    truth, where that is so few that it need not be a random part.
    """

    unconfirmed: tuple[str, ...] = ()
    info: tuple[str, ...] = ()
    not_judged: tuple[tuple[str, str], ...] = ()
    within_limits: bool = True
    segments: tuple[Segment, ...] = ()
    weeks: int | None = None
    last_rows: str = ""
    usual_rows: int | None = None
    renamed_to: str = ""
    unchecked: int = 0
    explained_by: tuple[str, ...] = ()
    with_truth: float | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is the matter with ``label`` (None: the source as a whole) in ``window``. docs/diagnosis.md has the fields.

    ``found`` is the window that found the trouble first, ``because`` the ids of the verdicts that it rests on. While a
    trouble goes on that cannot be judged, ``problem``, ``since`` and ``found`` are those of before.
    """

    source: str
    label: str | None
    window: Window
    state: DiagnosisState
    problem: LabelProblem | None = None
    since: Since | None = None
    found: str = ""
    cost: Cost | None = None
    segment: Segment | None = None
    cause: LikelyCause | None = None
    advice: NextStep | None = None
    reason: NotTold | None = None
    because: tuple[str, ...] = ()
    notes: Notes = field(default_factory=Notes)

    @property
    def is_trouble(self) -> bool:
        """Whether something is wrong."""
        return self.state in (DiagnosisState.UNSAFE, DiagnosisState.DEGRADED)

    @property
    def needs_somebody(self) -> bool:
        """Whether somebody is needed: something is wrong that is not told of its labels."""
        return self.is_trouble and not self.notes.explained_by


def severity_of(diagnosis: Diagnosis, verdicts: Iterable[Verdict]) -> Severity:
    """How severe a trouble is: that of the gravest of the ``verdicts`` that it rests on; what must not act is critical.

    >>> from monitor.core.windows import week, ZoneInfo
    >>> here = week("2026-W46", ZoneInfo("UTC"))
    >>> severity_of(Diagnosis("mail", "a", here, DiagnosisState.UNSAFE), [])
    'critical'
    """
    if diagnosis.state is DiagnosisState.UNSAFE:
        return "critical"
    found = [verdict.severity for verdict in verdicts if verdict.id in diagnosis.because]
    return min(found or ["warning"], key=SEVERITY_RANK.__getitem__)


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """A diagnosis as plain data, without its source, label and window, and without what says nothing."""
    usual = asdict(Diagnosis(diagnosis.source, diagnosis.label, diagnosis.window, diagnosis.state))
    kept = {name: value for name, value in asdict(diagnosis).items() if value != usual[name]}
    if "notes" in kept:
        kept["notes"] = {name: value for name, value in kept["notes"].items() if value != usual["notes"][name]}
    return {"state": diagnosis.state, **kept}


def from_json(source: str, label: str | None, window: Window, kept: Mapping[str, Any]) -> Diagnosis:
    """The diagnosis that :func:`as_json` wrote."""
    return _reader().validate_python({**kept, "source": source, "label": label, "window": window})


@cache
def _reader() -> TypeAdapter[Diagnosis]:
    return TypeAdapter(Diagnosis)
