"""Annotations, and the timeline that they are part of: on SQLite and PostgreSQL, and by the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.config.settings import load_settings
from monitor.core.baseline import Baseline
from monitor.core.counts import counts_from_rows
from monitor.core.records import Annotation, TimelineEvent, Window, WrongRequest
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.history.thresholds import Publisher
from monitor.operations import annotate as notes
from tests.fakes.in_process import ServiceClient, in_process
from tests.fakes.service import Place, make_place
from tests.fakes.world import make_world

MONDAY = datetime(2026, 8, 31, tzinfo=UTC)
WEEK = timedelta(weeks=1)
NOW = MONDAY + 8 * WEEK
HOSTILE = "=cmd|' /C calc'!A0 <script>alert(1)</script> [/red]"


def week(number: int) -> Window:
    start = MONDAY + number * WEEK
    return Window(start, start + WEEK, f"2026-W{36 + number}", "weekly")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    if request.param == "postgresql":
        url = request.getfixturevalue("fresh_postgres_url")
    with Store.from_url(url) as opened:
        yield opened


def noted(
    store: Store,
    text: str,
    *,
    label: str | None = None,
    weeks: int = 0,
    source: str = "tickets",
    key: str | None = None,
) -> Annotation:
    wanted = notes.NewAnnotation(source, label, MONDAY + weeks * WEEK, text, "ana", key or None)
    return notes.annotate(store, wanted, lambda: NOW)[0]


def test_an_annotation_is_shown_until_it_is_removed_and_stays_stored_with_who_did_both(store: Store) -> None:
    first, second = noted(store, f" {HOSTILE} "), noted(store, "prompt v7", label="billing", weeks=4)
    assert [(a.text, a.label, a.added_by, a.added_at) for a in store.annotations()] == [
        (HOSTILE, None, "ana", NOW), ("prompt v7", "billing", "ana", NOW),
    ]  # fmt: skip
    removed, already = notes.remove(store, first.id[:6], by="ben", reason="wrong week", clock=lambda: NOW + WEEK)
    assert (removed.removed_by, removed.removed_reason, removed.removed_at, already) == (
        "ben", "wrong week", NOW + WEEK, False,
    )  # fmt: skip
    assert notes.remove(store, first.id, by="cleo", reason="again", clock=lambda: NOW)[1]
    assert store.annotation(first.id).removed_by == "ben"
    assert store.annotations() == [second]
    assert [a.id for a in store.annotations(removed=True)] == [first.id, second.id]


def test_a_label_has_its_own_annotations_and_those_of_its_source_between_two_times(store: Store) -> None:
    noted(store, "all")
    noted(store, "billing", label="billing", weeks=1)
    noted(store, "legal", label="legal", weeks=2)
    noted(store, "mail", source="mail", weeks=1)
    assert [a.text for a in store.annotations("tickets", "billing")] == ["all", "billing"]
    assert [a.text for a in store.annotations("tickets", None)] == ["all"]
    assert [a.text for a in store.annotations(since=MONDAY + WEEK, until=MONDAY + 2 * WEEK)] == ["mail", "billing"]


def test_a_key_is_for_one_annotation_and_its_repetitions(store: Store) -> None:
    first, again = noted(store, "v7", key="k"), noted(store, "v7", key="k")
    assert first == again
    with pytest.raises(notes.AnnotationKeyReused):
        noted(store, "v8", key="k")
    assert store.annotations() == [first]


@pytest.mark.parametrize("text", ["", "  ", "a\x00b", "a\x1b[31mb", "x" * 1001])
def test_what_says_nothing_or_steers_a_terminal_is_refused(store: Store, text: str) -> None:
    with pytest.raises(WrongRequest):
        noted(store, text)
    kept = noted(store, "fine")
    with pytest.raises(WrongRequest):
        notes.remove(store, kept.id, by="ana", reason=text, clock=lambda: NOW)


def test_versions_pins_rules_and_thresholds_are_on_the_timeline_by_themselves(store: Store) -> None:
    for number, versions in enumerate([{"2.1": 9}, {"2.1": 9, "2.2": 1}, {"2.2": 9}]):
        store.save_reading(week(number), StoredReading("tickets", versions=versions), NOW)
        revision = "r1" if number < 2 else "r2"
        store.begin_run(week(number), ["tickets"], run=f"run {number}", acts=False, rules_revision=revision, now=NOW)
    counts = counts_from_rows([0.2, 0.8], [0, 1])
    for label in ("billing", "legal"):
        pin = Baseline(
            "tickets", label, 1, MONDAY, MONDAY + WEEK, "2026-W30", "2026-W35", counts, {}, MONDAY, "ana", "go"
        )
        store.save_baselines([pin])
    for revision, score in (("r1", 0.8), ("r2", 0.9)):
        at = MONDAY + (WEEK if revision == "r2" else timedelta(0))
        store.publish_thresholds({("tickets", None): score}, at, Publisher(revision, "host", "ben"))
    noted(store, "prompt v7", label="billing", weeks=1)
    found = store.timeline("tickets", "billing", since=MONDAY, until=NOW)
    assert found == [
        TimelineEvent(MONDAY, "baseline", "baseline 2026-W30 to 2026-W35 pinned: go", "tickets", "billing", "ana"),
        TimelineEvent(MONDAY, "thresholds", "acts from 0.8 (was no score)", "tickets", None, "ben"),
        TimelineEvent(MONDAY + WEEK, "annotation", "prompt v7", "tickets", "billing", "ana", store.annotations()[0].id),
        TimelineEvent(MONDAY + WEEK, "model_version", "model version 2.2", "tickets"),
        TimelineEvent(MONDAY + WEEK, "thresholds", "acts from 0.9 (was 0.8)", "tickets", None, "ben"),
        TimelineEvent(MONDAY + 2 * WEEK, "rules", "rules revision r2 (was r1)"),
    ]
    everything = store.timeline(since=MONDAY, until=NOW)
    assert [e.text for e in everything if e.kind == "baseline"] == [
        "baseline 2026-W30 to 2026-W35 pinned of 2 labels: go"
    ]
    assert store.timeline("mail", since=MONDAY, until=NOW) == [found[-1]]
    assert [e.kind for e in store.timeline(since=MONDAY + 2 * WEEK, until=NOW)] == ["rules"]
    assert [e.kind for e in store.timeline(since=MONDAY, until=MONDAY + WEEK)] == ["baseline", "thresholds"]


def test_the_commands_note_list_and_remove(tmp_path: Path) -> None:
    config = "    labels: {billing: {}}\n    score_is"
    world = make_world(tmp_path)
    file = tmp_path / "alerts.yaml"
    file.write_text(file.read_text("utf-8").replace("    score_is", config, 1), "utf-8")
    about = ("--source", "tickets", "--by", "ana")
    done = world.calmon("annotations", "add", *about, "--label", "billing", "--at", "2026-W40", HOSTILE)
    assert (done.exit_code, "at 2026-09-28 00:00 UTC: tickets/billing" in done.stdout) == (0, True), done.output
    (row,) = json.loads(world.calmon("annotations", "list", "--json").stdout)
    assert (row["label"], row["text"], row["at"], row["added_by"]) == (
        "billing", HOSTILE, "2026-09-28T00:00:00+00:00", "ana",
    )  # fmt: skip
    assert "<script>" in world.calmon("annotations", "list").stdout.replace("\n", "")
    assert world.calmon("annotations", "remove", row["id"][:5], "--reason", " ").exit_code == 2
    assert world.calmon("annotations", "remove", row["id"][:5], "--reason", "no", "--by", "ben").exit_code == 0
    assert "already removed by ben" in world.calmon("annotations", "remove", row["id"], "--reason", "no").stdout
    assert "no such annotation; `calmon annotations list --all`" in world.calmon("annotations", "list").stdout
    assert json.loads(world.calmon("annotations", "list", "--all", "--json").stdout)[0]["removed_by"] == "ben"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--source", "nobody", "x"), "has no source 'nobody'"),
        (("--source", "tickets", "--label", "biling", "x"), "knows the label 'biling'"),
        (("--source", "tickets", "--at", "yesterday", "x"), "is not a time"),
        (("--source", "tickets", " "), "may not be empty"),
    ],
)
def test_a_wrong_annotation_is_wrong_usage(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = make_world(tmp_path).calmon("annotations", "add", *words)
    assert (done.exit_code, said in done.stderr) == (2, True), done.output


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return make_place(tmp_path_factory.mktemp("place"))


@pytest.fixture
def client(place: Place) -> Iterator[ServiceClient]:
    """The service in this process, asked with the token that has every scope."""
    with in_process(load_settings(place.environment), place.folder / "tokens", token=place.tokens["boss"]) as found:
        yield found


def test_a_deployment_notes_itself_over_http_once_for_each_key(client: ServiceClient, place: Place) -> None:
    body = {"source": "tickets", "label": "billing", "at": "2026-09-28T08:00:00Z", "text": HOSTILE}
    first = client.post("/v1/annotations", json=body, headers={"Idempotency-Key": "release-7"})
    again = client.post("/v1/annotations", json=body, headers={"Idempotency-Key": "release-7"})
    assert first.status_code == 200, first.text
    assert (first.json(), again.headers["idempotency-replayed"]) == (again.json(), "true")
    assert (first.json()["by"], first.json()["text"], first.json()["label"]) == ("api:boss", HOSTILE, "billing")
    other = client.post("/v1/annotations", json=body | {"text": "v8"}, headers={"Idempotency-Key": "release-7"})
    assert other.json()["reason"] == "idempotency_key_reused"
    assert client.get("/v1/annotations", params={"source": "tickets"}).json()["annotations"] == [first.json()]
    assert client.get("/v1/annotations", params={"label": "legal"}).json()["annotations"] == []
    gone = client.post(f"/v1/annotations/{first.json()['id']}/remove", json={"reason": "wrong week"}).json()
    assert (gone["removed_by"], gone["removed_reason"]) == ("api:boss", "wrong week")
    assert client.get("/v1/annotations").json()["annotations"] == []
    with Store.from_url(place.store_url) as stored:
        assert [a.removed_by for a in stored.annotations(removed=True)] == ["api:boss"]


def test_only_the_scope_annotate_notes_anything(client: ServiceClient, place: Place) -> None:
    body = {"source": "tickets", "at": "2026-09-28T08:00:00Z", "text": "v7"}
    for name in ("router", "stopper", "starter"):
        headers = {"Authorization": f"Bearer {place.tokens[name]}"}
        assert client.post("/v1/annotations", json=body, headers=headers).json()["reason"] == "scope_missing"
        assert client.post("/v1/annotations/ab/remove", json={"reason": "x"}, headers=headers).status_code == 403
    assert client.post("/v1/annotations/ab/remove", json={"reason": "x"}).json()["reason"] == "not_found"
