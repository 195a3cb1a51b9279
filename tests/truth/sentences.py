"""The sentences that several texts share: what a verdict says, the state of a label, the state of an incident, harm.

Each grammar here is read with the row it is about: a verdict, an incident, the verdicts of a label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.truth.claims import Grammar, Reader, same_minute, who_of
from tests.truth.facts import Facts, Row

NUMBER = r"[−+-]?[\d,]*\.?\d+(?:e[-+]\d+)?"
WEEK = r"\d{4}-W\d\d|\d{4}-\d\d-\d\d"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d"
TITLES = {
    "ECE": "ece", "MCE": "mce", "overconfidence": "overconfidence", "ROC AUC": "roc_auc", "Brier score": "brier",
    "KS distance": "ks", "expected accuracy (an estimate)": "expected_accuracy",
    "expected overconfidence (an estimate)": "expected_overconfidence", "expected ECE (an estimate)": "expected_ece",
}  # fmt: skip
TITLE = "|".join(map(re.escape, TITLES))
PUT_BACK = "the history was put back from a backup, and no operator has confirmed it"
UNITS = {"weekly": "week", "daily": "day"}

# --- what a verdict says

VERDICT = Grammar("verdict in words")
_WHO = r"(?P<who>.+?) "
_POOLED = r"(?: \((?P<pooled>\d+) (?:weeks|days) pooled\))?"
_ROWS = "(?P<rows>automated items|items given this label|items)"


def _begins(
    reader: Reader, text: str, row: Row, who: str, outcome: str, pooled: str | None = None, *, whose: str = ""
) -> None:
    reader.equal("label", text, who, who_of(row))
    reader.equal("outcome", text, outcome, row["outcome"])
    _compared(reader, text, row)
    if row["outcome"] in ("breach", "unconfirmed"):
        reader.equal("windows pooled", text, int(pooled or 1), _pooled_of(row))


_BEFORE = r"(?:(?P<weeks>\d+) weeks|week) before"
_REFERENCE = r"(?:the )?(?:baseline|(?:\d+ weeks|week) before)"


def _compared(reader: Reader, text: str, row: Row) -> None:
    """A change is said to be from the baseline, or from as many weeks before as it was measured against."""
    found, weeks = re.search(_BEFORE, text), row["detail"].get("reference", {}).get("weeks")
    if found is not None or "baseline" in text:
        said = None if found is None else int(found["weeks"] or 1)
        reader.equal("compared with", text, said, weeks)


def _pooled_of(row: Row) -> int:
    """How many windows the value is of: those beyond what the rule asks for anyway."""
    asks = int(row["detail"].get("asks", 1))
    return 1 if row["windows"] <= asks else int(row["windows"])


_PLACE = r"(?: in (?P<place>.+?))?"


def segment_words(row: Row) -> str | None:
    """The part of the label's rows that the numbers of a verdict are of, as sentences name it; None for all of them."""
    found = row["detail"].get("segment")
    if "small_labels" in row["detail"]:
        return f"{row['detail']['small_labels']:,} small labels"
    if found is None:
        return None
    return f"scores {found[1]}" if found[0] == "score_band" else " = ".join(found)


_MIX = rf"(?:, as expected of (?P<share>{NUMBER})% true items instead of (?P<before>{NUMBER})% \((?P<rise>{NUMBER})(?P<scale> points)?\))?"


def _mixed(reader: Reader, text: str, row: Row, found: dict[str, Any]) -> None:
    """What is said of a change of the class mix, and only where that is the reason."""
    said = found["share"] is not None
    reader.equal("class mix", text, said, row["reason"] == "class_mix")
    if said:
        mix = row["detail"]["class_mix"]
        reader.number("true items", text, found["share"], mix["now"], scale=100)
        reader.number("true items before", text, found["before"], mix["then"], scale=100)
        reader.number("expected rise", text, found["rise"], mix["expected_rise"], scale=100 if found["scale"] else 1)


@VERDICT.add(
    rf"{_WHO}is overconfident(?: in (?P<place>.+?))?: (?P<kept>{NUMBER}%)(?: of {_ROWS})? correct, "
    rf"scores claimed (?P<promised>{NUMBER}%)(?:, likeliest in (?P<likeliest>.+?))?{_MIX}{_POOLED}"
)
def _overconfident(
    reader: Reader, text: str, row: Row, who: str, place: Any, kept: str, rows: Any, promised: str, pooled: Any,
    likeliest: Any, **mix: Any,
) -> None:  # fmt: skip
    _mixed(reader, text, row, mix)
    reader.equal("likeliest", text, likeliest or "", ", ".join(each[0] for each in row["detail"].get("likeliest", ())))
    _begins(reader, text, row, who, "breach", pooled)
    reader.equal("segment", text, place, segment_words(row))
    reader.equal("metric", text, "overconfidence", row["metric"])
    reader.number("correct", text, kept, row["detail"]["kept"], scale=100)
    reader.number("claimed", text, promised, row["detail"]["promised"], scale=100)
    of = {"automated": None, "predicted": "items given this label", "all": "items"}
    reader.check(rows in (of[row["population"]], "automated items"), "population", text, row["population"])


@VERDICT.add(
    rf"{_WHO}calibration got worse: (?P<title>{TITLE}) (?P<now>{NUMBER}){_PLACE}, was (?P<then>{NUMBER}) in {_REFERENCE}"
    rf"{_MIX}{_POOLED}"
)
def _worse(
    reader: Reader, text: str, row: Row, who: str, title: str, now: str, then: str, place: Any, pooled: Any, **mix: Any
) -> None:
    _begins(reader, text, row, who, "breach", pooled)
    reader.equal("segment", text, place, segment_words(row))
    reader.equal("metric", text, TITLES[title], row["metric"])
    reader.check(row["reason"] in ("increased", "class_mix"), "reason", text, row["reason"])
    _mixed(reader, text, row, mix)
    reader.number("value", text, now, row["value"])
    reader.number("baseline", text, then, row["baseline"])


@VERDICT.add(
    rf"{_WHO}has more traffic where scores were already wrong: (?P<title>{TITLE}) (?P<now>{NUMBER}){_PLACE}, "
    rf"was (?P<then>{NUMBER}) in {_REFERENCE}; at equal scores no change was found{_POOLED}"
)
def _more_traffic(
    reader: Reader, text: str, row: Row, who: str, title: str, now: str, then: str, place: Any, pooled: Any
) -> None:
    _begins(reader, text, row, who, "breach", pooled)
    reader.equal("segment", text, place, segment_words(row))
    reader.equal("metric", text, TITLES[title], row["metric"])
    reader.equal("traffic", text, "traffic_mix", row["reason"])
    reader.check(row["detail"]["p_rate"] >= row["detail"]["rate"], "no change at equal scores", text, row["detail"])
    reader.number("value", text, now, row["value"])
    reader.number("baseline", text, then, row["baseline"])


@VERDICT.add(
    rf"{_WHO}scores are distributed differently than in {_REFERENCE}: (?P<title>{TITLE}) (?P<now>{NUMBER}), "
    rf"at most (?P<limit>{NUMBER}) allowed{_POOLED}"
)
def _shifted(reader: Reader, text: str, row: Row, who: str, title: str, now: str, limit: str, pooled: Any) -> None:
    _begins(reader, text, row, who, "breach", pooled)
    reader.equal("metric", text, TITLES[title], row["metric"])
    reader.equal("reason", text, "distribution_shifted", row["reason"])
    reader.equal("what is distributed", text, "score", row["detail"]["column"])
    reader.number("value", text, now, row["value"])
    reader.number("limit", text, limit, row["threshold"])


@VERDICT.add(
    rf"{_WHO}got more overconfident among (?P<rows>all items|items given this label|items with scores from automate_at on): "
    rf"(?P<way>over|under)confident by (?P<now>{NUMBER}) points{_PLACE}, (?P<was>over|under)confident by "
    rf"(?P<then>{NUMBER}) points in {_REFERENCE}{_MIX}{_POOLED}"
)
def _more_overconfident(
    reader: Reader, text: str, row: Row, who: str, rows: str, way: str, now: str, place: Any, was: str, then: str,
    pooled: Any, **mix: Any,
) -> None:  # fmt: skip
    _begins(reader, text, row, who, "breach", pooled)
    reader.equal("segment", text, place, segment_words(row))
    reader.equal("metric", text, "overconfidence", row["metric"])
    of = {"all": "all items", "predicted": "items given this label"}
    reader.equal("population", text, rows, of.get(row["population"], "items with scores from automate_at on"))
    _mixed(reader, text, row, mix)
    signs = {"over": 1, "under": -1}
    reader.number("value", text, now, signs[way] * row["value"], scale=100)
    reader.number("baseline", text, then, signs[was] * row["baseline"], scale=100)


@VERDICT.add(
    rf"{_WHO}(?:separates right from wrong worse|is correct less often) than before: "
    rf"(?P<title>{TITLE}|PR AUC|accuracy) (?P<now>{NUMBER}%?){_PLACE}, was (?P<then>{NUMBER}%?) in {_REFERENCE}"
    rf"{_POOLED}"
)
def _fell(
    reader: Reader, text: str, row: Row, who: str, title: str, now: str, then: str, place: Any, pooled: Any
) -> None:
    reader.equal("segment", text, place, segment_words(row))
    _begins(reader, text, row, who, "breach", pooled)
    reader.equal("metric", text, {**TITLES, "PR AUC": "pr_auc", "accuracy": "accuracy"}[title], row["metric"])
    reader.equal("reason", text, "decreased", row["reason"])
    scale = 100 if now.endswith("%") else 1
    reader.number("value", text, now, row["value"], scale=scale)
    reader.number("baseline", text, then, row["baseline"], scale=scale)
    reader.check(row["value"] < row["baseline"], "direction", text, row["change"])


@VERDICT.add(
    rf"{_WHO}is worst in scores (?P<low>[\d.]+) to (?P<high>[\d.]+){_PLACE}: (?P<off>{NUMBER}) points too (?P<way>high|low)"
    rf"(?: \({_REFERENCE} (?P<then>{NUMBER}) points\)|, at most (?P<limit>{NUMBER}) points allowed){_MIX}{_POOLED}"
)
def _worst_range(
    reader: Reader, text: str, row: Row, who: str, low: str, high: str, off: str, way: str, then: Any, limit: Any,
    place: Any, pooled: Any, **mix: Any,
) -> None:  # fmt: skip
    reader.equal("segment", text, place, segment_words(row))
    _mixed(reader, text, row, mix)
    _begins(reader, text, row, who, "breach", pooled)
    ends = row["detail"]["worst_range"]
    reader.number("worst range", text, low, ends[0])
    reader.number("worst range", text, high, ends[1])
    reader.number("worst gap", text, off, row["value"], scale=100)
    reader.equal("direction", text, way, "high" if row["detail"]["worst_gap"] < 0 else "low")
    reader.number("limit", text, limit, row["threshold"], scale=100)
    if then is not None:
        reader.number("baseline", text, then, row["baseline"], scale=100)


@VERDICT.add(
    rf"{_WHO}calibration is poor{_PLACE}: (?P<title>{TITLE}) (?P<now>{NUMBER}), at most (?P<limit>{NUMBER}) allowed"
    rf"(?:, (?P<running>\d+) (?:days|weeks) in a row)?{_POOLED}(?:, (?P<later>\d+) (?:days|weeks) in a row)?"
)
def _poor(
    reader: Reader,
    text: str,
    row: Row,
    who: str,
    title: str,
    now: str,
    limit: str,
    place: Any,
    running: Any,
    pooled: Any,
    later: Any,
) -> None:
    reader.equal("segment", text, place, segment_words(row))
    _begins(reader, text, row, who, "breach", pooled)
    reader.equal("metric", text, TITLES[title], row["metric"])
    reader.number("value", text, now, row["value"])
    reader.number("limit", text, limit, row["threshold"])
    reader.equal("in a row", text, int(running or later or 1), row["detail"]["asks"])


_HELD = (
    rf"(?:(?P<title>{TITLE}) (?P<now>{NUMBER})(?: in (?P<of>.+?))?(?:, (?P<change>{NUMBER}) from {_REFERENCE})? "
    rf"\(limit (?P<limit>{NUMBER})\)"
    rf"|overconfident by (?P<points>{NUMBER}) points(?: in (?P<place>.+?))?"
    rf"(?:, (?P<more>{NUMBER}) points from {_REFERENCE})? \(limit (?P<most>{NUMBER}) points\)"
    rf"|underconfident by (?P<under>{NUMBER}) points(?: in (?P<part>.+?))?"
    rf"(?:, (?P<less>{NUMBER}) points from {_REFERENCE})? \(limit (?P<least>{NUMBER}) points\))"
    r"(?:, (?P<judged>\d+) of (?P<parts>\d+) segments judged)?"
)


def _held(reader: Reader, text: str, row: Row, found: dict[str, Any]) -> None:
    reader.equal("segment", text, found["place"] or found["part"] or found["of"], segment_words(row))
    reader.number("change", text, found["more"] or found["less"], row["change"], scale=100)
    if found["judged"] is not None:
        said = (int(found["judged"]), int(found["parts"]))
        reader.equal("segments", text, said, (row["detail"]["segments_judged"], row["detail"]["segments"]))
    if found["title"] is not None:
        reader.equal("metric", text, TITLES[found["title"]], row["metric"])
        reader.number("value", text, found["now"], row["value"])
        reader.number("change", text, found["change"], row["change"])
        reader.number("limit", text, found["limit"], row["threshold"])
    elif found["points"] is not None:
        reader.number("value", text, found["points"], row["value"], scale=100)
        reader.number("limit", text, found["most"], row["threshold"], scale=100)
    else:
        reader.number("value", text, found["under"], -row["value"], scale=100)
        reader.number("limit", text, found["least"], row["threshold"], scale=100)


@VERDICT.add(
    rf"{_WHO}is (?:above|below) the limit, not confirmed: {_HELD}{_POOLED}, "
    rf"(?:adjusted p (?P<p>{NUMBER}|unknown)|as expected of (?P<share>{NUMBER})% true items instead of "
    rf"(?P<before>{NUMBER})% \((?P<rise>{NUMBER})(?P<scale> points)?\)|(?P<traffic>from more traffic where scores were wrong)|but not yet (?P<asks>\d+) (?:days|weeks) in a row|"
    r"but (?:not|(?P<few>with too few rows)) in its newest (?P<newest>day|week|\d+ days|\d+ weeks)(?(few)| alone)"
    rf"|evidence (?P<evidence>{NUMBER}) of the (?P<needed>{NUMBER}) needed)(?: \((?P<later>\d+) (?:weeks|days) pooled\))?"
)
def _unconfirmed(
    reader: Reader,
    text: str,
    row: Row,
    who: str,
    pooled: Any,
    p: Any,
    asks: Any,
    few: Any,
    newest: Any,
    evidence: Any,
    later: Any,
    needed: Any,
    **found: Any,
) -> None:
    _begins(reader, text, row, who, "unconfirmed", pooled or later)
    _held(reader, text, row, found)
    _mixed(reader, text, row, found)
    reader.equal("traffic", text, found["traffic"] is not None, row["reason"] == "traffic_mix")
    reader.number("adjusted p", text, p, row["p_adjusted"])
    reader.number("evidence", text, evidence, row["detail"].get("evidence"))
    reader.number("evidence needed", text, needed, row["detail"].get("needed"))
    incomplete = row["reason"] == "streak_incomplete"
    reader.check(incomplete == (asks is not None or newest is not None), "why not confirmed", text, row["reason"])
    groups = row["detail"].get("groups", [])
    if asks is not None:
        reader.equal("asked for", text, int(asks), row["detail"]["asks"])
        fits = not groups or (groups[0]["beyond"] and not groups[0].get("too_few"))
        reader.check(fits, "newest window", text, groups)
    if newest is not None:
        reader.equal("windows", text, int(newest.split()[0]) if " " in newest else 1, groups[0]["windows"])
        reader.equal("too few rows", text, few is not None, bool(groups[0].get("too_few")))
        reader.check(few is not None or not groups[0]["beyond"], "newest window", text, groups)


_ALONE = r" in its newest (?P<newest>day|week|\d+ days|\d+ weeks) alone"


@VERDICT.add(
    rf"{_WHO}is (?:above|below) the limit, not confirmed: (?P<title>{TITLE}) (?P<alone>{NUMBER})(?: points)?{_PLACE}"
    rf"(?P<rise> from {_REFERENCE})?{_ALONE} \(limit (?P<limit>{NUMBER})(?: points)?\), (?P<all>{NUMBER})(?: points)? in all"
    rf"{_POOLED}"
)
@VERDICT.add(
    rf"{_WHO}is (?:above|below) the limit, not confirmed: (?P<way>over|under)confident by (?P<alone>{NUMBER}) points{_PLACE}{_ALONE} "
    rf"\(limit (?P<limit>{NUMBER}) points\), (?P<sense>over|under)confident by (?P<all>{NUMBER}) points in all{_POOLED}"
)
def _newest_beyond(
    reader: Reader, text: str, row: Row, who: str, alone: str, newest: str, limit: str, pooled: Any, **found: Any
) -> None:
    _begins(reader, text, row, who, "unconfirmed", pooled if row["windows"] > row["detail"]["asks"] else None)
    reader.check(pooled is None or int(pooled) == row["windows"], "windows pooled", text, row["windows"])
    reader.equal("segment", text, found["place"], segment_words(row))
    reader.equal("reason", text, row["reason"], "streak_incomplete")
    detail, title = row["detail"], found.get("title")
    group, scale = detail["groups"][0], 100 if row["metric"] == "overconfidence" else 1
    sign, sense = (-1 if found.get(name) == "under" else 1 for name in ("way", "sense"))
    reader.equal("metric", text, "overconfidence" if title is None else TITLES[title], row["metric"])
    reader.number("newest window", text, alone, sign * group["value"], scale=scale)
    together = row["value" if found.get("rise") is None else "change"]
    reader.number("all windows", text, found["all"], sense * together, scale=scale)
    reader.number("limit", text, limit, row["threshold"], scale=scale)
    reader.equal("windows", text, int(newest.split(maxsplit=1)[0]) if " " in newest else 1, group["windows"])
    reader.check(group["beyond"] and not group.get("too_few"), "newest window", text, group)
    reader.check(detail["beyond"] is False and len(detail["groups"]) > 1, "all windows", text, detail["groups"])


@VERDICT.add(rf"{_WHO}is within the limit: {_HELD}{_POOLED}")
def _within(reader: Reader, text: str, row: Row, who: str, pooled: Any, **found: Any) -> None:
    _begins(reader, text, row, who, "ok", pooled)
    _held(reader, text, row, found)


_EXPECTED = r"(?P<title>expected (?:accuracy|overconfidence|ECE) \(an estimate\))"
_VALUE, _LIMIT = (rf"(?P<{name}>{NUMBER})(?P<{name}_unit>%| points)?" for name in ("now", "limit"))


def _estimated(reader: Reader, text: str, row: Row, found: dict[str, Any]) -> None:
    """An estimate before the truth is one, of the metric that is named, with its value and limit."""
    reader.check(bool(row["detail"].get("before_truth")), "estimate", text, row["metric"])
    reader.equal("metric", text, TITLES[found["title"]], row["metric"])
    reader.number("value", text, found["now"], row["value"], scale=100 if found["now_unit"] else 1)
    reader.number("limit", text, found["limit"], row["threshold"], scale=100 if found["limit_unit"] else 1)


@VERDICT.add(
    rf"{_WHO}is (?P<way>lower|worse) than allowed: {_EXPECTED} {_VALUE}, at (?P<end>least|most) {_LIMIT} (?:required|allowed)"
)
def _estimate_beyond(reader: Reader, text: str, row: Row, who: str, way: str, end: str, **found: Any) -> None:
    _begins(reader, text, row, who, "breach")
    _estimated(reader, text, row, found)
    below = row["reason"] == "below_threshold"
    reader.equal("direction", text, (way, end), ("lower", "least") if below else ("worse", "most"))


@VERDICT.add(
    rf"{_WHO}is (?:within the limit|(?P<side>above|below) the limit, not confirmed): {_EXPECTED} {_VALUE} \(limit {_LIMIT}\)"
    rf"(?:, adjusted p (?P<p>{NUMBER}|unknown))?"
)
def _estimate_held(reader: Reader, text: str, row: Row, who: str, side: Any, p: Any, **found: Any) -> None:
    _begins(reader, text, row, who, "ok" if side is None else "unconfirmed")
    _estimated(reader, text, row, found)
    reader.number("adjusted p", text, p, row["p_adjusted"])


@VERDICT.add(rf"{_WHO}was not judged: the baseline was pinned under other settings of the source \((?P<changed>.+)\)")
def _other_settings(reader: Reader, text: str, row: Row, who: str, changed: str) -> None:
    _begins(reader, text, row, who, "not_evaluated")
    reader.equal("reason", text, "settings_changed", row["reason"])
    if reader.facts is not None:
        reader.equal("what was edited since", text, changed, reader.facts.told.changed.get(row["id"]))
    for name, *_ in row["detail"].get("settings", ()):
        reader.check(f"{name}: " in changed, "a changed setting", text, name)


@VERDICT.add(rf"{_WHO}was not judged: no item of this window waits for its outcome")
def _none_waits(reader: Reader, text: str, row: Row, who: str) -> None:
    _begins(reader, text, row, who, "not_evaluated")
    reader.equal("reason", text, "no_rows", row["reason"])
    reader.check(bool(row["detail"].get("before_truth")) and row["n"] == 0, "waiting items", text, row["n"])


_REASONS = {
    "there is no baseline to compare with yet": "no_baseline",
    "none of its labels has a baseline to compare with yet": "no_baseline",
    "the weeks before had no rows to compare with": "no_baseline",
    "its scores moved, too few are comparable with the weeks before": "scores_moved",
    "this window is part of the baseline": "in_baseline",
    "the source could not be read as configured": "relation_error",
    "the warehouse did not answer": "warehouse_failed",
    "which items wait for their truth could not be read": "unresolved_failed",
    "when the truths of its items came could not be read": "unresolved_failed",
    "no item with a known outcome arrived": "no_rows",
    "too many of its rows were rejected": "rejected_rows",
    "its scores lie elsewhere now, too few are comparable with the baseline": "scores_moved",
    "its scores moved, too few are comparable with the baseline": "scores_moved",
}  # fmt: skip


def check_missing_part(reader: Reader, text: str, said: str, row: Row) -> None:
    """The part that is named could not be read by the plan, and it is the one that the rule needs."""
    part = "delays_failed" if "when the truths of its items came" in said else "unresolved_failed"
    planned = reader.facts.told.unread_of(row)
    reader.check(part in planned, "part that could not be read", text, planned)
    reader.equal("part that a rule needs", text, part == "unresolved_failed", row["metric"].startswith("expected_"))


_WAITS = re.compile(
    rf"(?P<share>{NUMBER})% of (?P<items>{NUMBER}) items have their truth, (?P<of>{NUMBER})% of those expected at most;"
    rf" the rule waits for (?P<least>{NUMBER})%"
)


def _waiting(reader: Reader, text: str, found: re.Match[str], known: Row) -> None:
    """Items, those with their truth, and what the rule waits for are those of the verdict."""
    reader.number("items", text, found["items"], known["items"])
    reader.number("share with a truth", text, found["share"], known["known"] / known["items"], scale=100)
    reader.number("of the expected", text, found["of"], known["of_expected"], scale=100)
    reader.number("waits for", text, found["least"], known["least"], scale=100)


@VERDICT.add(rf"{_WHO}was not judged: (?P<why>.+)")
def _not_judged(reader: Reader, text: str, row: Row, who: str, why: str) -> None:
    _begins(reader, text, row, who, "not_evaluated")
    few = re.match(
        rf"(?:with )?(?P<rows>{NUMBER}) rows?(?: in (?P<place>.+?)(?= \(| only| is too| are too))?(?: \((?P<needed>{NUMBER}) are needed\))?",
        why,
    )
    plain = re.sub(_BEFORE, "weeks before", why)
    known = next((reason for words, reason in _REASONS.items() if plain.startswith(words)), None)
    if known is not None:
        reader.equal("reason", text, known, row["reason"])
        if known == "unresolved_failed":
            check_missing_part(reader, text, why, row)
    elif (waits := _WAITS.fullmatch(why)) is not None:
        reader.equal("reason", text, "not_mature", row["reason"])
        _waiting(reader, text, waits, row["detail"]["maturity"])
    elif few is not None:
        reader.equal("reason", text, "too_few_rows", row["reason"])
        reader.number("rows", text, few["rows"], row["n"])
        reader.number("rows needed", text, few["needed"], row["detail"].get("rows_needed"))
        reader.equal("segment", text, few["place"], segment_words(row))
    else:
        reader.unknown(f"why not judged: {text}")


# --- how far truths are known

MATURITY = Grammar("how far truths are known")


@MATURITY.add(
    rf"(?P<share>{NUMBER})% of (?P<items>{NUMBER}) items have their truth; "
    rf"(?:how many will is not known|(?P<low>{NUMBER})%(?: to (?P<high>{NUMBER})%)? are expected in the end):"
    r" (?P<state>final|provisional)"
)
def _known(reader: Reader, text: str, row: Row, share: str, items: str, state: str, **limits: str | None) -> None:
    """``row`` is one of the table maturities. Final: 99.5% of what may be expected at most, or older than all delays."""
    reader.number("items", text, items, row["items"])
    reader.number("share with a truth", text, share, row["known"] / row["items"], scale=100)
    reader.number("expected at least", text, limits["low"], row["low"], scale=100)
    reader.number("expected at most", text, limits["high"], row["high"], scale=100)
    reader.equal("what is expected", text, limits["low"] is None, row["low"] is None)
    most = 1.0 if row["high"] is None else row["high"]
    final = row["over"] or row["known"] / row["items"] >= 0.995 * most
    reader.equal("state", text, state, "final" if final else "provisional")


# --- the state of a label

_CLAUSES = re.compile(
    r"(?P<severity>critical|warning|info) breach: (?P<breach>.+)|(?:above|below) the limit, not confirmed: (?P<unsure>.+)"
    r"|not evaluated: (?P<silent>.+)|(?P<ok>ok: (?:all (?P<many>\d+) rules were|its rule was) evaluated)|(?P<none>no rule)"
)
_RULES = re.compile(r"([\w-]+) \((\w+)\)(?:, |$)")
_BY_REASON = re.compile(r"(\w+) \(([\w, -]+)\)(?:, |$)")


def state_of(verdicts: list[Row]) -> str:
    """The worst state that verdicts give, worst first: breach, unconfirmed, not_evaluated, ok, no_rule."""
    outcomes = {v["outcome"] for v in verdicts}
    return next((each for each in ("breach", "unconfirmed", "not_evaluated", "ok") if each in outcomes), "no_rule")


_COUNTS = re.compile(
    r"(?P<breach>[\d,]+) of (?P<all>[\d,]+) labels? in breach"
    r"(?:; (?P<unconfirmed>[\d,]+) beyond the limit, not confirmed)?(?:; (?P<not_evaluated>[\d,]+) with rules not evaluated)?"
    r"(?:; (?P<ok>[\d,]+) ok)?(?:; (?P<no_rule>[\d,]+) without a rule)?"
)


# --- harm

_COUNT = r"about (?P<count>[\d,]+) (?P<way>more|fewer)"
_LIMITS = r"(?: \((?P<low>[−-]?[\d,]+) to (?P<high>[−-]?[\d,]+)\))?"
HARM = re.compile(
    rf"(?P<happened>{_COUNT} wrong than scores claimed{_LIMITS}(?:: .*)?)"
    .replace("(?P<count>", "(?P<count1>").replace("(?P<way>", "(?P<way1>").replace("(?P<low>", "(?P<low1>")
    .replace("(?P<high>", "(?P<high1>")
    + rf"|(?P<averted>automation was off the whole (?:week|day): {_COUNT} would have been wrong than scores claimed{_LIMITS}(?:; .*)?)"
    .replace("(?P<count>", "(?P<count2>").replace("(?P<way>", "(?P<way2>").replace("(?P<low>", "(?P<low2>")
    .replace("(?P<high>", "(?P<high2>")
    + rf"|(?P<estimated>{_COUNT} wrong than scores claimed{_LIMITS}, (?:an estimated (?P<done>[\d,]+) of them|but an estimated (?P<beyond>[\d,]+) (?P<way4>more|fewer)) while automation was on "
    r"\((?:(?:(?P<share>\d+)|(?P<almost>less than 1|more than 99))% of the (?:week|day)|the whole (?:week|day)|some labels or some of the (?:week|day))"
    r"(?:, (?:scores (?P<blocked>[^()=]+?) blocked)?(?: and )?(?:(?P<parts>[^()]+? = .+?) off)? "
    r"for (?P<throughout>all|some) of it, but counted)?(?:, from higher scores for some of it)?\)(?:; .*)?)"
)  # fmt: skip


def check_harm(
    reader: Reader, text: str, source: str, label: str, start: datetime, end: datetime, excess: float
) -> None:
    """Harm counts the time that automation was on; otherwise it would have been."""
    found = HARM.fullmatch(text)
    if found is None:
        reader.unknown(f"harm: {text}")
        return
    share = reader.facts.on_share(source, label, start, end)
    count = found["count1"] or found["count2"] or found["count"]
    way = found["way1"] or found["way2"] or found["way"]
    reader.check(abs(int(count.replace(",", "")) - abs(excess)) <= 0.51, "wrong items", text, f"{excess:.1f}")
    reader.check((way == "more") == (excess >= 0), "more or fewer", text, f"{excess:.1f}")
    kind = "happened" if found["happened"] else "averted" if found["averted"] else "estimated"
    true = {"happened": share > 1 - 1e-6, "averted": share < 1e-6, "estimated": share > 1e-6}[kind]
    reader.check(true, "harm by the time automation was on", text, f"on for {share:.1%} of the window")
    if found["share"]:
        reader.check(abs(int(found["share"]) - 100 * share) <= 0.51, "share of the time", text, f"{share:.1%}")
    if found["almost"]:
        almost = 0 < share < 0.01 if found["almost"] == "less than 1" else 0.99 < share < 1
        reader.check(almost, "share of the time", text, f"{share:.1%}")
    if kind == "estimated" and "some labels" not in text:
        closed = reader.facts.closed_parts(source, label, start, end)
        words = None if not any(closed) else "all" if len(closed) == 1 else "some"
        reader.equal("closed while automation was on", text, found["throughout"], words)


def check_harm_of_source(reader: Reader, text: str, source: str, row: Row) -> None:
    """Of a source as a whole, automation made what it made of each label: its own errors, by its own time."""
    found = HARM.fullmatch(text)
    if found is None:
        reader.unknown(f"harm: {text}")
        return
    facts, start, end = reader.facts, row["window_start"], row["window_end"]
    labels = [each for of, each in facts.labels() if of == source]
    known = [(excess_of(facts, {**row, "label": label}), facts.on_share(source, label, start, end)) for label in labels]
    made = sum(excess * share for excess, share in known if excess is not None)
    shares = [share for excess, share in known if excess is not None]
    kind = "happened" if found["happened"] else "averted" if found["averted"] else "estimated"
    on = all(share > 1 - 1e-6 for share in shares), all(share < 1e-6 for share in shares)
    true = {"happened": on[0], "averted": on[1], "estimated": not on[1]}[kind]
    reader.check(true, "harm of a source by the time its labels were on", text, str(shares))
    if kind == "estimated":
        said = int((found["done"] or found["beyond"]).replace(",", ""))
        reader.check(abs(said - abs(made)) <= 0.51, "harm of a source while its labels were on", text, f"{made:.1f}")
    if found["beyond"]:
        reader.check((found["way4"] == "more") == (made >= 0), "more or fewer while on", text, f"{made:.1f}")


def excess_of(facts: Facts, row: Row) -> float | None:
    """How many more of the items from ``automate_at`` on were wrong than their scores promised."""
    found = facts.estimate(
        row["schedule"], row["window_name"], row["source"], row["label"] or None, "overconfidence", "automated"
    )
    return (
        None
        if found is None or found["value"] is None
        else found["value"] * (found["detail"] or {}).get("items", found["n"])
    )


# --- the state of an incident, and what just happened to it


@dataclass(frozen=True)
class About:
    """The incident a sentence is about, and the facts."""

    facts: Facts
    incident: Row

    @property
    def unit(self) -> str:
        return UNITS[self.incident["schedule"]]

    @property
    def last_breach(self) -> Row:
        return self.facts.verdicts[self.incident["last_verdict"]]

    def verdict_in(self, window: str) -> Row | None:
        """The newest verdict of its rule on its label in a window."""
        i = self.incident
        found = [
            v for v in self.facts.verdicts.values()
            if v["current"] and (v["rule"], v["source"], v["label"], v["window_name"]) == (i["rule"], i["source"], i["label"], window)
        ]  # fmt: skip
        return found[0] if found else None

    @property
    def newest(self) -> Row | None:
        """The newest verdict of its rule on its label that an evaluation has stored.

        One of a newer window that judged nothing, while there was no breach to keep open, is no news of it, and neither
        is one that waits for truths: where it is the window of the breach that waits now, that breach is the newest news.
        """
        i = self.incident
        began = [e["at"] for e in self.facts.events_of(i["id"]) if e["kind"] in ("opened", "reopened")]
        since = max(began, default=i["opened_at"])
        mine = [
            v for v in self.facts.verdicts.values()
            if v["current"] and (v["rule"], v["source"], v["label"]) == (i["rule"], i["source"], i["label"])
            and (v["outcome"] != "not_evaluated" or v["stored_at"] >= since) and v["reason"] != "not_mature"
        ]  # fmt: skip
        newest, breach = max(mine, key=lambda v: v["window_start"], default=None), self.last_breach
        again = self.verdict_in(breach["window_name"])
        waits = again is not None and again["reason"] == "not_mature"
        return breach if waits and (newest is None or newest["window_start"] < breach["window_start"]) else newest

    def windows_since(self, first: str, last: str) -> int:
        """How many windows there are from one to another, both included."""
        start, end = (self._start(name) for name in (first, last))
        length = timedelta(days=7 if self.incident["schedule"] == "weekly" else 1)
        return round((end - start) / length) + 1

    def _start(self, name: str) -> datetime:
        pattern = "%G-W%V-%u" if "W" in name else "%Y-%m-%d"
        return datetime.strptime(f"{name}-1" if "W" in name else name, pattern)

    def breaches(self, first: str, last: str) -> int:
        """How many windows of a span its events count as breaches."""
        return sum(self._start(first) <= self._start(w) <= self._start(last) for w in self.in_breach)

    @property
    def in_breach(self) -> set[str]:
        """The windows that its events count as breaches; the last one of a window decides."""
        last: dict[str, str | None] = {}
        for event in self.facts.events_of(self.incident["id"]):
            if self._outcome(event) in ("ok", "breach"):
                last[event["window"]] = self._outcome(event)
        return {window for window, outcome in last.items() if window and outcome == "breach"}

    def _outcome(self, event: Row) -> str | None:
        verdict = self.facts.verdicts.get(event["verdict"] or "")
        return None if verdict is None else verdict["outcome"]


INCIDENT_STATE = Grammar("the state of an incident")
_N = r"(?P<n>\d+) (?P<unit>weeks?|days?)"


@INCIDENT_STATE.add(rf"[Aa]cknowledged by (?P<who>.+?), (?P<at>{TIME}) UTC")
def _acknowledged(reader: Reader, text: str, about: About, who: str, at: str) -> None:
    i = about.incident
    reader.equal("incident state", text, "acknowledged", i["state"])
    reader.equal("by whom", text, who, i["acknowledged_by"])
    reader.check(same_minute(at, i["acknowledged_at"]), "when", text, i["acknowledged_at"])


@INCIDENT_STATE.add(rf"[Ss]ilenced until (?P<until>{TIME}) UTC by (?P<who>.+?)")
def _silenced(reader: Reader, text: str, about: About, until: str, who: str) -> None:
    i = about.incident
    reader.equal("incident state", text, "silenced", i["state"])
    reader.equal("by whom", text, who, i["silenced_by"])
    reader.check(same_minute(until, i["silenced_until"]), "until", text, i["silenced_until"])


@INCIDENT_STATE.add(rf"[Ii]n breach for {_N} \(since (?P<since>{WEEK})\)")
def _in_breach_for(reader: Reader, text: str, about: About, n: str, unit: str, since: str) -> None:
    last = about.last_breach["window_name"]
    reader.equal("since", text, since, _first_window(about))
    reader.equal("unit", text, unit.rstrip("s"), about.unit)
    every = about.breaches(since, last)
    span = about.windows_since(since, last)
    reader.check(
        every == span == int(n), "every window a breach", text, f"{every} breaches in {span} windows to {last}"
    )


@INCIDENT_STATE.add(rf"[Ii]n breach in (?P<k>\d+) of {_N} since (?P<since>{WEEK}), last in (?P<last>{WEEK})")
def _in_breach_in(reader: Reader, text: str, about: About, k: str, n: str, unit: str, since: str, last: str) -> None:
    reader.equal("since", text, since, _first_window(about))
    reader.equal("last breach", text, last, about.last_breach["window_name"])
    reader.equal("breaches", text, int(k), about.breaches(since, last))
    newest = about.newest
    ends = {about.windows_since(since, last)}
    ends |= set() if newest is None else {about.windows_since(since, newest["window_name"])}
    reader.check(int(n) in ends, "windows since", text, sorted(ends))


def _first_window(about: About) -> str:
    """The window since which it is open: of the first breach after it was opened or came back."""
    return str(about.incident["opened_window"])


@INCIDENT_STATE.add(r"[Cc]ame back (?P<often>once|twice|\d+ times)")
def _came_back(reader: Reader, text: str, about: About, often: str) -> None:
    times = {"once": 1, "twice": 2}.get(often) or int(often.split(maxsplit=1)[0])
    reader.equal("came back", text, times, about.incident["reopened"])
    events = sum(e["kind"] == "reopened" for e in about.facts.events_of(about.incident["id"]))
    reader.equal("came back (events)", text, times, events)


def _newest_is(
    reader: Reader, text: str, about: About, window: str, outcomes: tuple[str, ...], reason: str = ""
) -> None:
    verdict = about.verdict_in(window)
    true = None if verdict is None else verdict["outcome"]
    reader.check(true in outcomes, "outcome of the window", text, true)
    if reason and verdict is not None:
        reader.equal("reason of the window", text, reason, verdict["reason"])
    newest = about.newest
    if newest is not None:
        reader.check(newest["window_name"] == window, "newest window", text, newest["window_name"])


@INCIDENT_STATE.add(rf"[Aa]bove the limit, not confirmed in (?P<window>{WEEK})")
def _not_confirmed_in(reader: Reader, text: str, about: About, window: str) -> None:
    _newest_is(reader, text, about, window, ("unconfirmed",))


def _silent_since(reader: Reader, text: str, about: About, since: str) -> None:
    """From that window on the rule could not be judged."""
    i, start = about.incident, about._start(since)
    mine = [
        v for v in about.facts.verdicts.values()
        if v["current"] and (v["rule"], v["source"], v["label"]) == (i["rule"], i["source"], i["label"])
        and about._start(v["window_name"]) >= start
    ]  # fmt: skip
    judged = [v for v in mine if v["outcome"] != "not_evaluated"]
    reader.check(
        bool(mine) and not judged, "not judged since", text, [v["window_name"] for v in judged] or "no verdict"
    )


@INCIDENT_STATE.add(rf"[Nn]ot judged in (?P<window>{WEEK})")
def _not_judged_in(reader: Reader, text: str, about: About, window: str) -> None:
    _newest_is(reader, text, about, window, ("not_evaluated",))


@INCIDENT_STATE.add(rf"[Nn]ot judged since (?P<since>{WEEK})")
def _not_judged_since(reader: Reader, text: str, about: About, since: str) -> None:
    _silent_since(reader, text, about, since)


@INCIDENT_STATE.add(rf"[Nn]o outcome of this label arrived in (?P<window>{WEEK})")
def _gone_in(reader: Reader, text: str, about: About, window: str) -> None:
    _newest_is(reader, text, about, window, ("not_evaluated",), "no_rows")


@INCIDENT_STATE.add(rf"[Nn]o outcome of this label has arrived since (?P<since>{WEEK})")
def _gone_since(reader: Reader, text: str, about: About, since: str) -> None:
    _silent_since(reader, text, about, since)
    newest = about.newest
    if newest is not None:
        reader.equal("reason of the newest window", text, "no_rows", newest["reason"])


@INCIDENT_STATE.add(
    rf"[Ww]ithin the limit in (?P<window>{WEEK}); it keeps coming back, so one more good (?:week|day) resolves it"
)
def _held_back(reader: Reader, text: str, about: About, window: str) -> None:
    verdict = about.verdict_in(window)
    reader.check(
        verdict is not None and verdict["outcome"] == "ok",
        "outcome of the window",
        text,
        verdict and verdict["outcome"],
    )
    reader.check(about.incident["reopened"] >= 2, "keeps coming back", text, about.incident["reopened"])
    reader.check(about.incident["state"] != "resolved", "incident state", text, about.incident["state"])


@INCIDENT_STATE.add(
    rf"[Rr]esolved in (?P<window>{WEEK}): within the limit(?: (?P<row>\d+) (?:weeks|days) in a row)?"
    r"(?:, (?:after (?P<n>\d+) (?P<unit>weeks?|days?) in breach|(?P<later>by later outcomes)))?"
)
def _resolved_in(reader: Reader, text: str, about: About, window: str, row: Any, n: Any, unit: Any, later: Any) -> None:
    reader.equal("incident state", text, "resolved", about.incident["state"])
    reader.equal("resolved in", text, window, about.incident["resolved_window"])
    _ended_well(reader, text, about, window)
    if n is not None:
        reader.equal("breaches", text, int(n), len(about.in_breach))
        reader.equal("unit", text, unit.rstrip("s"), about.unit)
    if later is not None:
        reader.equal("breaches", text, 0, len(about.in_breach))
    if row is not None:
        reader.equal("good windows", text, int(row), about.incident["ok_windows"])


def _ended_well(reader: Reader, text: str, about: About, window: str) -> None:
    """What resolved it was an ``ok`` verdict when it did, whatever later truths have made of it."""
    ended = [e for e in about.facts.events_of(about.incident["id"]) if e["kind"] == "resolved"]
    verdict = about.facts.verdicts.get(ended[-1]["verdict"] or "") if ended else None
    true = None if verdict is None else verdict["outcome"]
    reader.check(true == "ok", "within the limit", text, f"the verdict of {window} was {true}")


@INCIDENT_STATE.add(r"[Rr]esolved by (?P<who>.+?)(?:: (?P<why>.+))?")
def _resolved_by(reader: Reader, text: str, about: About, who: str, why: Any) -> None:
    reader.equal("incident state", text, "resolved", about.incident["state"])
    reader.equal("by whom", text, who, about.incident["resolved_by"])
    if why is not None:
        ended = [e for e in about.facts.events_of(about.incident["id"]) if e["kind"] == "resolved"]
        reader.equal("why", text, why, ended[-1]["detail"].get("why") if ended else None)


@INCIDENT_STATE.add(rf"Open since (?P<window>{WEEK})|[Ss]ince (?P<other>{WEEK})")
def _open_since(reader: Reader, text: str, about: About, window: Any, other: Any) -> None:
    reader.equal("since", text, window or other, about.incident["opened_window"])
    reader.check(about.incident["state"] != "resolved", "incident state", text, about.incident["state"])


_KEEPS = "; it keeps coming back"


def check_incident_state(reader: Reader, text: str, incident: Row) -> None:
    """The state of an incident: parts joined by "; "."""
    about = About(reader.facts, incident)
    whole = text.replace(_KEEPS, "\x00")
    parts = [part.replace("\x00", _KEEPS) for part in whole.split("; ")]
    if text.startswith("Resolved by"):
        parts = [text]  # a person's reason may hold anything
    for part in parts:
        INCIDENT_STATE.read(reader, part, about)
