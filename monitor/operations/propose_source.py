"""Proposes the shape of a table and the meaning of its columns, from names and values. Pure.

Each needed column is found by its name among the columns with fitting values; if none has a known name, the only
fitting column is taken. What is not recognised becomes a question, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from monitor.core.records import ROUNDING
from monitor.core.wording import and_more
from monitor.warehouse.checks import NO_LABELS, find
from monitor.warehouse.dates import PATTERNS, Numbers, fits, form_of, is_iso
from monitor.warehouse.dialects import NUMERIC
from monitor.warehouse.survey import ColumnSample

_TRUE = ("true", "actual", "final", "correct", "gold", "human")
_SORTS = ("label", "class", "category", "intent", "topic")
NAMES: Mapping[str, tuple[str, ...]] = {
    "item": (
        "item", "item_id", "ticket_id", "ticket", "message_id", "email_id", "mail_id", "case_id", "conversation_id",
        "document_id", "request_id", "uuid", "id", "key",
    ),
    "resolved_at": (
        "resolved_at", "closed_at", "reviewed_at", "labelled_at", "labeled_at", "annotated_at", "resolved", "closed",
        "corrected_at", "completed_at", "resolution_date", "updated_at", "date", "timestamp", "datum", "day", "ts",
        "time", "created_at", "created",  # from updated_at on, any date may be called so: see _OF_ANY_DATE
    ),
    "score": (
        "score", "confidence", "probability", "prob", "proba", "confidence_score", "model_confidence", "certainty",
        "conf", "pct", "percent", "percentage", "confidence_pct", "score_pct", "konfidenz", "p",
    ),
    "predicted_label": (
        "predicted_label", "prediction", "predicted_class", "predicted_category", "pred_label", "label_pred", "y_pred",
        "predicted", "pred", "model_label", "suggested_label", "predicted_intent", "intent", "label", "class", "topic",
    ),
    "true_label": (
        "true_label", "actual_label", "ground_truth", "gold_label", "gold", "correct_label", "final_label",
        "human_label", "label_true", "y_true", "truth", "true_class", "true_category", "true_intent",
        "final_category", "actual_category", "resolution", "resolution_category", "category", "actual",
        "target", *(f"{true}_{sort}" for true in _TRUE for sort in _SORTS),
    ),
    "actual": (
        "actual", "is_correct", "correct", "was_correct", "was_right", "outcome", "truth", "is_true", "y_true", "y",
        "hit", "target", "agreed", "accepted", "verdict", "feedback",
    ),
    "model_version": ("model_version", "model", "version"),
    "predicted_at": (
        "predicted_at", "scored_at", "classified_at", "received_at", "opened_at", "opened", "sent_at", "created_at",
        "created", "eingang",
    ),
}  # fmt: skip
OURS = frozenset({*NAMES, "label", "confidence", "predicted"})
"""The canonical names of columns."""
NAMED = ("item", "label", "score", "true_label", "actual", "resolved_at", "predicted_at", "model_version")
"""The canonical names of columns that a person may name; predicted_label is a label, and confidence a score."""
READ_BY_NAME: Mapping[str, str] = {
    "weight": "each row counts as often as its weight says, 1 / the share of such rows that people check",
    "cluster": "rows of one cluster, such as a thread or an incident, are not independent, so they are less evidence",
}
"""Columns that a source has if its relation has one of that name, and what each does."""
_OF_ANY_DATE = NAMES["resolved_at"][NAMES["resolved_at"].index("updated_at") :]
_OF_PREDICTIONS = NAMES["predicted_at"][: NAMES["predicted_at"].index("created_at")]
_CHANGES = ("updated_at", "corrected_at", "changed_at", "modified_at", "updated", "loaded_at", "inserted_at")
SEGMENTS = ("channel", "language", "lang", "region", "country", "queue", "team", "product")
YES = ("yes", "true", "y", "t", "ja", "correct", "right", "positive", "confirmed", "ok")
NO = ("no", "false", "n", "f", "nein", "incorrect", "wrong", "negative", "rejected")
_OF_SCORES = ("p", "prob", "proba", "probability", "score", "conf", "confidence", "pct")
_OF_TRUTHS = ("is", "true", "actual", "truth", "y", "label", "gold", "target")
_MOST_LABELS = 1_000
EACH_LABEL, LABELS_GIVEN = "one row for each item and label", "one row for each label that was given"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A source as written in alerts.yaml, without its relation; ``shape`` describes in words what was recognised."""

    shape: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """What all rows of a table show, and a sample may not.

    ``repeated``: items have several rows each. ``given``: each row is a label that was given, none a label that was
    only scored. ``waiting``: some rows have no truth yet.
    """

    repeated: bool = False
    given: bool = False
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Unclear:
    """What was not recognised: the canonical name of the ``missing`` column, and the columns that it could be."""

    missing: str
    question: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Column:
    """One column, and what its sampled values look like."""

    sample: ColumnSample
    date_format: str | None = None

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for value in self.sample.values if (text := str(value).strip()))

    @property
    def name(self) -> str:
        return self.sample.name

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """All values as numbers; empty if more than one value in fifty is not a number."""
        if self.sample.kind in ("boolean", "timestamp", "timestamptz", "date"):
            return ()
        read = [_number(text) for text in self.texts]
        found = tuple(number for number in read if number is not None)
        return found if len(found) >= 0.98 * len(read) else ()

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(self.texts)

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """How dates are written, most likely first; "" for dates and ISO texts; empty if the values are no dates."""
        if self.sample.kind in ("timestamp", "timestamptz", "date"):
            return ("",)
        if not self.texts or self.sample.kind in NUMERIC or self.numbers:
            return ()
        few = self.texts[:200]
        if sum(map(is_iso, few)) >= 0.9 * len(few):
            return ("",)
        patterns = (self.date_format,) if self.date_format is not None else PATTERNS
        return tuple(pattern for pattern in patterns if all(fits(text, pattern) for text in few))

    @cached_property
    def numbered(self) -> Numbers | None:
        """The form in which all values are dates as numbers; None if they are none."""
        forms = {form_of(text) for text in self.texts[:200]} if self.numbers else set()
        form = forms.pop() if len(forms) == 1 else None
        return form if isinstance(form, Numbers) else None

    @property
    def is_empty(self) -> bool:
        return not self.texts

    @property
    def is_share(self) -> bool:
        """Whether at most one value in fifty is outside the range of scores, 0 to 1 or 0 to 100 percent."""
        inside = [-ROUNDING <= number <= 100 + ROUNDING for number in self.numbers]
        return bool(inside) and sum(inside) >= 0.98 * len(inside)

    @property
    def odd_share(self) -> str:
        """The name, and the first value that is no score."""
        read = ((text, _number(text)) for text in self.texts)
        odd = (text for text, number in read if number is None or not 0 <= number <= 100)
        return f"{self.name} has values like {next(odd, self.texts[0])}"

    @property
    def is_percent(self) -> bool:
        """Whether most numbers are above 1, and some are far above what a score in [0, 1] may be by mistake."""
        return self.above > len(self.numbers) / 2 and max(self.numbers) > 10

    @property
    def above(self) -> int:
        """How many numbers are above 1, but for rounding."""
        return sum(number > 1 + ROUNDING for number in self.numbers)

    @property
    def is_truth(self) -> bool:
        """Whether all values mean yes or no."""
        if self.sample.kind == "boolean":
            return True
        if self.numbers:
            return set(self.numbers) <= {0.0, 1.0}
        known = {word.lower() for word in self.words}
        return bool(known) and len(known) <= 4 and known <= {*YES, *NO} and bool(known & set(YES))

    @property
    def is_labels(self) -> bool:
        """Whether values repeat as the names of labels do."""
        few = len(self.words) <= min(_MOST_LABELS, max(2, len(self.texts) // 2))
        return bool(self.words) and few and not self.patterns and not self.is_truth

    @property
    def is_distinct(self) -> bool:
        return len(self.words) == len(self.texts) == self.sample.rows

    @property
    def is_mostly_distinct(self) -> bool:
        """Whether few values repeat, as an item does whose truth was corrected."""
        return bool(self.words) and len(self.texts) < 1.5 * len(self.words)


def propose(
    columns: Sequence[ColumnSample],
    given: Mapping[str, str],
    *,
    files: bool,
    seen: Seen | None = None,
    numbers: bool = False,
) -> Proposal | Unclear:
    """Propose how to read a table, or say what is unclear. With ``files`` columns may be given types.

    With ``numbers`` also those are that are text and hold scores: a CSV file, of which all is text, needs none.

    ``given`` maps canonical names to columns that a person named; its "date_format" is how dates are written.
    """
    found = [_Column(column, given.get("date_format")) for column in columns]
    named = {_SAME.get(name, name): given_name for name, given_name in given.items()}
    pattern = named.pop("date_format", None)
    names = tuple(column.name for column in found)
    unknown = [(ours, theirs) for ours, theirs in given.items() if ours != "date_format" and theirs not in names]
    if unknown:
        return Unclear(unknown[0][0], f"there is no column {unknown[0][1]}.", names)
    if not found or found[0].sample.rows == 0:
        return Unclear("rows", "there is no row, so nothing can be recognised")
    return _Table(found, named, files, pattern, seen or Seen(), numbers).proposal()


def read_by_name(columns: Sequence[ColumnSample]) -> Mapping[str, str]:
    """The columns that are read for their name alone, though alerts.yaml does not name them: theirs -> ours."""
    available = [(column.name, column.kind) for column in columns]
    found = {ours: find(ours, available) for ours in READ_BY_NAME}
    return {column.name: ours for ours, column in found.items() if column is not None}


def with_truth(predictions: Sequence[ColumnSample], truths: Sequence[ColumnSample]) -> list[ColumnSample]:
    """The columns of a table of predictions and of its table of truths, as if they were one table.

    A column of both is taken from the predictions, except the date when the truth became known.
    """
    of_predictions, of_truths = ({column.name: column for column in table} for table in (predictions, truths))
    dates = {name: column for name, column in of_truths.items() if plain_name(name) in NAMES["resolved_at"]}
    undated = {name: column for name, column in of_predictions.items() if not dates or not _Column(column).patterns}
    return [*{**of_truths, **undated, **dates}.values()]


def holds_dates(column: ColumnSample) -> bool:
    """Whether the column's values are dates, in any known format."""
    return bool(_Column(column).patterns)


_SAME = {"label": "predicted_label", "confidence": "score"}
_Roles = Mapping[str, _Column | None]
"""What each column is, by the canonical name."""


@dataclass(frozen=True)
class _Table:
    """The columns of one table, with what a person said about them."""

    columns: list[_Column]
    given: Mapping[str, str]
    files: bool
    pattern: str | None
    seen: Seen
    numbers: bool

    def proposal(self) -> Proposal | Unclear:
        dated = [c for c in self.columns if c.patterns and not c.is_empty]
        when = self._named("resolved_at", dated) or _known_later(dated)
        if when is None or self._may_be_another_date(when):
            return self._unclear("resolved_at", self._which_date(), self._dates())
        patterns = when.patterns if self.pattern is None else (self.pattern,)
        if len(patterns) > 1 and patterns[1].startswith("%m"):
            question = f"dates of {when.name} are like {when.texts[0]}: which form is that?"
            return Unclear("date_format", question, patterns[:2])
        item = self._item([c for c in self.columns if c is not when and not c.is_empty])
        if item is None:
            distinct = [c for c in self.columns if c.is_distinct]
            return self._unclear("item", "which column identifies the item?", distinct)
        begun = self._predicted_at(when)
        dates = {"resolved_at": patterns, "predicted_at": () if begun in (None, when) else begun.patterns}
        types = {name: forms[0] for name, forms in dates.items() if self.files and forms and forms[0]}
        more = {"unresolved": self.seen.waiting, "types": types}
        roles = {"item": item, "resolved_at": when, "predicted_at": begun}
        wide = self._wide()
        if wide is not None:
            return self._finished(f"one column a label ({and_more(wide[1], 5)})", roles, {**wide[0], **more})
        return self._rows(roles, item, when, more)

    def _predicted_at(self, when: _Column) -> _Column | None:
        """The date by which rows without a truth are counted, or the one that a person named.

        It is the date of the prediction where there is one; else the only date of a row.
        """
        if not self.seen.waiting:
            return self._named("predicted_at", (), only=False) if "predicted_at" in self.given else None
        dates = [c for c in self._dates() if c is not when and plain_name(c.name) not in _CHANGES]
        return self._named("predicted_at", dates) or when

    def _rows(self, roles: _Roles, item: _Column, when: _Column, more: Mapping[str, Any]) -> Proposal | Unclear:
        """The proposal for a table with one label a row."""
        rest = [c for c in self.columns if c not in (item, when)]
        score = self._named("score", [c for c in rest if c.is_share and not c.is_truth])
        if score is None:
            numbers = [c for c in rest if c.numbers]
            named = [c.odd_share for c in rest if plain_name(c.name) in NAMES["score"] and not c.is_empty]
            like = f" {named[0]}: a score lies between 0 and 1 (or 0 and 100)." if named else ""
            return self._unclear("score", f"which column is the score (the confidence)?{like}", numbers)
        others = [c for c in rest if c is not score]
        label, truth, actual = self._labels(others)
        if label is None:
            question = "which column has the label that the classifier gave?"
            return self._unclear("label", question, [c for c in others if c.is_labels])
        if truth is None and actual is None:
            question = "which column says what was true: a label (true_label), or yes and no (actual)?"
            return self._unclear("true_label", question, [c for c in others if c is not label])
        several = self.seen.repeated or not item.is_mostly_distinct or self._has_several(item, label, when)
        roles = {**roles, "true_label": truth, "actual": actual}
        scale = {"score_scale": 100 if score.is_percent else None}
        if self.seen.given or not several:
            latest = None if several or item.is_distinct else self._latest(item, when)
            roles |= {"predicted_label": label, "confidence": score}
            settings = {"kind": "single_label", "latest_by": latest}
            shape = LABELS_GIVEN if several else "one row an item"
        else:
            decided = [c for c in others if plain_name(c.name) in ("predicted", "is_predicted") and c.is_truth]
            roles |= {"label": label, "score": score, "predicted": next(iter(decided), None)}
            settings = {"kind": None if truth is None else "multiclass", "score_is": "probability_of_label"}
            shape = EACH_LABEL
        return self._finished(shape, roles, {**settings, **_words(actual), **scale, **more})

    def _labels(self, others: list[_Column]) -> tuple[_Column | None, _Column | None, _Column | None]:
        """The columns of the label, of the true label, and of "label was true"; at most one of the last two."""
        aside = (*SEGMENTS, *NAMES["model_version"])
        names = [c for c in others if c.is_labels and plain_name(c.name) not in aside]
        unknown = [c for c in others if c.is_empty and plain_name(c.name) != "actual"]  # no truth yet
        truth = None if "actual" in self.given else self._named("true_label", [*names, *unknown], only=False)
        labels = [c for c in names if c is not truth]
        later = _known_later(labels) if truth is None and "actual" not in self.given else None
        truth, labels = later or truth, [c for c in labels if c is not later]
        label = self._named("predicted_label", labels)
        if label is None and not labels and truth is not None:
            label, truth = truth, None  # one column of labels: it is the row's label, whatever its name
        if truth is None and label is not None and "actual" not in self.given:
            alike = [c for c in names if c is not label and c.words <= label.words and len(c.words) > 1]
            truth = alike[0] if len(alike) == 1 else None  # the same names in another column
        if truth is not None:
            return label, truth, None
        fitting = [c for c in others if c is not label and (c.is_truth or c.is_empty)]
        return label, None, self._named("actual", fitting, only=False)

    def _finished(self, shape: str, roles: _Roles, more: Mapping[str, Any]) -> Proposal:
        """The proposal of columns by their roles, with the settings that say something."""
        rest = [c for c in self.columns if c not in roles.values() and c.is_labels]
        roles = {**roles, "model_version": self._named("model_version", rest, only=False)}
        mapping = {name: column.name for name, column in roles.items() if column is not None}
        # the column of truths is always written, unless it is the one that the shape implies
        written_out = "actual" if more.get("kind") == "single_label" else "true_label"
        columns = {name: column for name, column in mapping.items() if name != column or name == written_out}
        columns |= dict(more.get("columns", {}))
        segments = [c.name for c in rest if plain_name(c.name) in SEGMENTS]
        types = {**more.get("types", {}), **self._text_scores(mapping, more.get("wide", {}).get("score", ""))}
        settings = {**more, "types": types, "columns": columns, "segments": segments}
        return Proposal(shape, {key: value for key, value in settings.items() if value})

    def _text_scores(self, mapping: Mapping[str, str], of_labels: str) -> dict[str, str]:
        """The types of columns of scores that are text, such as "0,93"; ``of_labels`` is their pattern, if any."""
        scores, (before, _, after) = {mapping.get("score"), mapping.get("confidence")}, of_labels.partition("{label}")
        return {
            c.name: "number"
            for c in self.columns
            if self.numbers and c.sample.kind == "text" and c.numbers
            and (c.name in scores or (of_labels and c.name.startswith(before) and c.name.endswith(after)))
        }  # fmt: skip

    def _may_be_another_date(self, when: _Column) -> bool:
        """Whether ``when`` has a name that any date may have, beside a date of which nothing is known.

        Of ``created`` and ``erledigt_am`` the second is when the truth became known, which its name does not say here.
        """
        if "resolved_at" in self.given or plain_name(when.name) not in _OF_ANY_DATE:
            return False
        known = {*NAMES["resolved_at"], *_OF_PREDICTIONS, *_CHANGES}
        others = [c for c in self._dates() if c is not when and not c.is_empty]
        return any(plain_name(c.name) not in known for c in others)

    def _which_date(self) -> str:
        """The question for the date; a column with the name of one, whose values are none, is said to be so."""
        question = "which column says when the truth became known?"
        named = [c for c in self.columns if plain_name(c.name) in NAMES["resolved_at"] and not c.is_empty]
        if self._dates() or not named:
            return question
        first = named[0]
        form = first.numbered
        if form is not None:
            return (
                f"{question} {first.name} is a number ({form.name}): make dates of it in a SELECT, and give --relation."
            )
        given = f", which do not fit {self.pattern}" if self.pattern is not None else ""
        remedy = "give --date-format" if self.files else "make dates of them in a SELECT, and give --relation"
        return f"{question} {first.name} has values like {first.texts[0]}{given}: if these are dates, {remedy}."

    def _dates(self) -> list[_Column]:
        return [c for c in self.columns if c.patterns]

    def _latest(self, item: _Column, when: _Column) -> str:
        """The column by which the latest row of an item is chosen: one that differs within all repeated items."""
        changed = [c for c in self._dates() if plain_name(c.name) in _CHANGES and c is not when]
        others = [c for c in self._dates() if c is not when and c not in changed]
        best = min((*changed, when, *others), key=lambda c: self._ties(item, c))  # the first of those that are equal
        return "resolved_at" if best is when else best.name

    def _has_several(self, item: _Column, label: _Column, when: _Column) -> bool:
        """Whether the rows of an item have different labels, and so are no corrections of each other.

        Where another date than that of the truth orders them, the item was scored again.
        """
        ordered = any(self._ties(item, each) == 0 for each in self._dates() if each is not when)
        return self._ties(item, label) == 0 < self._ties(item, item) and not ordered

    @staticmethod
    def _ties(item: _Column, by: _Column) -> int:
        """How many rows of the sample have the item and the date of another; 0 if some values are missing."""
        values = (item.sample.values, by.sample.values)
        if any(len(each) != item.sample.rows for each in values):
            return 0
        return item.sample.rows - len(set(zip(*values, strict=True)))

    def _item(self, fitting: list[_Column]) -> _Column | None:
        """The column of the item: by its name, else the only one with distinct values that are not measurements."""
        named = self._named("item", [c for c in fitting if not c.is_truth], only=False)
        if named is not None:
            return named
        whole = [c for c in fitting if c.is_distinct and not c.patterns and all(n.is_integer() for n in c.numbers)]
        return whole[0] if len(whole) == 1 else None

    def _wide(self) -> tuple[dict[str, Any], list[str]] | None:
        """The settings of a table with one column of scores a label, and its labels."""
        scores = self._groups(_OF_SCORES, lambda c: c.is_share)
        if scores is None or len(scores[1]) < 2:
            return None
        pattern, labels = scores
        found: dict[str, Any] = {"score_is": "probability_of_label", "wide": {"score": pattern}}
        of_scores = {pattern.replace("{label}", label) for label in labels}
        columns = [c for c in self.columns if c.name in of_scores]  # one label of an item, at least, is above 1%
        above, every = sum(c.above for c in columns), sum(len(c.numbers) for c in columns)
        found |= {"score_scale": 100} if above > 0.9 * every / len(columns) else {}
        truths = self._groups(_OF_TRUTHS, lambda c: c.is_truth and c.name not in of_scores, labels)
        if truths is not None and set(labels) <= set(truths[1]):
            found["wide"]["actual"] = truths[0]
            return found, labels
        named = self._named("true_label", [c for c in self.columns if c.is_labels and c.words & set(labels)])
        if named is None:
            return None
        found |= {"kind": "multiclass", "columns": {"true_label": named.name}}
        return found, labels

    def _groups(
        self, words: Sequence[str], fits: Callable[[_Column], bool], labels: Sequence[str] = ()
    ) -> tuple[str, list[str]] | None:
        """The pattern, such as ``p_{label}``, that most columns fit, and their labels; None if no column fits one."""
        best: tuple[str, list[str]] | None = None
        for form in (form for word in words for form in (f"{word}_{{label}}", f"{{label}}_{word}")):
            named = re.compile(form.replace("{label}", "(.+)"), re.IGNORECASE)
            members = [found[1] for c in self.columns if (found := named.fullmatch(c.name)) and fits(c)]
            members = [m for m in members if (m in labels if labels else m.lower() not in NO_LABELS)]
            if members and (best is None or len(members) > len(best[1])):
                best = form, members
        return best

    def _named(self, canonical: str, fitting: Sequence[_Column], *, only: bool = True) -> _Column | None:
        """The column that a person named, else the best-named fitting one, else, with ``only``, one that fits alone."""
        if canonical in self.given:
            return next(c for c in self.columns if c.name == self.given[canonical])
        free = [c for c in fitting if c.name not in self.given.values()]
        by_name = {plain_name(c.name): c for c in reversed(free)}
        known = next((by_name[name] for name in NAMES[canonical] if name in by_name), None)
        return free[0] if known is None and only and len(free) == 1 else known

    def _unclear(self, missing: str, question: str, fitting: Sequence[_Column]) -> Unclear:
        return Unclear(missing, question, tuple(c.name for c in fitting or self.columns))


def _known_later(columns: Sequence[_Column]) -> _Column | None:
    """Of several columns the only one that is empty in some rows, as what became known later is: a truth, its date."""
    gaps = [c for c in columns if len(c.texts) < c.sample.rows]
    return gaps[0] if len(gaps) == 1 < len(columns) else None


def _words(actual: _Column | None) -> dict[str, Any]:
    """The settings with the words for yes and no, if truths are text."""
    if actual is None or actual.numbers or actual.sample.kind == "boolean" or actual.is_empty:
        return {}
    words = sorted({word.lower() for word in actual.words})
    return {"positive": [word for word in words if word in YES], "negative": [word for word in words if word in NO]}


def plain_name(name: str) -> str:
    """A column's name in lower case with underscores.

    >>> plain_name("ticketId"), plain_name("Closed At"), plain_name("Score (%)")
    ('ticket_id', 'closed_at', 'score')
    """
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", split.lower()).strip("_")


def _number(text: str) -> float | None:
    """A number as people write it.

    >>> _number("0,87"), _number("97"), _number("97 %"), _number("n/a")
    (0.87, 97.0, 0.97, None)
    """
    plain = text.replace(",", ".") if "." not in text else text
    try:
        return float(plain.rstrip("% ")) / 100 if plain.endswith("%") else float(plain)
    except ValueError:
        return None
