"""A label that has another name now: it is said, and one command hands over what the history knows of the old one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from monitor.context import Monitor
from monitor.core.windows import week
from monitor.history import readings
from monitor.operations.change_switch import change_switch
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.fakes import forked
from tests.fakes.killed import killed_at
from tests.fakes.world import BASELINE, CONFIG, WEEKS, World, make_world, pinned_world, rows, write_duckdb


def renamed_world(
    folder: Path, old: str, new: str, first: str, *, mended: bool = False, store_url: str | None = None
) -> World:
    """A world in which the label ``old`` is called ``new`` from that week on, with the scores of a good one."""
    made, frame = pinned_world(folder) if store_url is None else make_world(folder, store_url=store_url), rows()
    if store_url is not None:
        with made.opened() as monitor:
            first_week, last = (week(name, monitor.config.zone) for name in BASELINE)
            pin(monitor, first_week, last, by="test", reason="test")
    later = frame["item"].str[:8] >= first
    of_old = (frame["label"] == old) & later
    if mended:
        good = frame[(frame["label"] == "steady") & later]
        frame.loc[of_old, ["score", "actual", "predicted"]] = good[["score", "actual", "predicted"]].to_numpy()
    frame.loc[of_old, "label"] = new
    write_duckdb(folder / "warehouse.duckdb", frame)
    return made


@contextmanager
def evaluated(made: World, *weeks: str) -> Iterator[Monitor]:
    with made.opened() as monitor:
        for name in weeks:
            run_window(monitor, week(name, monitor.config.zone))
        yield monitor


def test_the_run_names_the_new_label_and_the_printed_command_hands_the_old_one_over(tmp_path: Path) -> None:
    made = renamed_world(tmp_path, "steady", "constant 2", WEEKS[10])
    with evaluated(made, WEEKS[9]) as monitor:
        before = monitor.store.switch("tickets", "steady")
        assert before.state == "on"
    said = " ".join(made.calmon("run", "weekly", "--week", WEEKS[10]).output.split())  # as lines wrap
    assert "constant 2 appeared then and is like it" in said
    command = re.search(r"`(calmon label rename [^`]*)`", said)
    with made.opened() as monitor:
        (missed,) = [each for each in monitor.store.unresolved_incidents() if each.kind == "vanished"]
        ready = monitor.store.switch("tickets", "constant 2")
        if ready.state == "on":  # the world turns a label on at its first good week
            change_switch(monitor, "tickets", "constant 2", enable=False, by="ann", reason="not yet")
    again = made.calmon(*shlex.split(command[1])[1:])
    assert again.exit_code == 0, again.output
    with made.opened() as monitor:
        old = monitor.store.switch("tickets", "steady")
        assert (old.state, old.reason) == ("off", "renamed to constant 2: TEXT")
        assert monitor.store.incident(missed.id).state == "resolved"
        (baseline,), (of_old,) = (monitor.store.baselines("tickets", label) for label in ("constant 2", "steady"))
        assert (baseline.counts.rows, baseline.edges) == (of_old.counts.rows, of_old.edges)
    assert "if renamed" not in made.calmon("run", "weekly", "--week", WEEKS[11]).output  # somebody has said so


def test_a_new_name_that_is_taken_is_offered_to_no_other_label(tmp_path: Path) -> None:
    """Else the printed command would be refused: the new name is on."""
    frame = rows()
    later = frame["item"].str[:8] >= WEEKS[10]
    twin = frame[(frame["label"] == "steady") & ~later].assign(label="twin")
    frame.loc[(frame["label"] == "steady") & later, "label"] = "constant 2"
    made = pinned_world(tmp_path, config=CONFIG.replace(", initial: on_first_ok", ""))
    write_duckdb(tmp_path / "warehouse.duckdb", pd.concat([frame, twin]))
    with evaluated(made, WEEKS[9]) as monitor:
        for label in ("steady", "twin"):
            change_switch(monitor, "tickets", label, enable=True, by="ann", reason="ready")
        gone = week(WEEKS[10], monitor.config.zone)
        run_window(monitor, gone)
        found = {each.label: each.notes.renamed_to for each in monitor.store.diagnoses(gone) if each.notes.renamed_to}
    assert found == {"steady": "constant 2", "twin": "constant 2"}
    said = made.calmon("label", "rename", "tickets", "steady", "constant 2", "--reason", "new form")
    assert said.exit_code == 0, said.output
    assert "if renamed" not in made.calmon("run", "weekly", "--week", WEEKS[10]).output


@pytest.fixture
def slipped(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    """A label that a run turned off in a breach, with an open incident, and then got another name."""
    is_server = getattr(request, "param", "") == "postgresql"
    url = request.getfixturevalue("fresh_postgres_url") if is_server else None
    return _slipped(tmp_path, mended=True, store_url=url)


def _slipped(tmp_path: Path, *, mended: bool, store_url: str | None = None) -> World:
    made = renamed_world(tmp_path, "slipping", "sliding", WEEKS[11], mended=mended, store_url=store_url)
    config = (tmp_path / "alerts.yaml").read_text("utf-8")
    (tmp_path / "alerts.yaml").write_text(config.replace("initial: on_first_ok", "initial: off"), "utf-8")
    with made.opened() as monitor:
        change_switch(monitor, "tickets", "slipping", enable=True, by="ann", reason="go live")
    with evaluated(made, WEEKS[9], WEEKS[10], WEEKS[11]) as monitor:
        assert monitor.store.switch("tickets", "sliding").state != "on"
    return made


RENAME = ("label", "rename", "tickets", "slipping", "sliding", "--reason", "taxonomy 7")


def what_is_stored(made: World) -> tuple[object, ...]:
    with made.opened() as monitor:
        store = monitor.store
        labels = ("slipping", "sliding")
        return (
            [(s.state, s.blocked, s.verdict, s.reason) for s in (store.switch("tickets", each) for each in labels)],
            [len(store.baselines("tickets", each)) for each in labels],
            [[(e.rule, e.windows) for e in store.evidence("tickets", each)] for each in labels],
            [(i.label, i.kind, i.state, i.opened_window) for i in store.incidents()],
            len(store.switch_events_of("rename:")),
        )


@pytest.mark.parametrize("slipped", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_breach_incident_and_baseline_go_over_to_the_new_name(slipped: World) -> None:
    with slipped.opened() as monitor:
        (incident,) = [each for each in monitor.store.unresolved_incidents() if each.label == "slipping"]
        before, breaches = monitor.store.switch("tickets", "slipping"), monitor.store.evidence("tickets", "slipping")
    found = slipped.calmon(*RENAME)
    assert found.exit_code == 0, found.output
    assert f"incident {incident.id[:8]} of tickets/sliding" in found.output
    with slipped.opened() as monitor:
        store = monitor.store
        old, new = store.switch("tickets", "slipping"), store.switch("tickets", "sliding")
        assert (old.state, old.by_operator) == ("off", True)
        assert (new.state, new.verdict) == (before.state, before.verdict)
        moved = store.incident(incident.id)
        assert (moved.label, moved.state, moved.opened_window) == ("sliding", incident.state, incident.opened_window)
        assert moved.version == incident.version + 1
        of_new = {each.rule: each.windows for each in store.evidence("tickets", "sliding")}
        for each in breaches:
            assert set(each.windows) <= {
                *of_new[each.rule],
                *(w for w in each.windows if w.window_end in _ends(of_new)),
            }
        kinds = [(e.label, e.from_state, e.to_state) for e in store.switch_events_of("rename:")]
        assert ("slipping", before.state, "off") in kinds
        said = [e.detail.get("why") for e in store.incident_events(incident.id) if e.kind == "noted"]
        assert said == ["slipping is called sliding now: taxonomy 7"]


def test_an_incident_ends_where_the_new_name_has_its_own(tmp_path: Path) -> None:
    made = _slipped(tmp_path, mended=False)
    with made.opened() as monitor:
        (own,) = [each for each in monitor.store.unresolved_incidents() if each.label == "sliding"]
    assert "resolved by" in made.calmon(*RENAME).output
    with made.opened() as monitor:
        assert [each.id for each in monitor.store.unresolved_incidents()] == [own.id]
        assert monitor.store.switch("tickets", "sliding").state == "off"


def _ends(windows: dict[str, tuple[object, ...]]) -> set[object]:
    return {each.window_end for of in windows.values() for each in of}  # type: ignore[attr-defined]


def test_a_rename_that_is_killed_leaves_all_or_nothing(slipped: World) -> None:
    before = what_is_stored(slipped)
    killed = forked.calmon(slipped.folder, slipped.environment, *RENAME, main=partial(killed_at, 1))
    assert killed.returncode != 0
    assert what_is_stored(slipped) == before
    assert slipped.calmon(*RENAME).exit_code == 0
    assert what_is_stored(slipped)[-1] > 0  # type: ignore[operator]


def test_what_fails_half_way_leaves_nothing(slipped: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the disk is full")

    before = what_is_stored(slipped)
    monkeypatch.setattr(readings, "save_baselines", fails)
    assert slipped.calmon(*RENAME).exit_code == 1
    assert what_is_stored(slipped) == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tickets", "sliping", "sliding"), "knows the label 'sliping'"),
        (("tickets", "slipping", "slidng"), "knows the label 'slidng'"),
        (("tickets", "slipping", "slipping"), "are the same"),
        (("mail", "slipping", "sliding"), "alerts.yaml has no source 'mail'"),
    ],
)
def test_what_cannot_be_renamed_is_refused_and_said(slipped: World, words: tuple[str, ...], sentence: str) -> None:
    before = what_is_stored(slipped)
    found = slipped.calmon("label", "rename", *words, "--reason", "x")
    assert (found.exit_code, sentence in found.output) == (2, True), found.output
    assert what_is_stored(slipped) == before


def test_a_new_name_that_is_on_is_refused_with_the_command_that_turns_it_off(slipped: World) -> None:
    with slipped.opened() as monitor:
        change_switch(monitor, "tickets", "sliding", enable=True, by="ann", reason="go")
    found = slipped.calmon(*RENAME)
    assert found.exit_code == 2
    assert "`calmon automation disable --source tickets --label sliding --reason TEXT`" in found.output


def test_other_rules_or_another_score_for_the_new_name_are_refused(slipped: World) -> None:
    file = slipped.folder / "alerts.yaml"
    plain = file.read_text("utf-8")
    more = "  - {id: only, metric: roc_auc, condition: below, threshold: 0.8, match: {label: slipping}}\n"
    file.write_text(plain.replace("automation:", more + "automation:"), "utf-8")
    assert "other rules for slipping than for sliding (only)" in slipped.calmon(*RENAME).output
    file.write_text(plain.replace("score_is:", "labels: {slipping: {automate_at: 0.9}}\n    score_is:"), "utf-8")
    found = slipped.calmon(*RENAME)
    assert "slipping acts from 0.9 and sliding from 0.8" in found.output, found.output
