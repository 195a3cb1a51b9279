"""What ``calmon explain`` says of a verdict: every sentence with its numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.truth.claims import Grammar, Reader, fixed, name_of, nothing
from tests.truth.facts import Row
from tests.truth.sentences import NUMBER, TITLE, TITLES, VERDICT, WEEK, check_missing_part, segment_words
from tests.truth.texts import Part

DOCS = Path(__file__).parents[2] / "docs"

N = NUMBER
EXPLAINED = Grammar("explanation")
_P = r"p (?:=|<) (?P<p>[\d.e+-]+)"


def check_explain(reader: Reader, parts: list[Part], row: Row) -> None:
    """The explanation of one stored verdict."""
    lines = [part for part in parts if isinstance(part, str)]
    VERDICT.read(reader, lines[0].removesuffix("."), row)
    for line in lines[1:]:
        EXPLAINED.read(reader, re.sub(r"^  \d+\. ", "", line), row)


_CHANGES = ("increase", "decrease")


def _limit(reader: Reader, text: str, row: Row, limit: str | None) -> None:
    reader.number("threshold", text, limit, row["threshold"])


def _of(row: Row) -> float | None:
    """What is held against the threshold."""
    condition = row["detail"].get("condition")
    if condition == "decrease":
        return None if row["change"] is None else -row["change"]
    found: float | None = row["change"] if condition == "increase" else row["value"]
    return found


@EXPLAINED.add(
    r"Asked by (?P<rule>[\w-]+) \((?P<severity>\w+)\): (?P<asks>.+\?)(?P<each> In any of its segments: each is compared by itself\.)?(?P<running> In each of (?P<k>\d+) .+)?"
)
def _asked(
    reader: Reader, text: str, row: Row, rule: str, severity: str, asks: str, each: Any, running: Any, k: Any
) -> None:
    reader.equal("segments", text, each is not None, "segment_p" in row["detail"])
    reader.equal("rule", text, (rule, severity), (row["rule"], row["severity"]))
    reader.number("threshold", text, re.findall(N, asks)[-1], row["threshold"])
    reader.equal("asks for", text, int(k or 1), row["detail"].get("asks", 1))


@EXPLAINED.add(rf"About: (?P<name>.+?) in (?P<window>{WEEK}) \((?P<schedule>\w+)\)\.(?: It looks at .+\.)?")
def _about(reader: Reader, text: str, row: Row, name: str, window: str, schedule: str) -> None:
    reader.equal("about", text, (name, window, schedule), (name_of(row), row["window_name"], row["schedule"]))


@EXPLAINED.add(
    rf"Seen in (?P<window>{WEEK}): (?P<title>{TITLE}) (?P<value>{N}|undefined)(?: \((?:95% )?interval (?P<low>{N}) to (?P<high>{N})\))?"
    rf", from (?:(?P<of>{N}) automated rows? of )?(?P<n>{N}) [\w ]+?(?:, (?P<windows>\d+) windows pooled)?\."
)
def _seen(
    reader: Reader, text: str, row: Row, window: str, title: str, value: str, low: Any, high: Any, of: Any, n: str,
    windows: Any,
) -> None:  # fmt: skip
    reader.number("automated rows", text, of, row["detail"].get("of_rows"))
    reader.equal("seen in", text, (window, TITLES[title]), (row["window_name"], row["metric"]))
    reader.number("value", text, value, row["value"])
    reader.number("low", text, low, row["low"])
    reader.number("high", text, high, row["high"])
    reader.number("n", text, n, row["n"])
    reader.equal("windows", text, int(windows or 1), row["windows"])


@EXPLAINED.add(
    rf"Seen in (?P<window>{WEEK}): (?:nothing, since the source could not be read|(?P<n>{N}) (?:predicted |automated )?rows?(?:, \d+ windows pooled)?, not measured by this rule)\."
)
def _seen_nothing(reader: Reader, text: str, row: Row, window: str, n: Any) -> None:
    reader.equal("seen in", text, window, row["window_name"])
    reader.check(row["value"] is None, "nothing measured", text, row["value"])
    reader.number("n", text, n, row["n"])


@EXPLAINED.add(
    r"Pooled: this window with the (?P<before>\d+) before it that held rows, because .+?\."
    rf"(?: This window alone: (?:a change of )?(?P<value>{N}|undefined)(?: \((?P<low>{N}) to (?P<high>{N})\))?, from "
    rf"(?P<n>{N}) rows?(?: of (?P<place>.+?)|, as it is stored now)\.)?"
    r"(?: (?P<itself>It has too few rows for a decision by itself|By itself it is .+)\.)?"
)
def _pooled(
    reader: Reader, text: str, row: Row, before: str, value: Any, low: Any, high: Any, n: Any, place: Any, itself: Any
) -> None:
    reader.equal("windows", text, int(before) + 1, row["windows"])
    newest = row["detail"].get("newest_alone")
    reader.equal("newest window", text, itself is not None, n is not None and newest is not None)
    if itself is not None:
        by_itself = "few" if "too few" in itself else "beyond" if "beyond" in itself else "within"
        true = "few" if newest["too_few"] else "beyond" if newest["beyond"] else "within"
        reader.equal("newest window", text, by_itself, true)
    if n is None:
        return
    alone = newest
    if segment_words(row) is None:
        subject = (row["source"], row["label"] or None, row["metric"], row["population"])
        alone = reader.facts.estimate(row["schedule"], row["window_name"], *subject)
    reader.equal("segment", text, place, segment_words(row))
    if reader.check(alone is not None, "this window alone", text, alone) and alone is not None:
        reader.number("this window alone", text, value, alone["value"])
        reader.number("this window alone", text, n, alone["n"])
        reader.number("this window alone", text, low, alone.get("low"))
        reader.number("this window alone", text, high, alone.get("high"))


@EXPLAINED.add(
    r"Not pooled(?P<further> further)?: together with the (?P<before>\d+) (?:weeks?|days?) before it that held rows this window shows (?P<change>a change of )?"
    rf"(?P<value>{N}|undefined), from (?P<n>{N}) rows?(?: of (?P<place>.+?))?(?:, {_P})?\. Older windows may not hide what the newest shows by itself\."
)
def _not_pooled(
    reader: Reader, text: str, row: Row, further: Any, before: str, change: Any, value: str, n: str, place: Any, p: Any
) -> None:
    reader.equal("segment", text, place, segment_words(row))
    together = row["detail"]["together"]
    reader.equal("windows", text, (int(before) + 1, bool(further)), (together["windows"], row["windows"] > 1))
    reader.number("together", text, value, together["change" if change else "value"])
    reader.number("rows together", text, n, together["n"])
    reader.equal("judged once more", text, row["detail"]["times_judged"], int(before) + 2)
    if p is not None:
        _probability(reader, text, p, together["p_value"])


@EXPLAINED.add(rf"Mean score and hit rate: .*?the mean score is (?P<promised>{N}%), the hit rate (?P<kept>{N}%)\.")
def _promised(reader: Reader, text: str, row: Row, promised: str, kept: str) -> None:
    reader.number("promised", text, promised, row["detail"]["promised"], scale=100)
    reader.number("kept", text, kept, row["detail"]["kept"], scale=100)


@EXPLAINED.add(rf"Textbook value: (?P<value>{N})\. .+")
def _textbook(reader: Reader, text: str, row: Row, value: str) -> None:
    reader.number("textbook", text, value, row["plug_in"])


@EXPLAINED.add(
    rf"Worst score range: (?P<low>{N}) to (?P<high>{N}), (?P<off>{N}) points too (?P<way>high|low)"
    rf"(?: \(observed: (?P<gap>{N}) points\))?, from (?P<n>{N}) rows?\."
    r"(?: (?P<sure>[A-Z][^:]+): (?P<ranges>.+?)(?P<only> \(only a breach blocks it\))?\.)?"
)
def _worst(
    reader: Reader,
    text: str,
    row: Row,
    low: str,
    high: str,
    off: str,
    way: str,
    gap: Any,
    n: str,
    sure: Any,
    ranges: Any,
    only: Any,
) -> None:
    detail = row["detail"]
    reader.number("worst range", text, low, detail["worst_range"][0])
    reader.number("worst range", text, high, detail["worst_range"][1])
    reader.number("worst gap", text, off, row["value"], scale=100)
    reader.number("observed gap", text, gap or off, abs(detail["worst_gap"]), scale=100)
    reader.equal("direction", text, way, "high" if detail["worst_gap"] < 0 else "low")
    reader.number("n", text, n, detail["worst_n"])
    if sure is not None:
        reader.check((only is None) == (row["outcome"] == "breach"), "blocked", text, row["outcome"])


@EXPLAINED.add(
    rf"Against baseline version (?P<version>\d+)(?: \((?P<first>{WEEK})(?: to (?P<last>{WEEK}))?, (?P<rows>{N}) rows?, pinned by (?P<by>.+?)\))?"
    rf"(?:: (?P<title>{TITLE}) (?P<value>{N}) then)?"
    r"(?:\. Renamed since, and taken for the same rows: (?P<renamed>.+))?\."
)
def _against(
    reader: Reader, text: str, row: Row, version: str, first: Any, last: Any, rows: Any, by: Any, title: Any, value: Any,
    renamed: Any,
) -> None:  # fmt: skip
    edited = reader.facts.told.changed.get(row["id"]) if row["reason"] != "settings_changed" else None
    compares = row["detail"].get("condition") in _CHANGES or row["metric"] == "ks"
    reader.equal("renamed", text, renamed, edited if compares else None)
    reader.equal("baseline version", text, int(version), row["baseline_version"])
    reader.number("baseline", text, value, row["baseline"])
    stored = reader.facts.rows(
        "SELECT * FROM baselines WHERE source = ? AND label = ? AND version = ?",
        row["source"],
        row["label"],
        int(version),
    )
    if first is not None:
        true = (stored[0]["first_window"], stored[0]["last_window"], stored[0]["pinned_by"]) if stored else None
        reader.equal("baseline", text, (first, last or first, by), true)
        reader.number("rows of the baseline", text, rows, stored[0]["rows"] if stored else None)


@EXPLAINED.add(
    rf"Against the (?:(?P<weeks>\d+) weeks|week) before \((?P<first>{WEEK})(?: to (?P<last>{WEEK}))?, (?P<rows>{N}) rows?\)"
    rf"(?:: (?P<title>{TITLE}) (?P<value>{N}) then)?\."
)
def _against_weeks_before(
    reader: Reader, text: str, row: Row, weeks: Any, first: str, last: Any, rows: str, title: Any, value: Any
) -> None:
    known = row["detail"]["reference"]
    said = (int(weeks or 1), first, last or first)
    reader.equal("weeks before", text, said, (known["weeks"], known["first"], known["last"]))
    reader.number("rows of the weeks before", text, rows, known["rows"])
    reader.number("weeks before", text, value, row["baseline"])


@EXPLAINED.add(
    rf"Change: (?P<change>{N})(?: \(interval (?P<low>{N}) to (?P<high>{N})\))?; what counts is (?:a fall of )?more than (?P<limit>{N})\."
)
def _change(reader: Reader, text: str, row: Row, change: str, low: Any, high: Any, limit: str) -> None:
    reader.number("change", text, change, row["change"])
    reader.number("change", text, low, row["change_low"])
    reader.number("change", text, high, row["change_high"])
    _limit(reader, text, row, limit)


@EXPLAINED.add(
    rf"Chance: if .+?, as (?:much|little) or (?:more|less) would be seen with probability {_P}"
    rf"(?:, counted for each of the (?P<times>\d+) times that these rows are judged)?\."
)
def _chance(reader: Reader, text: str, row: Row, p: str, times: str | None) -> None:
    reader.equal("times judged", text, int(times) if times else None, row["detail"].get("times_judged"))
    fallen = re.search(rf"if it had fallen by just ({N}), as much", text)
    reader.equal("accepted fall", text, fallen is not None, "accepted" in row["detail"])
    if fallen:
        reader.number("accepted fall", text, fallen[1], row["detail"]["accepted"])
    _probability(reader, text, p, row["p_value"])


def _probability(reader: Reader, text: str, p: str, true: float | None) -> None:
    """A probability with three digits; below 1e-15 only that."""
    said = float(p)
    holds = true is not None and (true < 1e-15 if said == 1e-15 else abs(said - true) <= 0.006 * max(true, said))
    reader.check(holds, "probability", text, true)


@EXPLAINED.add(
    rf"Family: p is .+?: adjusted {_P}\.|Among all labels and rules of the schedule: adjusted p = (?P<other>[\d.e+-]+)\."
)
def _family(reader: Reader, text: str, row: Row, p: Any, other: Any) -> None:
    _probability(reader, text, p or other, row["p_adjusted"])
    place = re.search(r"number (\d+) of the (\d+) tested", text)
    if place:
        said = (int(place[1]), int(place[2]))
        reader.equal("place in the family", text, said, (row["detail"]["rank"], row["detail"]["family"]))


@EXPLAINED.add(
    rf"Evidence, window by window: (?P<path>.+?)\. Needed: (?P<needed>{N}), so that the (?:label judged gives|(?P<labels>\d+) labels judged together give) "
    rf"one false alarm in (?P<weeks>{N}) weeks or more\."
)
def _evidence(reader: Reader, text: str, row: Row, path: str, needed: str, labels: str, weeks: str) -> None:
    detail, steps = row["detail"], re.findall(rf"({WEEK}) ([\d.,e+-]+?)(?:, |$)", path)
    reader.equal("windows of the evidence", text, [name for name, _ in steps], [step[0] for step in detail["path"]])
    for (_, said), step in zip(steps, detail["path"], strict=False):
        reader.number("evidence", text, said, step[-1])
    reader.number("evidence", text, steps[-1][1] if steps else None, detail["evidence"])
    reader.number("evidence needed", text, needed, detail["needed"])
    reader.equal("labels judged", text, int(labels or 1), detail["labels"])
    reader.number("run length", text, weeks, detail["average_run_length"])


@EXPLAINED.add(
    rf"Small labels: (?P<count>{N}) have too few rows to be judged alone, and are judged together\."
    r"(?: Likeliest, by empirical Bayes, and no proof: (?P<named>.+)\.| None of them differs from the others\.)"
)
def _small(reader: Reader, text: str, row: Row, count: str, named: Any) -> None:
    reader.number("small labels", text, count, row["detail"]["small_labels"])
    told = re.findall(rf"(?:^|, )(.+?) \(hit rate ({N})%, mean score ({N})%, ({N}) rows?, ({N})%\)", named or "")
    lines = row["detail"]["likeliest"]
    reader.equal("likeliest", text, [each[0] for each in told], [line[0] for line in lines])
    for each, (_, rows, promised, kept, probability) in zip(told, lines, strict=False):
        reader.number("hit rate", text, each[1], kept, scale=100)
        reader.number("mean score", text, each[2], promised, scale=100)
        reader.number("rows", text, each[3], rows)
        reader.number("probability", text, each[4], probability, scale=100)


@EXPLAINED.add(
    r"Segments: (?P<judged>\d+) of (?P<count>\d+) could have shown what matters\. The other numbers are those of "
    rf"(?P<place>.+?)\.(?: It (?:(?P<within>is not beyond the threshold)|has {_P.replace('<p>', '<own>')}); the "
    rf"(?P<tested>\d+) with enough rows together \(Simes\) have {_P}\.)?(?: Named: (?P<named>.+)\.)?"
)
def _window_segments(
    reader: Reader, text: str, row: Row, judged: str, count: str, place: str, within: Any, own: Any, tested: Any, p: Any,
    named: Any,
) -> None:  # fmt: skip
    detail = row["detail"]
    reader.equal("segments", text, (int(judged), int(count)), (detail["segments_judged"], detail["segments"]))
    reader.equal("segment", text, place, segment_words(row))
    if p is not None:
        reader.equal("segments tested", text, int(tested), detail["segments_tested"])
        reader.check((within is not None) == (detail["segment_p"] >= 1), "threshold", text, detail["segment_p"])
        _probability(reader, text, p, row["p_value"])
    if own is not None:
        _probability(reader, text, own, detail["segment_p"])
    told = re.findall(rf"(?:^|; )(.+?) \(({N}), ({N}) rows?, p [=<] ({N})\)", named or "")
    lines = detail["segments_named"]
    places = [segment_words({"detail": {"segment": line[:2]}}) for line in lines]
    reader.equal("segments named", text, [each[0] for each in told], places)
    for each, (_, _, rows, measured, chance) in zip(told, lines, strict=False):
        reader.number("value of a segment", text, each[1], measured)
        reader.number("rows", text, each[2], rows)
        _probability(reader, text, each[3], chance)


@EXPLAINED.add(
    r"Segments: (?P<judged>\d+) of (?P<count>\d+) have enough rows to be judged alone, and the evidence above is the mean "
    rf"of all \d+\. The other numbers are those of (?P<place>.+?), whose own evidence is (?P<own>{N})\."
    r"(?: Named: (?P<named>.+)\.)?"
)
def _segments(reader: Reader, text: str, row: Row, judged: str, count: str, place: str, own: str, named: Any) -> None:
    detail = row["detail"]
    said = (int(judged), int(count))
    reader.equal("segments", text, said, (detail["segments_judged"], detail["segments"]))
    reader.equal("segment", text, place, segment_words(row))
    reader.number("evidence of the segment", text, own, detail["segment_evidence"])
    told = re.findall(
        rf"(?:^|; )(.+?) \(hit rate ({N})%, mean score ({N})%, ({N}) rows?, evidence ({N})\)", named or ""
    )
    lines = detail["segments_named"]
    places = [segment_words({"detail": {"segment": line[:2]}}) for line in lines]
    reader.equal("segments named", text, [each[0] for each in told], places)
    for each, (_, _, rows, promised, kept, evidence) in zip(told, lines, strict=False):
        reader.number("hit rate", text, each[1], kept, scale=100)
        reader.number("mean score", text, each[2], promised, scale=100)
        reader.number("rows", text, each[3], rows)
        reader.number("evidence", text, each[4], evidence)


@EXPLAINED.add(
    rf"What could have been seen: .+? (?P<least>{N}|undefined) or more, with 80% power(?:; at most (?P<most>{N}) is asked for)?"
    rf" \(the threshold is (?P<limit>{N})\)\."
)
def _could(reader: Reader, text: str, row: Row, least: str, most: Any, limit: str) -> None:
    reader.number("detectable", text, least, row["detectable"])
    reader.number("asked for", text, most, row["detail"].get("seen_at_most"))
    _limit(reader, text, row, limit)


@EXPLAINED.add(rf"What could have been seen: no truth can be beyond the threshold \((?P<limit>{N})\)\.")
def _beyond_reach(reader: Reader, text: str, row: Row, limit: str) -> None:
    """Overconfidence is never above the mean score, and no share is beyond a limit of 0 or 1."""
    promised = row["detail"]["promised"] if row["metric"] == "overconfidence" else 0.0
    shown = 0.0 if row["outcome"] == "ok" else None
    reader.check(row["detectable"] == shown and promised <= row["threshold"], "out of reach", text, promised)
    _limit(reader, text, row, limit)


# --- the checks, each with its question

CHECKED = {
    "Could the source be read?": lambda r: (
        r["reason"] not in ("relation_error", "warehouse_failed", "unresolved_failed")
    ),
    "Are there rows to look at?": lambda r: r["reason"] != "no_rows",
    "Is the window outside the baseline's own time?": lambda r: r["reason"] != "in_baseline",
    "Is there a baseline to compare with?": lambda r: r["reason"] != "no_baseline",
    "Was the baseline pinned under the present settings of the source?": lambda r: r["reason"] != "settings_changed",
    "Can the bins be compared?": lambda r: r["reason"] != "scores_moved",
    "Were few enough rows rejected?": lambda r: r["reason"] != "rejected_rows",
    "Were the rows accepted?": lambda r: r["reason"] != "rejected_rows",
    "Were enough rows accepted?": lambda r: r["reason"] != "rejected_rows",
    "Are enough truths known?": lambda r: r["reason"] != "not_mature",
    "Is it beyond the threshold?": lambda r: bool(r["detail"].get("beyond")),
    "Is it confirmed?": lambda r: r["p_adjusted"] is not None and r["p_adjusted"] < r["detail"]["rate"],
    "Is there enough evidence?": lambda r: r["detail"]["evidence"] >= r["detail"]["needed"],
    "Is it significant?": lambda r: r["p_adjusted"] is not None and r["p_adjusted"] < r["detail"]["rate"],
    "Has the test a result?": lambda r: r["value"] is not None,
    "Could a change that matters have been seen?": lambda r: bool(r["detail"].get("adequate")),
    "Does another share of true items explain it?": lambda r: r["reason"] == "class_mix",
    "Does the label behave differently at equal scores?": lambda r: r["detail"]["p_rate"] < r["detail"]["rate"],
}


def _check_class_mix(reader: Reader, text: str, row: Row, answer: str) -> None:
    """Of what other share of true items a rise was expected, and how likely that was chance."""
    mix = row["detail"].get("class_mix", {})
    found = re.match(
        rf"(?P<then>{N}%) were true, now (?P<now>{N}%) \((?P<p>.+?)\), which brings (?P<rise>{N}); .+? has (?P<fit>p [=<] {N})",
        answer,
    )
    if not reader.check(found is not None, "class mix", text, mix) or found is None:
        return
    reader.number("true items", text, found["now"], mix.get("now"), scale=100)
    reader.number("true items before", text, found["then"], mix.get("then"), scale=100)
    reader.number("expected rise", text, found["rise"], mix.get("expected_rise"))
    for name, said in (("p_value", found["p"]), ("fit", found["fit"])):
        _probability(reader, text, said[4:], mix.get(name))  # without "p = "


def _check_behaviour(reader: Reader, text: str, row: Row, answer: str) -> None:
    """How likely the gaps at equal scores are chance."""
    found = re.fullmatch(
        rf"with the gaps of both windows pooled (?P<p>p [=<] {N}), (?P<no>not )?below (?P<rate>{N})", answer
    )
    if not reader.check(found is not None, "change at equal scores", text, row["detail"]) or found is None:
        return
    _probability(reader, text, found["p"][4:], row["detail"]["p_rate"])
    reader.number("rate", text, found["rate"], row["detail"]["rate"])
    is_below = row["detail"]["p_rate"] < row["detail"]["rate"]
    reader.equal("change at equal scores", text, found["no"] is None, is_below)


MIXES = {
    "Does another share of true items explain it?": _check_class_mix,
    "Does the label behave differently at equal scores?": _check_behaviour,
}


@EXPLAINED.add(r"(?P<question>[A-Z][^?]+\?) (?P<said>Yes|No|Not known): (?P<answer>.+)\.")
def _check(reader: Reader, text: str, row: Row, question: str, said: str, answer: str) -> None:
    if re.match(r"Is each (?:of|window)", question):
        true = bool(row["detail"].get("streak"))
    elif question in CHECKED:
        true = CHECKED[question](row)
    else:
        reader.unknown(f"explanation: {text}")
        return
    reader.check(said == ("Yes" if true else "No"), "answer to a check", text, true)
    if question == "Is it beyond the threshold?":
        found = re.search(rf" (?P<value>{N}) is (?:not )?(?:more|less) than (?P<limit>{N})", answer)
        if found:
            reader.number("value", text, found["value"], _of(row))
            _limit(reader, text, row, found["limit"])
    if question in MIXES:
        MIXES[question](reader, text, row, answer)
    if question == "Has the test a result?":
        reader.number("value", text, answer.rsplit(maxsplit=1)[-1], row["value"])
    if question == "Could the source be read?" and row["reason"] == "unresolved_failed":
        check_missing_part(reader, text, answer, row)
    if question == "Is there enough evidence?":
        found = re.fullmatch(rf"evidence (?P<evidence>{N}) is (?:less than )?(?P<needed>{N})(?: or more)?", answer)
        if reader.check(found is not None, "evidence", text, row["detail"].get("evidence")) and found is not None:
            reader.number("evidence", text, found["evidence"], row["detail"]["evidence"])
            reader.number("evidence needed", text, found["needed"], row["detail"]["needed"])
    if "brings less than half" in answer:
        mix = row["detail"]["class_mix"]
        reader.check(2 * mix["expected_rise"] < row["low"], "part of the class mix", text, (mix, row["low"]))
    rows = re.search(rf"there (?:is|are) (?P<n>{N}) ", answer)
    if rows:
        reader.number("n", text, rows["n"], row["n"])


@EXPLAINED.add(
    r"Therefore: (?P<outcome>\w+) \((?P<reason>\w+)\)(?:: (?:above|below) the limit, not confirmed)?, (?P<why>.+)\."
)
def _therefore(reader: Reader, text: str, row: Row, outcome: str, reason: str, why: str) -> None:
    reader.equal("outcome", text, (outcome, reason), (row["outcome"], row["reason"]))
    for muted in re.findall(r"the rule leaves out (\w+) \(mute\)", why):
        known = reader.facts.rules[row["rule"]].mute if row["rule"] in reader.facts.rules else ()
        reader.check(muted in known and muted == row["reason"], "muted reason", text, known)
    for found in re.finditer(
        rf"and not breach because .*? (?P<value>{N}) is not (?:more|less) than (?P<limit>{N})", why
    ):
        reader.number("value", text, found["value"], _of(row))
        _limit(reader, text, row, found["limit"])
    reader.check(("not confirmed, and" in text) == (outcome == "unconfirmed"), "not confirmed", text, row["outcome"])
    if "is beyond the threshold" in why:
        reader.check(bool(row["detail"].get("beyond")), "beyond the threshold", text, row["detail"].get("beyond"))


@EXPLAINED.add(r"It asks for: (?P<what>.+)\.")
def _asks_for(reader: Reader, text: str, row: Row, what: str) -> None:
    reader.check(row["outcome"] == "breach", "asks for actions", text, row["outcome"])
    said = ("a message" in what, "automation off" in what, "score ranges" in what)
    true = tuple(kind in row["actions"] for kind in ("slack", "disable_automation", "block_scores"))
    reader.equal("actions", text, said, true)
    named = re.search(r"automation off for (.+?)(?:, no automation in|$)", what)
    off = row["detail"].get("turns_off") or () if "disable_automation" in row["actions"] else ()
    places = "; ".join(str(segment_words({"detail": {"segment": list(segment)}})) for segment in off)
    reader.equal("segments turned off", text, named[1] if named else "", places)


@EXPLAINED.add(r"More: docs/runbook/(?P<reason>\w+)\.md(?: and docs/rules/(?P<rule>[\w-]+)\.md)?")
def _more(reader: Reader, text: str, row: Row, reason: str, rule: Any) -> None:
    has_page = (DOCS / "rules" / f"{row['rule']}.md").exists()
    reader.equal("pages", text, (reason, rule), (row["reason"], row["rule"] if has_page else None))


@EXPLAINED.add(
    r"Note: alerts\.yaml has changed since this verdict \(revision (?P<then>\w+) then, (?P<now>\w+) now\)\. What follows is "
    r"what was stored with it, and says nothing about the rules of today\."
)
def _other_rules(reader: Reader, text: str, row: Row, then: str, now: str) -> None:
    reader.equal("revision then", text, then, row["rules_revision"])
    edited = [edit for edit in reader.facts.troubles.edits if row["stored_at"] <= edit.at <= reader.facts.now]
    reader.check(bool(edited) and then != now, "alerts.yaml that has changed", text, reader.facts.troubles.edits)


@EXPLAINED.add(r"Note: this window has been judged again since, on other rows or rules: see (?P<id>\w+)\.")
def _newer(reader: Reader, text: str, row: Row, id: str) -> None:
    found = reader.facts.verdict(id)
    reader.check(bool(found["current"]) and not row["current"], "judged again", text, found["current"])


ADVICE: dict[str, tuple[str, ...]] = {}


@EXPLAINED.add(r"What to do: (?P<advice>.+)")
def _advice(reader: Reader, text: str, row: Row, advice: str) -> None:
    check_advice(reader, text, advice, row)


def check_advice(reader: Reader, text: str, advice: str, row: Row) -> None:
    """Advice is not against the verdict: nothing to do where nothing is, something where there is."""
    calm = advice.startswith(("Nothing to do", "Not confirmed: "))
    if advice.startswith("Not confirmed"):
        reader.equal("advice", text, row["outcome"], "unconfirmed")
    if row["outcome"] in ("ok", "unconfirmed"):
        reader.check(calm, "advice", text, row["outcome"])
    if row["outcome"] == "breach":
        reader.check(not calm, "advice", text, row["outcome"])
    if "turned on again" in advice or "Let people decide" in advice:
        reader.check(row["outcome"] == "breach", "advice to leave it to people", text, row["outcome"])
    if "pin a baseline under them" in advice:
        reader.equal("advice to pin again", text, row["reason"], "settings_changed")
    if "Pin a baseline" in advice:
        reader.equal("advice to pin", text, row["reason"], "no_baseline")


EXPLAINED.add(fixed("How it was decided, in this order:"))(nothing)
EXPLAINED.add(r"Worth: .+")(nothing)
