"""Incidents against diagnoses and events: one a label, open while its trouble goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.truth.rows import NOT_SEEN, TROUBLES, Row, Rows, start_of

if TYPE_CHECKING:
    from tests.truth.checker import Checker
    from tests.truth.histories import Told


def check(checker: Checker, rows: Rows, told: Told) -> None:
    """Every incident of a label, and every label without one."""
    mine = [row for row in rows.table("incidents") if not row["kind"].startswith("monitor")]
    open_now = [row for row in mine if row["state"] != "resolved"]
    subjects = [(r["source"], label) for r in open_now for label in r["labels"] or [r["label"]]]
    twice = sorted({about for about in subjects if subjects.count(about) > 1})
    checker.equal("two incidents of one label", twice, [])
    for row in mine:
        events = rows.events(row)
        checker.equal("state by its events", row["state"], rows.life(row))
        for name in ("acknowledged", "silenced", "resolved"):
            who = row[f"{name}_by"]
            by = [e["actor"] for e in events if e["kind"] == name]
            checker.holds("person of an incident", who is None or who == (by or [None])[-1], (name, who), by)
    _changes(checker, rows, told, mine)
    for source, label in sorted({(row["source"], row["label"]) for row in rows.table("diagnoses")}):
        _life(checker, rows, source, label)


def _changes(checker: Checker, rows: Rows, told: Told, mine: list[Row]) -> None:
    """What a run has changed since the last step is about its own sources, and rests on a diagnosis that says so."""
    by_id = {row["id"]: row for row in mine}
    for event in rows.table("incident_events"):
        incident = by_id.get(event["incident"])
        if event["key"] in checker.read or incident is None or event["actor"] != "run" or event["kind"] == "unsilenced":
            continue
        checker.holds("changed by a run of another source", incident["source"] in told.ran, event, told.ran)
        about = [
            row
            for label in incident["labels"] or [incident["label"]]
            for row in rows.of("diagnoses", incident["source"], label)
            if row["window_name"] == event["window"]
        ]
        states = {row["state"] for row in about}
        if incident["kind"] == "label" and event["reason"] == "fine_again":
            checker.equal("fine again", states, {"fine"})
        if event["kind"] in ("opened", "reopened") and incident["kind"] != "vanished":
            checker.holds("opened for a trouble", bool(states & set(TROUBLES)), event, states)
        if event["reason"] == "cannot_tell":
            checker.holds("not judged", not states & set(TROUBLES), event, states)
        if event["kind"] in ("opened", "reopened") and incident["kind"] == "vanished":
            checker.equal("vanished", {row["reason"] for row in about}, {"no_rows"})


def _life(checker: Checker, rows: Rows, source: str, label: str) -> None:
    """A label in trouble has an incident; one that is fine has none; a label whose rows stopped is called so."""
    diagnoses = rows.diagnoses(source, label)
    newest = diagnoses[-1]
    open_now = [row for row in rows.incidents(source, label or None) if row["state"] != "resolved"]
    kinds = {row["kind"] for row in open_now}
    resolved = [row for row in rows.incidents(source, label or None) if row["state"] == "resolved"]
    by_hand = any(row["resolved_by"] and _was_known(rows, newest, row) for row in resolved)
    ended = any(row["resolved_window"] == newest["window_name"] for row in resolved)
    acted = any(row["window"] == newest["window_name"] for row in (*open_now, *resolved))
    if newest["state"] in TROUBLES and not by_hand:
        checker.holds("an incident for a trouble", bool(kinds & {"label", "burst"}), kinds, newest["window_name"])
    elif newest["state"] == "fine":
        # a week that is judged late says what the next run's diagnosis, of a newer window, takes into account
        late = any(row["state"] in TROUBLES and row["diagnosed_at"] > newest["diagnosed_at"] for row in diagnoses)
        over = not kinds & {"label", "vanished"}
        checker.holds("none where it is fine", over or late, kinds, newest["window_name"])
    elif newest["reason"] == "no_rows" and newest["schedule"] == "weekly" and rows.is_unchanged(newest):
        _vanished(checker, rows, newest, kinds, over=by_hand or ended)
    over = [row for row in open_now if row["kind"] == "label" and newest["window_end"] - row["seen_until"] >= NOT_SEEN]
    checker.holds("ends after four weeks", not over or not acted, over, newest["window_name"])


def _was_known(rows: Rows, newest: Row, resolved: Row) -> bool:
    """Whether who resolved an incident knew all that the newest diagnosis rests on.

    It is of the same window; or its trouble is the one that was resolved, since every breach in it is of a window that
    the incident had seen: on a later day the verdict of the same week is still the newest one of its rule.
    """
    if newest["window_end"] == resolved["window_end"]:
        return True
    breaches = [v for v in rows.verdicts(newest) if v["id"] in newest["detail"]["because"] and v["outcome"] == "breach"]
    seen = bool(breaches) and all(v["window_end"] <= resolved["window_end"] for v in breaches)
    return seen and resolved["kind"] in ("label", "burst")


def _vanished(checker: Checker, rows: Rows, newest: Row, kinds: set[str], *, over: bool) -> None:
    """Its rows stopped while others go on: it has an incident, of this or of a trouble before."""
    source, at = newest["source"], newest["window_name"]
    last = max(
        (row["window_start"] for row in rows.counted(source, newest["label"], "weekly", newest["window_end"])),
        default=None,
    )
    ended = [
        row
        for row in rows.incidents(source, newest["label"])
        if row["kind"] == "vanished" and last is not None and start_of(row["opened_window"]) > last
    ]
    others = [r for r in rows.table("diagnoses") if (r["source"], r["window_name"]) == (source, at)]
    counted = rows.counted(source, newest["label"], "weekly", newest["window_end"])
    usual = sorted(row["rows"] for row in counted if row["rows"])
    many = bool(usual) and usual[len(usual) // 2] >= 20
    if many and any(row["reason"] != "no_rows" for row in others) and not over and not ended:
        checker.holds("a vanished label is called so", bool(kinds), kinds, (newest["label"], at))
