"""What reports say of a window, as tables in a terminal, Markdown, a page and JSON; the trend; /metrics; a run's summary."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.truth.claims import Grammar, Reader, fixed, name_of, nothing, parsed, subject_of
from tests.truth.facts import Facts, Row, Switch, own_reason
from tests.truth.monitoring import window_start
from tests.truth.script import BASELINE_AUC, BASELINE_ECE
from tests.truth.sentences import NUMBER, PUT_BACK, VERDICT, WEEK, check_counts, check_label_state, fits_cause, state_of
from tests.truth.texts import Part, Table
from tests.truth.troubles import WHY

N = NUMBER
Key = tuple[str, str | None]
METRICS = {
    "ECE": ("ece", "all"), "MCE": ("mce", "all"), "ROC AUC": ("roc_auc", "all"),
    "overconfidence (automated)": ("overconfidence", "automated"), "Overconfidence": ("overconfidence", "automated"),
    "Brier score": ("brier", "all"), "log loss": ("nll", "all"), "PR AUC": ("pr_auc", "all"),
    "accuracy": ("accuracy", "all"), "missed": ("false_negative_rate", "all"),
    "expected accuracy": ("expected_accuracy", "all"), "expected accuracy (an estimate)": ("expected_accuracy", "all"),
    "expected ECE": ("expected_ece", "all"),
    "expected overconfidence (automated)": ("expected_overconfidence", "automated"),
}  # fmt: skip
_DAY = r"\d{1,2} [A-Z][a-z]{2} \d{4}"
_MOMENT = rf"{_DAY} \d\d:\d\d"
_CLAUSE = re.compile(
    r"(?=(?:critical|warning|info) breach: |(?:above|below) the limit, not confirmed: |not evaluated: |ok: |no rule$)"
)
REASONS = (
    "within_threshold", "not_significant_in_family", "streak_incomplete", "increased", "traffic_mix", "class_mix",
    "above_threshold",
    "below_threshold", "distribution_shifted", "no_baseline", "settings_changed", "in_baseline", "too_few_rows", "scores_moved",
    "no_rows", "rejected_rows", "not_mature", "unresolved_failed", "relation_error", "warehouse_failed",
)  # fmt: skip


def moment(text: str) -> datetime:
    """``24 Mar 2026 04:05`` in UTC, to the end of its minute: what was stored in that minute counts."""
    return datetime.strptime(text, "%d %b %Y %H:%M").replace(tzinfo=UTC) + timedelta(seconds=59)


@dataclass
class Week:
    """The window of a report with its facts."""

    facts: Facts
    name: str
    schedule: str = "weekly"
    subject: Key | None = None
    trends: list[tuple[Key, str, str]] = field(default_factory=list)

    @property
    def verdicts(self) -> list[Row]:
        return self.facts.current(self.schedule, self.name)

    def of(self, key: Key) -> list[Row]:
        """The verdicts of one label in this window."""
        return [v for v in self.verdicts if (v["source"], v["label"] or None) == key]

    @property
    def keys(self) -> set[Key]:
        """Who has a number or a verdict in this window."""
        found = {(v["source"], v["label"] or None) for v in self.verdicts}
        return found | {(e[2], e[3]) for e in self.facts._estimates if e[:2] == (self.schedule, self.name)}

    def labels(self) -> dict[Key, list[Row]]:
        """The labels of this window with their verdicts."""
        return {key: self.of(key) for key in self.keys if key[1] is not None}

    @property
    def run(self) -> Row | None:
        mine = [r for r in self.facts.runs if (r["schedule"], r["window_name"]) == (self.schedule, self.name)]
        return mine[0] if mine else None

    def value(self, key: Key, metric: str, where: str, part: str = "value") -> float | None:
        row = self.facts.estimate(self.schedule, self.name, *key, metric, where)
        return None if row is None else row[part]

    def rows(self, key: Key) -> int:
        """The most rows of any estimate over all rows."""
        return max(
            (
                r["n"]
                for k, r in self.facts._estimates.items()
                if k[:4] == (self.schedule, self.name, *key) and k[5] == "all"
            ),
            default=0,
        )

    def change(self, key: Key) -> float | None:
        """The change of the ECE that a rule has judged."""
        return next((v["change"] for v in self.of(key) if v["metric"] == "ece" and v["change"] is not None), None)

    def level(self, key: Key) -> str:
        """The handbook's level of the numbers: a band, no verdict."""
        ece, auc, mce = (self.value(key, m, "all") for m in ("ece", "roc_auc", "mce"))
        judged = any(v["outcome"] != "not_evaluated" for v in self.of(key))
        if not judged or (ece is None and auc is None and mce is None):
            return "grey"
        if (ece or 0) > 0.15 or (auc is not None and auc < 0.75) or (mce or 0) > 0.2:
            return "red"
        if None not in (ece, auc, mce) and ece <= 0.05 and auc >= 0.8 and mce <= 0.15:  # type: ignore[operator]
            return "green"
        return "amber"


# --- pieces that several formats share


def check_state(reader: Reader, text: str, week: Week, key: Key) -> None:
    """The state of a label, in clauses."""
    plain = " ".join(text.split())
    for reason in REASONS:
        plain = plain.replace(f"({reason.replace('_', ' ')})", f"({reason})")
        plain = re.sub(rf"(?<=[:,] ){reason.replace('_', ' ')}(?= \()", reason, plain)
    clauses = [part.strip(" ;") for part in _CLAUSE.split(plain) if part.strip()]
    check_label_state(reader, "; ".join(clauses), week.of(key))


SWITCHED = Grammar("switch in a report")


@SWITCHED.add(
    rf"(?P<off>off)(?: \((?P<why>never set|lease ended|the whole source is off|{PUT_BACK})\))?|(?P<on>on)(?: but (?P<ranges>.+))?|–"
)
def _switched(reader: Reader, text: str, of: Any, off: Any, why: Any, on: Any, ranges: Any) -> None:
    (source, label), at = key, _ = of
    true = reader.facts.why_off(source, label, at)
    if text == "–":
        reader.check(reader.facts.switch(source, label, at).state == "never_set", "automation", text, true)
        return
    reader.check((on is not None) == (true is None), "automation", f"{text} ({key}, {at or 'now'})", true or "on")
    own = reader.facts.switch(source, label, at)
    known = {
        "never set": own.state == "never_set", "lease ended": true in ("lease", "source", "source closed"),
        "the whole source is off": true in ("source", "source closed"), PUT_BACK: true == "history", None: True,
    }  # fmt: skip
    reader.check(known[why], "why off", text, true)
    reader.equal("history that is not confirmed", text, why == PUT_BACK, true == "history")
    if on is not None:
        off = own.off(at or reader.facts.now)
        has = bool(own.blocked or reader.facts.switch(source, None, at).blocked or off)
        reader.check(bool(ranges) == has, "blocked scores", text, own.blocked)
        reader.check(all(part in (ranges or "") for part in off), "segments off", text, off)


def check_switched(reader: Reader, text: str, key: Key, at: datetime | None) -> None:
    """``off``, ``on but 0.60 to 0.70``, ``off (lease ended)``, as of a time (None: now)."""
    told, put_back = " ".join(text.split()), f"off ({PUT_BACK})"
    in_lines = told.replace(" ", "") == put_back.replace(" ", "")  # a narrow column breaks long words
    SWITCHED.read(reader, put_back if in_lines else told, (key, at))


_HEADLINE = re.compile(
    r"(?P<counts>.+?)(?P<wholes>(?:; [\w-]+ as a whole: .+?)*?)"
    rf"(?:; automation off for (?P<off>[\d,]+) of (?P<all>[\d,]+) labels? (?P<when>now|at the run) \((?P<at>{_MOMENT})\))?\."
)


_NO_RESULT = re.compile(
    rf"(?P<source>[\w-]+?)(?P<unknown>, which alerts\.yaml does not have,)? has no result of (?P<window>{WEEK}); "
    rf"(?:its newest result is of (?P<newest>{WEEK})|it has none of any other week); {WEEK} has "
    r"(?:results of (?P<others>[\w, -]+)|no result of any source)\."
)


def _no_result(
    reader: Reader, text: str, week: Week, source: str, unknown: Any, window: str, newest: Any, others: Any
) -> None:
    """A source without a result: its newest window, and who has results of this one."""
    reader.equal("window", text, window, week.name)
    having = {key[0] for key in week.keys}
    reader.check(source not in having, "no result of a source", text, having)
    reader.equal("who has results", text, set((others or "").split(", ")) - {""}, having)
    mine = [
        v["window_name"] for v in reader.facts.verdicts.values() if (v["source"], v["schedule"]) == (source, "weekly")
    ]
    mine += [e[1] for e in reader.facts._estimates if (e[0], e[2]) == ("weekly", source)]
    reader.equal("newest result", text, newest, max(mine, default=None))
    reader.check(not unknown, "in alerts.yaml", text, "no story takes a source out of it")


def check_headline(reader: Reader, text: str, week: Week) -> datetime | None:
    """The window in one sentence; gives the time of the switch that it is of."""
    found = _HEADLINE.fullmatch(" ".join(text.split()))
    if found is None:
        reader.unknown(f"headline: {text}")
        return None
    nothing = _NO_RESULT.match(" ".join(text.split()))
    if nothing is not None:
        _no_result(reader, text, week, **nothing.groupdict())
    elif found["counts"] == "Nothing of this window is in the history":
        reader.check(not week.keys, "nothing of the window", text, week.keys)
    else:
        check_counts(reader, found["counts"], week.labels())
    for source, words in re.findall(r"; ([\w-]+) as a whole: (.+?)(?=; [\w-]+ as a whole: |$)", found["wholes"]):
        check_state(reader, re.sub(r", level \w+$", "", words), week, (source, None))
    if found["at"] is None:
        return None
    at = moment(found["at"])
    _of_run(reader, text, week, found["when"], at)
    check_off_count(reader, text, week, int(found["off"].replace(",", "")), int(found["all"].replace(",", "")), at)
    return at


def _of_run(reader: Reader, text: str, week: Week, when: str, at: datetime) -> None:
    if when == "at the run":
        ended = None if week.run is None else (week.run["finished_at"] or week.run["started_at"])
        reader.check(ended is not None and ended <= at < ended + timedelta(minutes=1), "time of the run", text, ended)
    else:
        reader.check(abs(at - week.facts.now) < timedelta(minutes=1), "now", text, week.facts.now)


def check_off_count(reader: Reader, text: str, week: Week, off: int, of: int, at: datetime) -> None:
    """For how many labels automation was off at that time."""
    labels = list(week.labels())
    reader.equal("labels", text, of, len(labels))
    true = [key for key in labels if week.facts.why_off(*key, at) is not None]
    reader.check(off == len(true), "automation off for", text, true)


NOW = re.compile(rf"Automation now \((?P<at>{_MOMENT})\): off for (?P<off>[\d,]+) of (?P<all>[\d,]+) labels?\.")


def check_now(reader: Reader, text: str, week: Week) -> None:
    """The switches when the report was made."""
    found = NOW.fullmatch(text)
    if found is None:
        reader.unknown(f"automation now: {text}")
        return
    at = moment(found["at"])
    _of_run(reader, text, week, "now", at)
    check_off_count(reader, text, week, int(found["off"].replace(",", "")), int(found["all"].replace(",", "")), at)


def check_interval(reader: Reader, text: str, week: Week, key: Key, metric: str, where: str) -> None:
    """A value with its limits, in any of the forms in which they are shown."""
    row = week.facts.estimate(week.schedule, week.name, *key, metric, where)
    numbers = re.findall(r"(?<![\d.])[−+-]?\d[\d,]*\.?\d*", text.replace("–", " ") if re.search(r"\d–", text) else text)
    parts = ("value", "low", "high")
    if not numbers:
        reader.check(row is None or row["value"] is None, f"{metric} not known", text, row and row["value"])
        return
    for said, part in zip(numbers, parts, strict=False):
        reader.number(metric, f"{key}: {text}", said, None if row is None else row[part])


def check_change(reader: Reader, text: str, week: Week, key: Key) -> None:
    """The change of the ECE against the baseline, judged by a rule; without a rule only that it is a number."""
    first = re.match(r"[−+]?\d[\d.]*|–", text)
    judged = week.change(key)
    if first is None:
        reader.unknown(f"change: {text}")
    elif judged is not None:
        reader.number("change", f"{key}: {text}", first[0], judged)
    pooled = re.search(r"(\d+) weeks pooled(?:: ([\d.−]+))?", text)
    if pooled:
        rise = [v for v in week.of(key) if v["metric"] == "ece" and v["change"] is not None]
        reader.equal("windows pooled", text, int(pooled[1]), rise[0]["windows"] if rise else None)


def check_level(reader: Reader, text: str, week: Week, key: Key) -> None:
    reader.equal("level", f"{key}: {text}", text.split(":", maxsplit=1)[0].strip(), week.level(key))


# --- advice and its basis

#: What advice says -> the outcomes that its basis must have, and what else must hold.
_BREACH, _SILENT = ("breach",), ("not evaluated",)
ADVICE: tuple[tuple[str, tuple[str, ...], Callable[[Row], bool]], ...] = (
    (r"let people decide these items", _BREACH, lambda v: "disable_automation" in v["actions"]),
    (r"let people decide these scores.*", _BREACH, lambda v: "block_scores" in v["actions"]),
    (r"search recent items for missed ones.*", _BREACH, lambda v: v["metric"] == "false_negative_rate"),
    (r"retrain.*", _BREACH, lambda v: True),
    (r"recalibrate.*", _BREACH, lambda v: v["metric"] in ("ece", "mce", "overconfidence")),
    (r"find out what changed since the baseline.*", _BREACH, lambda v: v["reason"] in ("increased", "decreased")),
    (r"compare the model versions.*|find the segment that grew.*", _BREACH, lambda v: v["reason"] == "traffic_mix"),
    (r"check whether the share of true items is.*", _BREACH, lambda v: v["reason"] == "class_mix"),
    (r"check whether ECE or overconfidence moved too.*", _BREACH, lambda v: v["reason"] == "distribution_shifted"),
    (r"read some of the wrong items.*", _BREACH, lambda v: True),
    (r"treat it as a breach until you know why.*", _SILENT, lambda v: v["reason"] == "scores_moved"),
    (r"fix the rejected rows.*", _SILENT, lambda v: v["reason"] == "rejected_rows"),
    (r"run `?calmon check`?, then the window again", _SILENT, lambda v: v["reason"] in ("relation_error", "warehouse_failed")),
    (r"look at the notes, which say what could not be read and why.*", _SILENT, lambda v: v["reason"] == "unresolved_failed"),
    (r"check that outcomes of this label reach.*", _SILENT, lambda v: v["reason"] == "no_rows"),
    (r"no item is of this rule's rows.*", _SILENT, lambda v: v["reason"] == "no_rows"),
    (r"pin a baseline.*", _SILENT, lambda v: v["reason"] in ("no_baseline", "settings_changed")),
    (r"wait for the next window", ("unconfirmed", "above the limit, not confirmed", "below the limit, not confirmed"), lambda v: True),
    (r"wait for more rows.*", _SILENT, lambda v: v["reason"] == "too_few_rows"),
    (r"wait: too few truths are known yet", _SILENT, lambda v: v["reason"] == "not_mature"),
    (r"nothing to do: this window is part of the baseline", _SILENT, lambda v: v["reason"] == "in_baseline"),
)  # fmt: skip


def check_advice(reader: Reader, text: str, sentence: str, basis: str, week: Week, key: Key) -> None:
    """What to do follows from the verdicts that it names."""
    mine = {v["rule"]: v for v in week.of(key)}
    words = sentence[:1].lower() + sentence[1:]
    if re.fullmatch(r"nothing to do", words):
        reader.check(
            all(v["outcome"] == "ok" for v in mine.values()), "nothing to do", text, state_of(list(mine.values()))
        )
        check_state(reader, basis, week, key)
        return
    entry = next((each for each in ADVICE if re.fullmatch(each[0], words)), None)
    named = re.findall(r"([\w-]+): (breach|not evaluated|unconfirmed|(?:above|below) the limit, not confirmed)", basis)
    if entry is None or not named:
        reader.unknown(f"advice: {text}")
        return
    for rule, outcome in named:
        verdict = mine.get(rule)
        said = {"not evaluated": "not_evaluated"}.get(outcome, "unconfirmed" if "not confirmed" in outcome else outcome)
        reader.check(
            verdict is not None and verdict["outcome"] == said, "basis of advice", text, verdict and verdict["outcome"]
        )
        reader.check(outcome in entry[1], "advice against a verdict", text, outcome)
        if verdict is not None:
            reader.check(entry[2](verdict), "advice of another rule", text, (verdict["rule"], verdict["reason"]))


BANDS = Grammar("band of the handbook")


def _estimate(week: Week, key: Key, metric: str) -> float:
    found = week.value(key, metric, "all")
    return float("nan") if found is None else found


@BANDS.add(
    rf"(?P<conditions>(?:ROC AUC|ECE|MCE) (?:above|below|at most|at least) .+?)(?:: the band of .+|: well calibrated|, in scores (?P<low>{N}) to (?P<high>{N}))?"
)
def _band(reader: Reader, text: str, of: Any, conditions: str, low: Any, high: Any) -> None:
    week, key = of
    if "on the last two days" in text:
        return
    metric = "ece"
    for part in re.split(r", | and ", conditions):
        found = re.fullmatch(
            rf"(?:(?P<name>ROC AUC|ECE|MCE) )?(?P<way>above|below|at most|at least) (?P<limit>{N})", part
        )
        if found is None:
            reader.unknown(f"band: {text}")
            return
        metric = {"ROC AUC": "roc_auc", "ECE": "ece", "MCE": "mce", None: metric}[found["name"]]
        value, limit = _estimate(week, key, metric), parsed(found["limit"])
        assert limit is not None
        holds = {"above": value > limit, "below": value < limit, "at most": value <= limit, "at least": value >= limit}
        reader.check(holds[found["way"]], "band", f"{key}: {text}", f"{metric} {value}")


@BANDS.add(rf"(?P<name>ECE|MCE) more than (?P<by>{N}) above the baseline")
def _above_baseline(reader: Reader, text: str, of: Any, name: str, by: str) -> None:
    week, key = of
    change = week.change(key) if name == "ECE" else None
    if change is not None:
        reader.check(change > float(by), "band", f"{key}: {text}", change)


@BANDS.add(rf"fewer than 10,000 pairs over all labels of this evaluation: (?P<pairs>{N})")
def _few_pairs(reader: Reader, text: str, of: Any, pairs: str) -> None:
    week, key = of
    labels = sum(week.rows(each) for each in week.keys if each[0] == key[0] and each[1] is not None)
    said = int(pairs.replace(",", ""))
    reader.check(said in (labels, week.rows((key[0], None))) and said < 10_000, "pairs", text, labels)


BANDS.add(r"the target accuracy is shown from a score on.*|–|no number.*")(nothing)


# --- tables


def _key_of(cell: str, known: Iterable[Key]) -> Key | None:
    """The label of a cell: ``tickets/billing``, or ``billing | tickets | , 3,397 rows`` of a page."""
    text = " ".join(cell.split())
    parts = [part.strip() for part in text.split(" | ")]
    for source, label in known:
        name = f"{source}/{label}" if label else f"{source} (all labels)"
        if text == name or parts[:2] == [label or "all labels", source]:
            return source, label
    return None


@dataclass
class Tables:
    """The tables of a report of one window."""

    reader: Reader
    week: Week
    at: datetime | None = None
    seen: Counter[str] = field(default_factory=Counter)
    drawn: tuple[str, str] | None = None

    def check(self, table: Table) -> None:
        """By what its columns are."""
        head = tuple(" ".join(name.split()).lower() for name in table.head)
        for columns, method in _KINDS:
            if head[: len(columns)] == columns:
                self.seen[method] += 1
                getattr(self, method)(table, head)
                return
        self.reader.unknown(f"table {table.title!r} with columns {table.head}")

    def _key(self, cell: str) -> Key | None:
        key = _key_of(cell, self.week.keys)
        self.reader.check(key is not None, "label", cell, "is not in this window")
        return key

    def labels(self, table: Table, head: tuple[str, ...]) -> None:
        """State, numbers, switch and level of every label."""
        said = {_key_of(row[1], self.week.keys) for row in table.rows}
        self.reader.equal("labels of the window", table.title, said, self.week.keys)
        for row in table.rows:
            key = self._key(row[1])
            if key is not None:
                for name, cell in zip(head, row, strict=True):
                    self._label_cell(name, cell, key)

    def _label_cell(self, name: str, cell: str, key: Key) -> None:
        plain = " ".join(cell.split())
        if name == "state":
            check_state(self.reader, plain.replace(" | :", ":").replace(" | ", " "), self.week, key)
        elif name in ("ece", "mce", "roc auc") or name.startswith("overconfidence"):
            metric, where = {"ece": METRICS["ECE"], "mce": METRICS["MCE"], "roc auc": METRICS["ROC AUC"]}.get(
                name, ("overconfidence", "automated")
            )
            check_interval(self.reader, plain, self.week, key, metric, where)
        elif name == "change":
            check_change(self.reader, plain, self.week, key)
        elif name == "level":
            check_level(self.reader, plain, self.week, key)
        elif name == "rows":
            self.reader.number("rows", plain, plain, self.week.rows(key))
        elif name in ("acts", "automation") or name.startswith("automation"):
            self._switch_cell(name, plain, key)
        elif name == "trend":
            self.reader.claims["trend"] += 1
        elif name != "label":
            self.reader.unknown(f"column {name}")

    def _switch_cell(self, name: str, text: str, key: Key) -> None:
        then, _, now = text.replace(" | now ", " now ").partition(" now ")
        at = None if name.endswith(" now") else self.at
        check_switched(self.reader, then, key, at)
        if now:
            check_switched(self.reader, now, key, None)

    def verdicts(self, table: Table, head: tuple[str, ...]) -> None:
        """Every verdict with its numbers, found by its id."""
        for row in table.rows:
            text = " | ".join(row)
            id = re.search(r"[0-9a-f]{8,16}(?=$|\s)", row[1] if "\n" in row[1] else row[-1])
            if id is None:
                self.reader.unknown(f"verdict: {text}")
                continue
            verdict = self.reader.facts.verdict(id[0])
            for name, cell in zip(head, row, strict=True):
                self._verdict_cell(name, cell, verdict, text)

    def _verdict_cell(self, name: str, cell: str, row: Row, text: str) -> None:
        reader, first = self.reader, cell.split("\n", maxsplit=1)[0].split(" | ", maxsplit=1)[0]
        numbers = {"value": "value", "baseline": "baseline", "threshold": "threshold", "limit": "threshold", "n": "n",
                   "detectable": "detectable", "change": "change"}  # fmt: skip
        if name == "rule":
            reader.equal("rule", text, first, row["rule"])
            below = cell.partition("\n")[2]
            if below:
                reader.equal("reason", text, below.replace(" ", "_"), row["reason"])
        elif name == "label":
            shown = " ".join(re.sub(r"\n[0-9a-f]{8,}.*$", "", cell, flags=re.DOTALL).split())
            reader.equal("label", text, shown, name_of(row))
        elif name in numbers:
            reader.number(name, text, first, row[numbers[name]])
        elif name in ("p", "p adjusted"):
            if first == "<0.0001":
                reader.check(row["p_adjusted"] < 0.0001, "p", text, row["p_adjusted"])
            else:
                reader.number("p", text, first, row["p_adjusted"])
        elif name in ("outcome", "reason"):
            said = re.sub(r"(?:above|below) the limit, not confirmed", "unconfirmed", first).replace(" ", "_")
            reader.equal(name, text, said, row[name])
        pooled = re.search(r"(\d+) (?:weeks|days|windows)(?: pooled)?", cell)
        if pooled and name in ("value", "n"):
            reader.equal("windows", text, int(pooled[1]), row["windows"])

    def advice(self, table: Table, head: tuple[str, ...]) -> None:
        """What to do, each with the verdicts it comes from."""
        key: Key | None = None
        for row in table.rows:
            key = self._key(row[0]) if row[0] else key
            if key is not None:
                check_advice(self.reader, " | ".join(row), row[2], row[3], self.week, key)

    def levels(self, table: Table, head: tuple[str, ...]) -> None:
        for row in table.rows:
            key = self._key(row[0])
            if key is None:
                continue
            check_level(self.reader, row[1], self.week, key)
            for band in row[2].split("; "):
                BANDS.read(self.reader, band, (self.week, key))

    def measures(self, table: Table, head: tuple[str, ...]) -> None:
        """Metrics with their intervals, a line a label."""
        for row in table.rows:
            key = self._key(row[0])
            for name, cell in zip(table.head, row, strict=True):
                if key is not None and name in METRICS:
                    check_interval(self.reader, cell, self.week, key, *METRICS[name])
                elif key is not None and name == "waiting":
                    found = self.week.facts.estimate(
                        self.week.schedule, self.week.name, *key, "expected_accuracy", "all"
                    )
                    self.reader.number("waiting rows", cell, cell, None if found is None else found["n"])
                elif key is not None and name == "rows":
                    self.reader.number("rows", cell, cell, self.week.rows(key))

    def metrics(self, table: Table, head: tuple[str, ...]) -> None:
        """All metrics of the label whose section it is."""
        for row in table.rows:
            if self.week.subject is not None and row[0] in METRICS:
                check_interval(self.reader, f"{row[1]} {row[2]}", self.week, self.week.subject, *METRICS[row[0]])

    def windows(self, table: Table, head: tuple[str, ...]) -> None:
        """The ECE window by window, and where a rule on it was in breach."""
        key = self.week.subject
        if key is None:
            self.reader.unknown(f"table {table.title}")
            return
        for row in table.rows:
            other = Week(self.week.facts, row[0])
            check_interval(self.reader, f"{row[1]} {row[2]}", other, key, "ece", "all")
            breach = any(v["outcome"] == "breach" and v["metric"] == "ece" for v in other.of(key))
            self.reader.equal("breach", f"{key} {row}", bool(row[4]), breach)

    def set_aside(self, table: Table, head: tuple[str, ...]) -> None:
        start = window_start(self.week.name).replace(tzinfo=UTC)
        for row in table.rows:
            mine = [
                q["rows"] for q in self.reader.facts.quality
                if (q["schedule"], q["window_start"], q["source"]) == (self.week.schedule, start, row[0])
                and q["reason"] == row[1].replace(" ", "_")
            ]  # fmt: skip
            self.reader.number("rejected rows", " | ".join(row), row[2], mine[0] if mine else None)

    def switches(self, table: Table, head: tuple[str, ...]) -> None:
        """The switches, first as of the run, then now."""
        at = self.at if self.seen["switches"] == 1 else None
        for row in table.rows:
            key = self._key(row[0])
            if key is None:
                continue
            check_switched(self.reader, row[1], key, at)
            self._switch_row(row, self._made_so(row[1], key, at))

    def _made_so(self, words: str, key: Key, at: datetime | None) -> Switch:
        """The switch with who made it so, when and why: of a label under a source that is off, the source's."""
        mine, whole = self.reader.facts.switch(*key, at), self.reader.facts.switch(key[0], None, at)
        if "lease ended" in words:
            return replace(mine, since=mine.lease, by="", why="")
        if PUT_BACK in words:
            return replace(mine, since=None, by="", why="")
        if "whole source" not in words:
            return mine
        told = whole if whole.state == "off" else Switch()
        return replace(mine, since=told.since, by=told.by, why=told.why)

    def _switch_row(self, row: tuple[str, ...], mine: Switch) -> None:
        text = " | ".join(row)
        for cell, true in ((row[2], mine.lease), (row[3], mine.since)):
            said = None if cell == "–" else moment(cell).replace(second=0)
            plain = None if true is None else true.replace(second=0, microsecond=0)
            self.reader.equal("time of the switch", text, said, plain)
        self.reader.equal("by whom", text, row[4], mine.by or "–")
        self.reader.equal("why", text, own_reason(row[5]), mine.why or "–")

    def trend(self, table: Table, head: tuple[str, ...]) -> None:
        """The trend: first, last, change, interval, n, and what the rules say of the newest window."""
        self.reader.claims["table"] += 1


_KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("state", "label"), "labels"),
    (("rule", "label", "value"), "verdicts"),
    (("rule", "outcome", "reason"), "verdicts"),
    (("label", "reason", "what to do", "because"), "advice"),
    (("label", "level", "bands"), "levels"),
    (("label", "rows", "ece"), "measures"),
    (("label", "rows", "roc auc"), "measures"),
    (("label", "waiting", "known"), "measures"),
    (("metric", "value", "interval"), "metrics"),
    (("window", "ece"), "windows"),
    (("source", "reason", "rows"), "set_aside"),
    (("label", "state", "lease until"), "switches"),
)


# --- lines

LINES = Grammar("line of a report")
NO_RESULT = r"[\w-]+(?:, which alerts\.yaml does not have,)? has no result of .+\."
NOTHING = r"Nothing of this window is in the history(?:; automation off for [^;]+)?\."


@LINES.add(rf"(?:# )?(?:{_DAY}(?: to {_DAY})?) \(UTC\)(?:\. (?P<rest>.+))?")
def _span(reader: Reader, text: str, of: Tables, rest: Any) -> None:
    start = window_start(of.week.name)
    end = start + timedelta(days=6 if of.week.schedule == "weekly" else 0)
    true = f"{start.day} {start:%b %Y} to {end.day} {end:%b %Y} (UTC)"
    reader.check(text.startswith(true), "days of the window", text, true)
    if rest:
        told = re.fullmatch(r"(?P<headline>.+?\.)(?: (?P<now>Automation now .+))?", rest)
        assert told is not None
        LINES.read(reader, told["headline"], of)
        if told["now"]:
            check_now(reader, told["now"], of.week)


@LINES.add(rf"(?:(?P<window>{WEEK}): )?(?P<headline>{NOTHING}|{NO_RESULT}|[\d,]+ of [\d,]+ labels? in breach.*\.)")
def _headline(reader: Reader, text: str, of: Tables, window: Any, headline: str) -> None:
    of.at = check_headline(reader, headline, of.week) or of.at


@LINES.add(rf"automation: (?P<when>now|at the run) \((?P<at>{_MOMENT})\)\.(?: (?P<now>.+))?")
def _automation(reader: Reader, text: str, of: Tables, when: str, at: str, now: Any) -> None:
    of.at = moment(at)
    _of_run(reader, text, of.week, when, of.at)
    if now:
        check_now(reader, now, of.week)


@LINES.add(r"(?P<now>Automation now \(.+)")
def _now(reader: Reader, text: str, of: Tables, now: str) -> None:
    check_now(reader, now, of.week)


@LINES.add(r"trend: ECE of the last \d+ (?:weeks|days|week|day), one scale for all labels, .+")
def _scale(reader: Reader, text: str, of: Tables) -> None:
    reader.claims["scale"] += 1


@LINES.add(r"(?:note: |- )?(?P<source>[\w-]+), model versions in this window: (?P<versions>.+)\.")
def _versions(reader: Reader, text: str, of: Tables, source: str, versions: str) -> None:
    said = {name: int(rows.replace(",", "")) for name, rows in re.findall(r"(\w+) \(([\d,]+) rows?\)", versions)}
    start = window_start(of.week.name).replace(tzinfo=UTC)
    mine = [
        r
        for r in reader.facts.readings
        if (r["schedule"], r["window_start"], r["source"]) == (of.week.schedule, start, source)
    ]
    reader.equal("model versions", text, said, mine[0]["versions"] if mine else None)


@LINES.add(
    rf"(?:note: |- )?estimates of segments and further metrics of (?P<window>{WEEK}) were removed since they are old"
)
def _details_removed(reader: Reader, text: str, of: Tables, window: str) -> None:
    start = window_start(window).replace(tzinfo=UTC)
    kept = reader.facts.rows("SELECT * FROM estimates WHERE segment != ''")
    left = [row for row in kept if str(row["window_start"])[:10] == f"{start:%Y-%m-%d}"]
    reader.equal("estimates of segments that were removed", text, 0, len(left))


@LINES.add(
    rf"(?:note: |- )?the counts of (?P<source>[\w-]+) in (?P<window>{WEEK}) were removed since they are old: "
    "no curves and no tables by score"
)
def _counts_removed(reader: Reader, text: str, of: Tables, source: str, window: str) -> None:
    start = window_start(window).replace(tzinfo=UTC)
    kept = reader.facts.rows("SELECT window_start, source FROM counts WHERE data IS NOT NULL")
    left = [row for row in kept if (str(row["window_start"])[:10], row["source"]) == (f"{start:%Y-%m-%d}", source)]
    reader.equal("counts that were removed", text, 0, len(left))


_PARTS = {
    "when the truths of its items came": "delays_failed", "the items whose truth is not known yet": "unresolved_failed",
}  # fmt: skip
NOT_READ = (
    rf"(?P<source>[\w-]+) was judged on its counts, but (?P<what>{'|'.join(_PARTS)}) could not be read "
    r"\((?P<part>delays_failed|unresolved_failed)\)(?:: (?P<why>.+))?"
)


@LINES.add(rf"(?:note: |- )?{NOT_READ}")
def _part_not_read(reader: Reader, text: str, of: Tables, **said: str) -> None:
    check_part(reader, text, of.week.schedule, of.week.name, **said)


def check_part(
    reader: Reader, text: str, schedule: str, window: str, *, source: str, what: str, part: str, why: str | None
) -> None:
    """A part that could not be read is one of the plan, and it is put in the right words."""
    planned = reader.facts.told.unread.get((schedule, window, source), frozenset())
    reader.check(part in planned and why in (None, WHY[part]), "part not read", text, planned)  # type: ignore[index]
    reader.equal("name of a part", text, _PARTS[what], part)


@LINES.add(
    rf"(?:note: |- )?(?P<source>[\w-]+) had (?P<before>{N}) rows? of this window when it was read before, "
    rf"and (?P<rows>{N}) when it was read last"
)
def _rows_gone(reader: Reader, text: str, of: Tables, source: str, before: str, rows: str) -> None:
    start = window_start(of.week.name).replace(tzinfo=UTC)
    same = (of.week.schedule, start, source)
    found = [r for r in reader.facts.readings if (r["schedule"], r["window_start"], r["source"]) == same]
    reader.number("rows that are left", text, rows, found[0]["rows"] if found else None)
    told, key = reader.facts.told, (of.week.schedule, of.week.name, source)
    reader.number("rows that are gone", text, before, told.gone.get(key))
    reader.number("rows when read last", text, rows, told.readings[key][-1])


@LINES.add(
    rf"(?:note: |- )?(?P<source>[\w-]+): rows of (?P<window>{WEEK}) were read again after its verdicts, which stay as they "
    rf"are: (?P<name>.+) had (?P<then>{N}) (?:automated |predicted )?rows? then and has (?P<now>{N}) now\. `calmon run .+ --dry-run` judges these"
)
def _read_again(
    reader: Reader, text: str, of: Tables, source: str, window: str, name: str, then: str, now: str
) -> None:
    label = None if name == f"{source} (all labels)" else name.removeprefix(f"{source}/")
    mine = [
        (v, reader.facts.estimate(of.week.schedule, window, source, label, v["metric"], v["population"]))
        for v in reader.facts.current(of.week.schedule, window, source)
        if (v["label"] or None) == label and v["windows"] == 1
    ]
    pairs = [(v["n"], e["n"]) for v, e in mine if e is not None]
    said = tuple(int(number.replace(",", "")) for number in (then, now))
    reader.check(said in pairs and said[0] != said[1], "rows read again", text, pairs)


@LINES.add(r"(?:note: |- )?(?P<source>[\w-]+) was not evaluated: (?P<error>.+)")
def _not_evaluated(reader: Reader, text: str, of: Tables, source: str, error: str) -> None:
    start = window_start(of.week.name).replace(tzinfo=UTC)
    mine = [
        r
        for r in reader.facts.readings
        if (r["schedule"], r["window_start"], r["source"]) == (of.week.schedule, start, source)
    ]
    reader.check(bool(mine) and mine[0]["state"] != "ok", "not evaluated", text, mine and mine[0]["state"])


@LINES.add(
    rf"(?:note: |- )?(?P<source>[\w-]+): the main model version changed from (?P<before>\w+) to (?P<after>\w+) in (?P<window>{WEEK}).*"
)
def _version_changed(reader: Reader, text: str, of: Tables, source: str, before: str, after: str, window: str) -> None:
    from tests.truth.messages import check_version

    check_version(reader, text, before, after, window)


@LINES.add(
    r"(?:- )?(?P<rule>[\w-]+) \((?P<severity>\w+)\): (?P<words>.+?)(?: \(\d+ windows pooled\))?\. "
    r"(?:(?P<cause>Likely causes?: .+)\. )?"
    r"(?:Reason: `(?P<reason>\w+)`, verdict `(?P<id>[0-9a-f]+)`\.|calmon explain (?P<id2>[0-9a-f]+))"
)
def _breach(
    reader: Reader, text: str, of: Tables, rule: str, severity: str, words: str, cause: Any, reason: Any, id: Any,
    id2: Any,
) -> None:  # fmt: skip
    row = reader.facts.verdict(id or id2)
    reader.check(cause is None or fits_cause(cause, row), "likely cause", text, row["detail"].get("causes"))
    reader.equal("rule", text, (rule, severity), (row["rule"], row["severity"]))
    if reason is not None:
        reader.equal("reason", text, reason, row["reason"])
    VERDICT.read(reader, words, row)


@LINES.add(r"- (?P<name>[\w-]+/[\w-]+|[\w-]+ \(all labels\)): (?P<sentence>.+) \((?P<basis>[\w-]+: .+)\)")
def _to_do(reader: Reader, text: str, of: Tables, name: str, sentence: str, basis: str) -> None:
    check_advice(reader, text, sentence, basis, of.week, subject_of(name))


@LINES.add(r"(?P<sentence>[A-Z].+) \((?P<reason>[a-z ]+); (?P<basis>[\w-]+: .+)\)")
def _to_do_of_page(reader: Reader, text: str, of: Tables, sentence: str, reason: str, basis: str) -> None:
    if of.week.subject is not None:
        check_advice(reader, text, sentence, basis, of.week, of.week.subject)


@LINES.add(r"# (?P<label>[\w-]+|all labels) (?P<source>tickets|mails)")
def _label_section(reader: Reader, text: str, of: Tables, label: str, source: str) -> None:
    of.week.subject = (source, None if label == "all labels" else label)


@LINES.add(r"# (?P<name>(?:tickets|mails)/[\w-]+|(?:tickets|mails) \(all labels\))")
def _label_heading(reader: Reader, text: str, of: Tables, name: str) -> None:
    of.week.subject = subject_of(name)


@LINES.add(
    r"(?:critical |warning |info )?breach|(?:(?:above|below) the limit, )?not confirmed|not evaluated|ok|no rule"
)
def _badge(reader: Reader, text: str, of: Tables) -> None:
    if of.week.subject is not None:
        true = state_of(of.week.of(of.week.subject)).replace("_", " ")
        said = re.sub(r"^(?:(?:above|below) the limit, )?not confirmed$", "unconfirmed", text).split()[-1:]
        reader.equal("state", f"{of.week.subject}: {text}", said, true.split()[-1:])


_CLOSED = r"(?:[\d.]+ to [\d.]+|\w+ = \w+)"


@LINES.add(
    rf"(?P<rows>{N}) rows? · (?:baseline (?P<version>\d+): (?P<first>{WEEK}) to (?P<last>{WEEK}), (?P<of_rows>{N}) rows?|no baseline)"
    rf"(?: · automation (?P<when>now|at the run) \((?P<at>{_MOMENT})\): (?P<then>on(?: but {_CLOSED}(?:, {_CLOSED})*)?|off(?: \([\w ,]+\))?)(?:, (?P<why>.+?))??"
    rf"(?: · now: (?P<now>on(?: but {_CLOSED}(?:, {_CLOSED})*)?|off(?: \([\w ,]+\))?)(?:, (?P<why_now>.+))?)?)?"
)
def _facts(
    reader: Reader, text: str, of: Tables, rows: str, version: Any, first: Any, last: Any, of_rows: Any, **found: Any
) -> None:
    key = of.week.subject
    if key is None:
        reader.unknown(text)
        return
    reader.number("rows", text, rows, of.week.rows(key))
    if version is not None:
        of_label = "SELECT * FROM baselines WHERE source = ? AND label = ? AND version = ?"
        stored = reader.facts.rows(of_label, key[0], key[1] or "", int(version))
        said = (first, last, int(of_rows.replace(",", "")))
        true = [(each["first_window"], each["last_window"], each["rows"]) for each in stored]
        reader.equal("baseline", text, [said], true)
    if found["at"] is not None:
        at = moment(found["at"])
        _of_run(reader, text, of.week, found["when"], at)
        _switch_fact(reader, text, key, found["then"], found["why"], at)
    if found["now"] is not None:
        _switch_fact(reader, text, key, found["now"], found["why_now"], None)


def _switch_fact(reader: Reader, text: str, key: Key, words: str, why: str | None, at: datetime | None) -> None:
    check_switched(reader, words, key, at)
    by_source = reader.facts.why_off(*key, at) in ("source", "source closed")
    own, whole = reader.facts.switch(*key, at), reader.facts.switch(key[0], None, at)
    if why is not None:
        known = {own.why} | ({whole.why} if by_source else set())
        known = {whole.why} if "the whole source" in words else known
        reader.check(own_reason(why) in known, "reason of the switch", text, known)


@LINES.add(
    r"(?P<state>(?:(?:[Cc]ritical|[Ww]arning|[Ii]nfo) breach|[Aa]bove the limit, not confirmed|[Nn]ot evaluated): .+|[Oo]k: .+|[Nn]o rule)"
)
def _state_line(reader: Reader, text: str, of: Tables, state: str) -> None:
    if of.week.subject is None:
        reader.unknown(text)
        return
    named = {v["rule"]: v for v in of.week.of(of.week.subject)}
    for rule, reason in re.findall(r"([\w-]+) \((\w+)\)", state):
        if rule in named:
            reader.equal("reason", text, reason, named[rule]["reason"])
    outcome = {"n": "not_evaluated", "a": "unconfirmed", "o": "ok"}.get(state[0].lower())
    if "breach" in state.split(":", maxsplit=1)[0]:
        outcome = "breach"
    true = {v["outcome"] for v in named.values()}
    reader.check(outcome is None or outcome in true or not true, "state", text, true)


@LINES.add(r"Level (?P<level>\w+)(?:: (?P<bands>.+))?")
def _level_line(reader: Reader, text: str, of: Tables, level: str, bands: Any) -> None:
    if of.week.subject is None:
        reader.unknown(text)
        return
    reader.equal("level", f"{of.week.subject}: {text}", level, of.week.level(of.week.subject))
    for band in (bands or "").split("; "):
        if band:
            BANDS.read(reader, band, (of.week, of.week.subject))


@LINES.add(
    rf"(?P<metric>ECE|MCE|ROC AUC|overconfidence \(automated\)) over (?P<k>\d+) windows? from (?P<first>{WEEK}) to (?P<last>{WEEK}): "
    rf"from (?P<start>{N}) to (?P<end>{N})(?:, baseline {N})?; (?:no breach|breach in (?P<breaches>.+?))\."
)
def _trend(
    reader: Reader,
    text: str,
    of: Tables,
    metric: str,
    k: str,
    first: str,
    last: str,
    start: str,
    end: str,
    breaches: Any,
) -> None:
    key, (name, where) = of.week.subject, METRICS[metric]
    if key is None:
        reader.unknown(text)
        return
    facts = reader.facts
    known = {
        e[1]: row["value"] for e, row in facts._estimates.items()
        if (e[0], e[2], e[3], e[4], e[5]) == (of.week.schedule, *key, name, where) and row["value"] is not None and e[1] <= of.week.name
    }  # fmt: skip
    reader.equal("windows of the trend", text, (int(k), first, last), (len(known), min(known), max(known)))
    reader.number("first value", text, start, known.get(first))
    reader.number("last value", text, end, known.get(last))
    true = {
        v["window_name"] for v in facts.verdicts.values()
        if v["current"] and v["schedule"] == of.week.schedule and (v["source"], v["label"] or None) == key
        and (v["metric"], v["population"]) == (name, where) and v["outcome"] == "breach" and v["window_name"] <= of.week.name
    }  # fmt: skip
    said = set() if breaches is None else set(breaches.split(", "))
    reader.equal("breaches of the trend", text, said, true)


@LINES.add(rf"# (?:ECE|MCE|ROC AUC|overconfidence \(automated\))(?: [\w-]+ {N}(?:, [\w-]+ {N})*)?")
def _figure(reader: Reader, text: str, of: Tables) -> None:
    for rule, limit in re.findall(rf"([\w-]+) ({N})(?=,|$)", text):
        if rule in reader.facts.rules:
            spec = reader.facts.rules[rule]
            changed = {"increase": BASELINE_ECE + spec.threshold, "decrease": BASELINE_AUC - spec.threshold}
            level = [spec.threshold, changed.get(spec.condition, spec.threshold)]
            reader.check(any(abs(float(limit) - each) < 6e-4 for each in level), "threshold", text, spec.threshold)


@LINES.add(rf"next: calmon run \w+ --\w+ (?P<name>{WEEK})|No label was read in this window\.")
def _empty(reader: Reader, text: str, of: Tables, name: Any) -> None:
    reader.check(not of.week.keys, "nothing of the window", text, of.week.keys)


@LINES.add(r"Overconfidence: mean score minus accuracy, of automated items\.")
def _overconfidence(reader: Reader, text: str, of: Tables) -> None:
    reader.check(bool(of.week.keys), "labels of the window", text, of.week.keys)


@LINES.add(rf"(?:# )?Calibration(?: report)? (?P<name>{WEEK})")
def _title(reader: Reader, text: str, of: Tables, name: str) -> None:
    reader.equal("window", text, name, of.week.name)


@LINES.add(rf"(?P<schedule>weekly|daily) window, .+ \(UTC\) · made (?P<at>{_MOMENT})")
def _made(reader: Reader, text: str, of: Tables, schedule: str, at: str) -> None:
    reader.check(abs(moment(at) - reader.facts.now) < timedelta(minutes=1), "made", text, reader.facts.now)


@LINES.add(rf"In breach in (?P<first>{WEEK}), and not in (?P<second>{WEEK}): (?P<found>.+)\.")
def _changed(reader: Reader, text: str, of: Tables, first: str, second: str, found: str) -> None:
    reader.check(of.week.name in (first, second), "window of the report", text, of.week.name)

    def breaches(window: str) -> set[tuple[Key, tuple[str, str]]]:
        return {
            ((v["source"], v["label"] or None), (v["metric"], v["population"]))
            for v in reader.facts.current(of.week.schedule, window) if v["outcome"] == "breach"
        }  # fmt: skip

    said = {
        (subject_of(name), METRICS[metric])
        for name, metrics in re.findall(r"([^;]+?) \(((?:[^()]|\([^()]*\))+)\)(?:; |$)", found)
        for metric in metrics.split(", ")
    }
    drawn = set(METRICS.values())
    reader.equal("what changed", text, said, {each for each in breaches(first) - breaches(second) if each[1] in drawn})


@LINES.add(r"The history has no window before this one\.")
def _first(reader: Reader, text: str, of: Tables) -> None:
    earlier = {e[1] for e in reader.facts._estimates if e[0] == of.week.schedule and e[1] < of.week.name}
    reader.check(not earlier, "windows before", text, earlier)


@LINES.add(r"(?P<metric>ECE|MCE|ROC AUC|overconfidence \(automated\)) of (?P<name>[\w-]+/[\w-]+|[\w-]+ \(all labels\))")
def _drawn_metric(reader: Reader, text: str, of: Tables, metric: str, name: str) -> None:
    of.week.subject = subject_of(name)
    of.drawn = METRICS[metric]


@LINES.add(
    rf"(?P<window>{WEEK}): (?P<value>{N})(?: \((?P<low>{N}) to (?P<high>{N})\))?, (?P<rows>{N}) rows?(?P<breach>; breach)?"
)
def _drawn_point(
    reader: Reader, text: str, of: Tables, window: str, value: str, low: Any, high: Any, rows: str, breach: Any
) -> None:
    key, drawn = of.week.subject, of.drawn
    if key is None or drawn is None:
        reader.unknown(text)
        return
    row = reader.facts.estimate(of.week.schedule, window, *key, *drawn)
    for kind, said, name in (
        ("value", value, "value"),
        ("low", low, "low"),
        ("high", high, "high"),
        ("rows", rows, "n"),
    ):
        reader.number(f"{kind} of a point", text, said, None if row is None else row[name])
    judged = reader.facts.current(of.week.schedule, window, key[0], key[1])
    true = any(v["outcome"] == "breach" and (v["metric"], v["population"]) == drawn for v in judged)
    reader.equal("breach of a point", text, breach is not None, true)


LINES.add(rf"# Verdicts of (?:{WEEK})")(nothing)
LINES.add(r"# What changed|Skip to the labels|Everything about one label: .+")(nothing)
LINES.add(
    fixed(
        "# Labels", "# Notes", "# All metrics", "# ECE by window", "# Rejected rows", "# Automation", "# Breaches", "# Level",
        "# What to do", "# Calibration", "# Discrimination and decisions", "# Numbers", "# Before the truth (estimates)", "Skip to the overview",
        "The figures need JavaScript; the tables hold their numbers.", "Debiased values with their intervals.",
        "Why one is what it is: calmon explain ID, with the id below its label",
        "From the verdicts of this window alone. Every reason: docs/conclusions.md", "# Done",
        "Bands of the debiased values as the handbook has them; they decide nothing. Every band: docs/conclusions.md",
        "Nothing to draw: no estimates in the history.",
        "value: debiased; textbook: as its definition says. Every metric: docs/metrics.md",
    )
    + r"|Estimates, not measurements: what the baseline's calibration map says .+"
    r"|# Automation (?:at the run|now).*|Level, the handbook's bands .+|ECE and MCE: expected and .+|Risk and coverage: .+"
    r"|Debiased values with 95% intervals.*|first, last and change are of the windows shown"
)(nothing)  # fmt: skip


def check_report(reader: Reader, parts: Iterable[Part], window: str) -> None:
    """A whole report, in any format that shows lines and tables."""
    of = Tables(reader, Week(reader.facts, window))
    for part in parts:
        if isinstance(part, Table):
            if re.match(rf"(?:{WEEK}): ", part.title):
                LINES.read(reader, " ".join(part.title.split()), of)
            of.check(part)
        else:
            LINES.read(reader, part, of)


# --- the report as data


def check_report_json(reader: Reader, document: dict[str, Any], window: str) -> None:
    """The same claims in JSON."""
    week = Week(reader.facts, window)
    reader.equal("window", "report --json", document["window"], window)
    at = check_headline(reader, document.get("headline", ""), week)
    for verdict in document["verdicts"]:
        row = reader.facts.verdicts[verdict["id"]]
        for name in (
            "rule",
            "outcome",
            "reason",
            "severity",
            "value",
            "change",
            "p_adjusted",
            "threshold",
            "n",
            "windows",
        ):
            reader.equal(name, json.dumps(verdict), verdict[name], row[name])
    for label in document["labels"]:
        key = (label["source"], label["label"])
        check_state(reader, label["state"]["words"], week, key)
        reader.equal("state", str(key), label["state"]["state"], state_of(week.of(key)))
        reader.equal("level", str(key), label["level"], week.level(key))
        for name, time in (("automation", at), ("automation_now", None)):
            line = label.get(name)
            if line is not None:
                closed = [f"{low:.2f} to {high:.2f}" for low, high in line["blocked"]]
                closed += [" = ".join(segment) for segment in line["segments"]]
                words = (
                    f"{line['state']} but {', '.join(closed)}" if closed and line["state"] == "on" else line["state"]
                )
                check_switched(reader, words, key, time)
        for advice in label.get("advice", ()):
            check_advice(reader, json.dumps(advice), advice["sentence"], ", ".join(advice["basis"]), week, key)


# --- the trend

BARS = "▁▂▃▄▅▆▇█"


def check_history(reader: Reader, parts: list[Part], metric: str, where: str) -> None:
    """``calmon history``: numbers of each label, one scale for all trends, and what the rules say of the newest window."""
    for part in parts:
        if isinstance(part, str):
            HISTORY.read(reader, part)
            continue
        span = re.search(rf"({WEEK}) to ({WEEK})", part.title)
        if span is None:
            reader.unknown(f"title {part.title}")
            continue
        drawn: list[tuple[float, int]] = []
        for row in part.records():
            _trend_row(reader, row, metric, where, span[1], span[2], drawn)
        _one_scale(reader, part, drawn)


HISTORY = Grammar("line of the history")
HISTORY.add(r"trend: one scale for all labels, .+; first, last and change are of the windows shown.*")(nothing)
HISTORY.add(r"the history has nothing of that: .+")(
    lambda reader, text, _: reader.check(
        not [key for key in reader.facts._estimates if key[0] == "weekly"], "nothing in the history", text, "estimates"
    )
)


def _weeks(first: str, last: str) -> list[str]:
    start, found = window_start(first), []
    while start <= window_start(last):
        found.append(f"{start:%G-W%V}")
        start += timedelta(days=7)
    return found


def _trend_row(
    reader: Reader, row: dict[str, str], metric: str, where: str, first: str, last: str, drawn: list[tuple[float, int]]
) -> None:
    key, text = subject_of(" ".join(row["label"].split())), " | ".join(row.values())
    values = {
        e[1]: r["value"] for e, r in reader.facts._estimates.items()
        if e[0] == "weekly" and e[2:] == (*key, metric, where) and r["value"] is not None and first <= e[1] <= last
    }  # fmt: skip
    bars = "".join(row["trend"].split())
    known = sorted(
        {e[1] for e in reader.facts._estimates if e[0] == "weekly" and first <= e[1] <= last and e[4] == metric}
    )
    windows = next((each for each in (_weeks(first, last), known) if len(each) == len(bars)), None)
    if windows is None:
        reader.check(False, "windows of a trend", text, f"{len(bars)} bars for {len(known)} windows")
        return
    for window, bar in zip(windows, bars, strict=True):
        reader.equal("bar", text, bar != "·", window in values)
        if bar in BARS and window in values:
            drawn.append((values[window], BARS.index(bar)))
    if values:
        newest = max(values)
        reader.number("first", text, row["first"], values[min(values)])
        reader.number("last", text, row["last"], values[newest])
        reader.number("change", text, row["change"], values[newest] - values[min(values)])
        estimate = reader.facts.estimate("weekly", newest, *key, metric, where)
        reader.number("n", text, row["n"], estimate and estimate["n"])
        _rules_cell(reader, text, " ".join(row["rules"].split()), key, metric, where, newest)


def _rules_cell(reader: Reader, text: str, said: str, key: Key, metric: str, where: str, window: str) -> None:
    mine = [
        v for v in reader.facts.current("weekly", window, key[0], key[1]) if (v["metric"], v["population"]) == (metric, where)
    ]  # fmt: skip
    true = state_of(mine)
    words = {
        "ok": "ok", "no rule": "no_rule", "not evaluated": "not_evaluated", "above the limit, not confirmed": "unconfirmed",
        "below the limit, not confirmed": "unconfirmed",
    }  # fmt: skip
    found = "breach" if re.match(r"(?:critical|warning|info) breach", said) else next(
        (state for begins, state in words.items() if said.startswith(begins)), None
    )  # fmt: skip
    reader.equal("what the rules say", text, found, true)


def _one_scale(reader: Reader, table: Table, drawn: list[tuple[float, int]]) -> None:
    """A larger value has no lower bar, whatever label it is of: all trends share one scale."""
    ordered = sorted(drawn)
    up = all(a[1] <= b[1] for a, b in itertools.pairwise(ordered))
    down = all(a[1] >= b[1] for a, b in itertools.pairwise(ordered))
    reader.check(up or down, "one scale for all trends", table.title, "a larger value has a lower bar in another row")


# --- /metrics

SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")


def check_metrics(reader: Reader, text: str) -> None:
    """The samples that are claims about labels: estimates, verdicts, states, switches, leases, incidents."""
    for line in text.splitlines():
        found = SAMPLE.fullmatch(line)
        if found is None or line.startswith("#"):
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found["labels"] or ""))
        _sample(reader, line, found["name"], labels, float(found["value"]))


def _newest(facts: Facts, schedule: str) -> str:
    done = [r for r in facts.runs if r["schedule"] == schedule and r["state"] == "done"]
    return str(max(done, key=lambda r: r["window_start"])["window_name"]) if done else ""


def _sample(reader: Reader, line: str, name: str, labels: dict[str, str], value: float) -> None:
    facts = reader.facts
    if name in ("calmon_estimate", "calmon_estimate_low", "calmon_estimate_high"):
        row = facts.estimate(
            labels["schedule"], _newest(facts, labels["schedule"]), labels["source"], labels["label"] or None,
            labels["metric"], labels["where"],
        )  # fmt: skip
        part = {"calmon_estimate": "value"}.get(name, name.removeprefix("calmon_estimate_"))
        reader.check(row is not None and abs(row[part] - value) < 1e-9, "estimate", line, row and row[part])
    elif name == "calmon_verdicts":
        mine = facts.current(labels["schedule"], _newest(facts, labels["schedule"]), labels["source"])
        true = sum((v["rule"], v["outcome"]) == (labels["rule"], labels["outcome"]) for v in mine)
        reader.equal("verdicts", line, int(value), true)
    elif name in ("calmon_automation_on", "calmon_segments_off", "calmon_lease_seconds"):
        _switch_sample(reader, line, name, labels, value)
    elif name == "calmon_incidents":
        true = sum(
            (i["severity"], i["state"]) == (labels["severity"], labels["state"]) and not i["rule"].startswith("monitor:")
            for i in facts.incidents.values()
        )  # fmt: skip
        with_monitor = sum(
            (i["severity"], i["state"]) == (labels["severity"], labels["state"]) for i in facts.incidents.values()
        )
        reader.check(int(value) in (true, with_monitor), "incidents", line, true)
    elif name.startswith("calmon_label_state") or name == "calmon_labels":
        _state_sample(reader, line, labels, value)
    else:
        reader.claims["other sample"] += 1


def _switch_sample(reader: Reader, line: str, name: str, labels: dict[str, str], value: float) -> None:
    key = (labels["source"], labels["label"] or None)
    if name == "calmon_automation_on":
        true = reader.facts.why_off(*key) is None
        if key[1] is not None:
            reader.equal("automation on", line, bool(value), true)
        return
    if name == "calmon_segments_off":
        reader.equal("segments off", line, int(value), len(reader.facts.switch(*key).off(reader.facts.now)))
        return
    lease = reader.facts.switch(*key).lease
    true_seconds = None if lease is None else (lease - reader.facts.now).total_seconds()
    reader.check(true_seconds is not None and abs(true_seconds - value) < 1.5, "lease", line, true_seconds)


def _state_sample(reader: Reader, line: str, labels: dict[str, str], value: float) -> None:
    facts = reader.facts
    schedule = labels.get("schedule", "weekly")
    window = _newest(facts, schedule)
    if "label" in labels and "state" in labels:
        mine = facts.current(schedule, window, labels["source"], labels["label"] or None)
        reader.equal("state of a label", line, bool(value), state_of(mine) == labels["state"])
    elif "state" in labels:
        week = Week(facts, window, schedule)
        states = [state_of(v) for key, v in week.labels().items() if labels.get("source") in (None, key[0])]
        reader.equal("labels in a state", line, int(value), states.count(labels["state"]))


# --- what a run says

RUN = Grammar("summary of a run")


@RUN.add(
    rf"(?P<source>[\w-]+) (?P<window>{WEEK}): (?P<counts>[\d,]+ of [\d,]+ labels? in breach.*?)(?:; as a whole: (?P<whole>.+?))?"
    r"\. Verdicts: (?P<breach>[\d,]+) breach(?:es)?, (?P<unconfirmed>\d+) not confirmed, (?P<ok>\d+) ok, (?P<silent>\d+) not evaluated"
    r"(?:: (?P<why>.+?))?(?:; (?P<rejected>[\d,]+) rows? rejected(?:, (?P<left_out>[\d,]+) of them duplicates or in no window)?)?"
)
def _run_line(
    reader: Reader, text: str, schedule: str, source: str, window: str, counts: str, whole: Any, breach: str,
    unconfirmed: str, ok: str, silent: str, why: Any, rejected: Any, left_out: Any,
) -> None:  # fmt: skip
    week = Week(reader.facts, window, schedule)
    mine = {key: v for key, v in week.labels().items() if key[0] == source and v}
    check_counts(reader, counts, mine)
    if whole is not None:
        check_state(reader, whole, week, (source, None))
    all_of = [v["outcome"] for v in week.verdicts if v["source"] == source]
    said = (int(breach.replace(",", "")), int(unconfirmed), int(ok), int(silent))
    true = tuple(all_of.count(each) for each in ("breach", "unconfirmed", "ok", "not_evaluated"))
    reader.equal("verdicts", text, said, true)
    start = window_start(window).replace(tzinfo=UTC)
    of_reading = [
        q for q in reader.facts.quality if (q["schedule"], q["window_start"], q["source"]) == (schedule, start, source)
    ]
    reader.number("rejected rows", text, rejected or "0", sum(q["rows"] for q in of_reading))
    no_loss = ("duplicate", "line_unreadable", "date_missing", "date_malformed", "date_in_future")
    reader.number("left out", text, left_out or "0", sum(q["rows"] for q in of_reading if q["reason"] in no_loss))


@RUN.add(
    rf"(?P<source>[\w-]+) (?P<window>{WEEK}): (?P<number>[\d,]+) verdicts of (?P<rule>[\w-]+) are not confirmed \((?P<reason>\w+)\), "
    r"\d+ of them in the table; --json lists all"
)
def _run_alike(
    reader: Reader, text: str, schedule: str, source: str, window: str, number: str, rule: str, reason: str
) -> None:
    mine = [v for v in Week(reader.facts, window, schedule).verdicts if (v["source"], v["rule"]) == (source, rule)]
    true = sum((v["outcome"], v["reason"]) == ("unconfirmed", reason) for v in mine)
    reader.equal("verdicts that are not confirmed", text, int(number.replace(",", "")), true)


@RUN.add(rf"(?P<source>[\w-]+) (?P<window>{WEEK}): not evaluated, (?P<problem>[\w ]+)")
def _run_unread(reader: Reader, text: str, schedule: str, source: str, window: str, problem: str) -> None:
    start = window_start(window).replace(tzinfo=UTC)
    mine = [
        r for r in reader.facts.readings if (r["schedule"], r["window_start"], r["source"]) == (schedule, start, source)
    ]
    reader.equal("problem", text, problem.replace(" ", "_"), mine[0]["state"] if mine else None)


@RUN.add(NOT_READ)
def _run_part_not_read(reader: Reader, text: str, schedule: str, **said: str) -> None:
    check_part(reader, text, *reader.facts.told.newest(schedule, said["source"]), **said)


@RUN.add(rf"(?P<source>[\w-]+) (?P<window>{WEEK}): not judged: (?P<rest>.+)")
def _run_rejected(reader: Reader, text: str, schedule: str, source: str, window: str, rest: str) -> None:
    mine = [v for v in reader.facts.current(schedule, window, source) if v["reason"] == "rejected_rows"]
    reader.check(bool(mine), "rejected rows", text, "no verdict says so")


@RUN.add(
    rf"(?P<source>[\w-]+) (?P<window>{WEEK}): (?P<n>[\d,]+) rows? had no truth at the end of (?P<end>{WEEK}); expected, an estimate: accuracy "
    rf"(?P<accuracy>{NUMBER})% \({NUMBER}% to {NUMBER}%\)(?:, overconfidence \(automated\) (?P<overconfidence>{NUMBER}) \(.+?\))?"
    rf"(?:, ECE (?P<ece>{NUMBER}) \(.+?\))?"
)
def _expected_line(
    reader: Reader, text: str, schedule: str, source: str, window: str, n: str, end: str, accuracy: str, overconfidence: Any,
    ece: Any,
) -> None:  # fmt: skip
    reader.equal("window", text, end, window)
    for name, where, said, scale in (
        ("expected_accuracy", "all", accuracy, 100), ("expected_overconfidence", "automated", overconfidence, 1),
        ("expected_ece", "all", ece, 1),
    ):  # fmt: skip
        found = reader.facts.estimate(schedule, window, source, None, name, where)
        reader.number(name, text, said, None if found is None else found["value"], scale=scale)
        if name == "expected_accuracy":
            reader.number("waiting rows", text, n, None if found is None else found["n"])


def check_run(reader: Reader, parts: Iterable[Part], schedule: str, window: str) -> None:
    """What a run prints: each source's line, what is beyond its limit, what was done."""
    of = Tables(reader, Week(reader.facts, window, schedule))
    for part in parts:
        if isinstance(part, str):
            RUN.read(reader, part, schedule)
        elif part.title == "Verdicts":
            of.check(part)
        elif part.title == "Actions":
            for row in part.records():
                _action(reader, " ".join(row["label"].split()), row["action"], row["state"], of.week)
        else:
            reader.unknown(f"table {part.title}")


def _action(reader: Reader, name: str, action: str, state: str, week: Week) -> None:
    """What became of what a verdict asked for."""
    text = f"{action} of {name}: {state}"
    key = subject_of(name)
    mine = reader.facts.switch(*key)
    plain = state.removeprefix("dry run: ")
    asked = [v for v in week.of(key) if action.replace(" ", "_") in v["actions"]]
    reader.check(bool(asked), "action asked for", text, [v["rule"] for v in week.of(key)])
    if state.startswith("not done") or action == "slack":
        return
    if plain in ("turned off", "already off") and not state.startswith("dry run"):
        reader.equal("state of the switch", text, "off", mine.state)
    if "newer window" in state:
        newest = max((v["window_end"] for v in reader.facts.verdicts.values() if v["schedule"] == week.schedule and v["outcome"] != "not_evaluated"), default=None)  # fmt: skip
        ends = [v["window_end"] for v in week.verdicts]
        reader.check(newest is not None and bool(ends) and max(ends) < newest, "a newer window", text, newest)


def check_run_json(reader: Reader, document: dict[str, Any]) -> None:
    """The document of a run: its verdicts and estimates are those that are stored."""
    for verdict in document["verdicts"]:
        row = reader.facts.verdicts.get(verdict["id"])
        if row is None:
            reader.check(False, "verdict", json.dumps(verdict), "is not stored")
            continue
        for name in ("rule", "source", "outcome", "reason", "severity", "value", "threshold", "n", "windows"):
            reader.equal(name, json.dumps(verdict), verdict[name], row[name])
