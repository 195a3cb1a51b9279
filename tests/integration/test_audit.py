"""``calmon audit``: a plan whose promise holds, and a sample of what acts alone."""

from __future__ import annotations

import csv
import json
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url
from typer.testing import CliRunner

from monitor.cli import app
from monitor.core.counts import Counts
from monitor.core.promises import Promise
from monitor.core.windows import named
from monitor.inference.sequential import evidence_needed, restarted
from monitor.inference.tables import truth_bias
from monitor.operations.audit import rows_to_see
from monitor.operations.change_switch import SwitchChange, operate
from monitor.operations.describe_source import describe
from monitor.story.label import facts_of
from tests.fakes.world import CONFIG, WEEKS, World, make_world, rows, write_duckdb

SOURCE = ("--source", "tickets")
LASTING = (
    "  - {id: lasting-overconfidence, metric: overconfidence, where: automated, condition: accumulated,\n"
    "     threshold: 0.02, min_samples: 30, severity: critical, actions: [slack, disable_automation]}\n"
)
AUDITED = CONFIG.replace("  - {id: ece-increase", f"{LASTING}  - {{id: ece-increase", 1).replace(
    "    segments: [channel]\n", "    segments: [channel]\n    unresolved: true\n    window_on: predicted_at\n", 1
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Every second item has no truth yet."""
    folder = tmp_path_factory.mktemp("audit")
    frame = rows()
    waits = frame["item"].str.slice(-1).isin(list("02468"))
    frame = frame.assign(predicted_at=frame["resolved_at"], actual=frame["actual"].where(~waits))
    write_duckdb(folder / "warehouse.duckdb", frame.assign(resolved_at=frame["resolved_at"].where(~waits)))
    made = make_world(folder, config=AUDITED, warehouse_url=f"duckdb:///{folder / 'warehouse.duckdb'}")
    assert made.calmon("backfill", "--from", WEEKS[8], "--to", WEEKS[8]).exit_code == 0
    return made


@pytest.mark.parametrize(("claimed", "fall", "weeks"), [(0.9, 0.05, 4), (0.85, 0.1, 2), (0.95, 0.15, 1)])
def test_a_fall_is_seen_within_the_planned_weeks_in_four_of_five_cases(claimed: float, fall: float, weeks: int) -> None:
    rng, needed = np.random.default_rng(5), evidence_needed([-np.inf] * 20, 520)
    found = rows_to_see(claimed, fall, 0.02, needed)
    each, seen = -(-found // weeks), 0
    for _ in range(400):
        hits = rng.binomial(each, claimed - fall, weeks) / each
        path = restarted([Promise(each, float(each), claimed, kept) for kept in hits.tolist()], 0.02)
        seen += path[-1] >= needed
    assert 0.76 <= seen / 400 <= 0.92


def test_a_fall_that_the_rule_allows_is_never_seen(world: World) -> None:
    found = world.calmon("audit", "plan", "--week", WEEKS[8], "--fall", "0.02")
    assert found.exit_code == 1
    assert "lasting-overconfidence allows 2 points: a fall of 2 is never seen" in found.output


def test_the_plan_says_how_many_items_and_when(world: World) -> None:
    plain = json.loads(world.calmon("audit", "plan", "--week", WEEKS[8], "--json").stdout)
    acted = rows()[lambda f: f["item"].str.startswith(WEEKS[8]) & (f["score"] >= 0.8)]["label"].value_counts()
    assert [each["label"] for each in plain["labels"]] == ["rare", "slipping", "steady"]
    for each in plain["labels"]:
        assert each["acted"] == acted[each["label"]] > each["truths"]
        assert each["checks"] == min(-(-each["rows"] // 4), each["acted"])
        assert each["weeks"] == pytest.approx(each["rows"] / each["checks"])
    given = json.loads(world.calmon("audit", "plan", "--week", WEEKS[8], "--checks", "300", "--json").stdout)
    assert 300 <= sum(each["checks"] for each in given["labels"]) <= 303
    weeks = [each["weeks"] for each in given["labels"] if each["checks"] < each["acted"]]
    assert len(weeks) == 2  # all of the rare label
    assert max(weeks) - min(weeks) < 0.2
    told = world.calmon("audit", "plan", "--week", WEEKS[8]).stdout
    assert "to see a fall of 5 points" in told


def test_nothing_is_asked_of_a_label_that_is_turned_off(world: World, tmp_path: Path) -> None:
    world = world.copied(tmp_path)
    assert world.calmon("automation", "disable", "--label", "steady", "--reason", "test").exit_code == 0
    plan = json.loads(world.calmon("audit", "plan", "--week", WEEKS[8], "--json").stdout)
    assert [each["label"] for each in plan["labels"]] == ["rare", "slipping"]
    assert world.calmon("automation", "disable", "--all", "--reason", "test").exit_code == 0
    none = world.calmon("audit", "plan", "--week", WEEKS[8])
    assert none.exit_code == 1
    assert "is off: nothing acts that could be checked" in none.output


def test_the_sample_is_of_what_acts_and_each_item_stands_for_others(world: World, tmp_path: Path) -> None:
    words = ("audit", "draw", "--week", WEEKS[8], "--checks", "60", "--out")
    first, again, other = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"
    done = world.calmon(*words, str(first))
    assert done.exit_code == 0, done.output
    assert world.calmon(*words, str(again)).exit_code == 0
    assert world.calmon(*words, str(other), "--seed", "another").exit_code == 0
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()
    with first.open(newline="") as file:
        drawn = list(csv.DictReader(file))
    frame = rows()
    with world.opened() as opened:
        kept = opened.store.audited("tickets")
    of_week = frame[frame["item"].str.startswith(WEEKS[8]) & (frame["score"] >= 0.8)]
    for label, mine in of_week.groupby("label"):
        taken = [row for row in drawn if row["label"] == label]
        assert {row["item"] for row in taken} <= set(mine["item"])
        assert {item.of for item in kept if item.label == label} == {len(mine)}
        assert {row["item"] for row in taken} <= {item.item for item in kept if item.label == label}
    assert f"{len(drawn)} items of {WEEKS[8]} written to" in " ".join(done.stdout.split())


def test_a_source_that_does_not_say_what_waits_has_no_sample(world: World, tmp_path: Path) -> None:
    text = AUDITED.replace("    unresolved: true\n", "")
    (tmp_path / "alerts.yaml").write_text(text, "utf-8")
    env = world.environment | {"CALMON_CONFIG": str(tmp_path / "alerts.yaml")}
    found = CliRunner(env=env).invoke(app, ["audit", "draw", "--week", WEEKS[8], "--out", str(tmp_path / "x.csv")])
    assert found.exit_code == 1
    assert "`unresolved: true`" in found.output
    assert not (tmp_path / "x.csv").exists()


def drawn_file(world: World, file: Path, week: str, *more: str) -> list[dict[str, str]]:
    done = world.calmon("audit", "draw", "--week", week, "--out", str(file), *more)
    assert done.exit_code == 0, done.output
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def write_rows(file: Path, rows: list[dict[str, str]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def audited(tmp_path: Path) -> World:
    """No item that acts has a truth; people decided the others."""
    frame = rows()
    acts = frame["score"] >= 0.8
    frame = frame.assign(predicted_at=frame["resolved_at"], actual=frame["actual"].where(~acts))
    write_duckdb(tmp_path / "warehouse.duckdb", frame.assign(resolved_at=frame["resolved_at"].where(~acts)))
    return make_world(tmp_path, config=AUDITED, warehouse_url=f"duckdb:///{tmp_path / 'warehouse.duckdb'}")


def acting_counts(world: World, week: str) -> dict[str | None, Counts]:
    with world.opened() as opened:
        kept = opened.store.load_reading("weekly", named("weekly", week, UTC).start, "tickets")
        return {label: counts.where("automated") for label, counts in kept.labels.items()}


def test_what_people_found_is_the_truth_of_what_acts(audited: World, tmp_path: Path) -> None:
    week, file = WEEKS[8], tmp_path / "audit.csv"
    assert audited.calmon("backfill", "--from", week, "--to", week).exit_code == 0
    assert all(counts.rows == 0 for counts in acting_counts(audited, week).values())
    drawn = drawn_file(audited, file, week, "--each", "40")
    frame = rows().set_index(["label", "item"])
    truths = [str(frame.loc[(row["label"], row["item"]), "actual"]) for row in drawn]
    write_rows(file, [row | {"truth": truth} for row, truth in zip(drawn, truths, strict=True)])
    done = audited.calmon("audit", "import", str(file), *SOURCE)
    assert f"{len(drawn)} lines stored, 0 not decided yet, 0 refused." in " ".join(done.stdout.split())
    with audited.opened() as opened:
        before = [*opened.store.audited("tickets")]
        assert audited.calmon("audit", "import", str(file), *SOURCE).exit_code == 0
        assert opened.store.audited("tickets") == before, "once more is the same"

    done = audited.calmon("run", "weekly", "--week", WEEKS[9])  # judges the week before again, too
    assert done.exit_code == 0, done.output
    mine = rows()[lambda f: f["item"].str.startswith(week) & (f["score"] >= 0.8)]
    for label, counts in acting_counts(audited, week).items():
        if label is None:
            continue
        right = [float(truth) for row, truth in zip(drawn, truths, strict=True) if row["label"] == label]
        acting = int((mine["label"] == label).sum())
        assert counts.rows == len(right) == min(40, acting)
        assert counts.w.sum() == pytest.approx(acting)
        assert counts.wy.sum() / counts.w.sum() == pytest.approx(np.mean(right))
        assert counts.effective_rows == pytest.approx(len(right))


def doubts_of(world: World) -> list[str]:
    with world.opened() as opened:
        source, week = opened.config.sources["tickets"], named("weekly", WEEKS[8], UTC)
        reading = opened.warehouse.read("tickets", source, week, now=opened.clock(), whole=False)
        return [each for each in describe(opened.warehouse, "tickets", source, reading).doubts if "act alone" in each]


def test_a_check_says_where_truth_is_missing(audited: World, world: World) -> None:
    (said,) = doubts_of(audited)
    acting = int((rows()[lambda f: f["item"].str.startswith(WEEKS[8])]["score"] >= 0.8).sum())
    assert said.startswith(
        f"of {acting:,} rows of {WEEKS[8]} that act alone 0.0% have a truth, of the others 100% (least: "
    )
    assert all(f"{label} 0.0%" in said for label in ("rare", "slipping", "steady"))
    assert not doubts_of(world), "where all have a truth as often as each other nothing is said"


def test_where_truths_of_what_acts_are_scarce_run_and_report_say_so(audited: World, world: World) -> None:
    said = [audited.calmon(*words, "--week", WEEKS[8]).output for words in (("run", "weekly"), ("report",))]
    for text in said:
        assert "act alone 0.0% have a truth, of the others 100% (least:" in " ".join(text.split())
        assert "whether these are a random part is not known: `calmon audit plan`" in " ".join(text.split())
    assert "have a truth, of the others" not in world.calmon("run", "weekly", "--week", WEEKS[8]).output


def test_no_accuracy_is_told_without_how_many_have_a_truth_where_these_are_few(tmp_path: Path) -> None:
    """Of what acts, wrong items have a truth nine times as often as right ones: labels look overconfident."""
    frame, draw = rows(), np.random.default_rng(3)
    known = (frame["score"] < 0.8) | (draw.random(len(frame)) < np.where(frame["actual"] == 1, 0.1, 0.9))
    known |= frame["item"].str.slice(0, 8) < WEEKS[8]
    frame = frame.assign(predicted_at=frame["resolved_at"])
    part = frame.assign(actual=frame["actual"].where(known), resolved_at=frame["resolved_at"].where(known))
    write_duckdb(tmp_path / "warehouse.duckdb", part)
    made = make_world(tmp_path, config=AUDITED, warehouse_url=f"duckdb:///{tmp_path / 'warehouse.duckdb'}")
    assert made.calmon("backfill", "--from", WEEKS[0], "--to", WEEKS[7]).exit_code == 0
    assert made.calmon("baseline", "pin", "--from", WEEKS[0], "--to", WEEKS[7], "--reason", "trusted").exit_code == 0
    assert made.calmon("run", "weekly", "--week", WEEKS[8]).exit_code == 0
    acted = frame[frame["item"].str.startswith(WEEKS[8]) & (frame["score"] >= 0.8)]
    with made.opened() as opened:
        troubled = [
            each for each in opened.store.diagnoses(named("weekly", WEEKS[8], UTC), "tickets") if each.is_trouble
        ]
    assert {"slipping", "steady"} <= {each.label for each in troubled}
    for each in troubled:
        of_label = acted if each.label is None else acted[acted["label"] == each.label]
        assert each.notes.with_truth == pytest.approx(known[of_label.index].mean())
        assert f"% of what acted in {WEEKS[8]} has a truth" in facts_of(each, None)


def test_what_nobody_checks_for_two_weeks_is_one_incident_until_people_do(audited: World, tmp_path: Path) -> None:
    assert audited.calmon("backfill", "--from", WEEKS[5], "--to", WEEKS[6]).exit_code == 0
    open_ones, file = [], tmp_path / "audit.csv"
    assert audited.calmon("run", "weekly", "--week", WEEKS[7]).exit_code == 0
    with audited.opened() as opened:
        assert not opened.store.unresolved_incidents(), "nothing has acted yet"
        begin = named("weekly", WEEKS[7], UTC).start
        for label in opened.store.known_labels("tickets"):
            operate(opened.store, opened.config, SwitchChange("tickets", label, True, "ann", "x"), lambda: begin)
    for week in WEEKS[7:10]:
        if week == WEEKS[9]:
            drawn = drawn_file(audited, file, week, "--each", "40")
            write_rows(file, [row | {"truth": "1"} for row in drawn])
            assert audited.calmon("audit", "import", str(file), *SOURCE).exit_code == 0
        done = audited.calmon("run", "weekly", "--week", week)
        with audited.opened() as opened:
            open_ones.append([each for each in opened.store.unresolved_incidents() if each.kind == "unchecked"])
            last = opened.store.diagnoses(named("weekly", week, UTC), "tickets")
        if week == WEEKS[8]:
            silent = {each.label for each in last if each.reason == "no_truth_where_it_acts"}
            assert silent, [(each.label, each.reason) for each in last]
            (found,) = open_ones[-1]
            assert set(found.labels) == silent - {None}
            shown = " ".join(audited.calmon("incidents", "show", found.id[:8]).stdout.split())
            assert f"no truth of what acts alone: {len(found.labels)} label" in shown.lower()
            assert "`calmon audit draw --source tickets --each 40 --out audit.csv`" in shown
        assert done.exit_code == 0, done.output
    assert [len(each) for each in open_ones] == [0, 1, 0]


@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "postgresql"])
def test_drawn_items_go_into_a_table_of_the_owner_and_what_people_wrote_there_stays(
    audited: World, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if engine == "postgresql":
        url = make_url(request.getfixturevalue("fresh_postgres_url")).set(drivername="postgresql+psycopg")
        address, table = url.render_as_string(hide_password=False), "public.to_check"
    else:
        address, table = f"{engine}:///{tmp_path / 'people.db'}", "to_check"
    monkeypatch.setenv("CALMON_AUDIT_URL", address)
    week = WEEKS[8]
    assert audited.calmon("backfill", "--from", week, "--to", week).exit_code == 0
    draw = ("audit", "draw", "--week", week, "--table", table, *SOURCE, "--each")
    first = audited.calmon(*draw, "5")
    assert first.exit_code == 0, first.output
    assert f"15 items of {week} written to {table} (15 new)" in " ".join(first.stdout.split())
    in_file = drawn_file(audited, tmp_path / "same.csv", week, "--each", "5", *SOURCE)
    engine_of = sa.create_engine(address, poolclass=sa.NullPool)
    with engine_of.begin() as connection:
        read = [dict(row) for row in connection.execute(sa.text("SELECT * FROM to_check")).mappings()]
        assert {tuple(row[name] for name in ("source", "label", "item", "week")) for row in read} == {
            tuple(row[name] for name in ("source", "label", "item", "week")) for row in in_file
        }
        assert {row["truth"] for row in read} == {None}
        assert sum(row["score"] for row in read) == pytest.approx(sum(float(row["score"]) for row in in_file))
        connection.execute(sa.text("UPDATE to_check SET truth = '0' WHERE label = 'steady'"))
        connection.execute(sa.text("UPDATE to_check SET truth = 'perhaps' WHERE label = 'rare'"))
    again = audited.calmon(*draw, "8")
    assert f"24 items of {week} written to {table} (9 new)" in " ".join(again.stdout.split())
    done = audited.calmon("audit", "import", "--table", table, *SOURCE)
    assert done.exit_code == 1
    assert "5 rows stored, 14 not decided yet, 5 refused." in " ".join(done.stdout.split())
    assert all(line.startswith("item ") and "perhaps is neither" in line for line in done.stderr.splitlines())
    with audited.opened() as opened:
        wrong = [item for item in opened.store.audited("tickets") if item.outcome is not None]
    assert [(item.label, item.outcome) for item in wrong] == [("steady", 0.0)] * 5


@pytest.mark.parametrize(
    ("address", "words", "code", "says"),
    [
        ("", ("--table", "to_check"), 1, "set CALMON_AUDIT_URL"),
        ("sqlite:////nowhere/people.db", ("--table", "to_check"), 1, "unable to open database file"),
        ("", (), 2, "say one place"),
        ("", ("--table", "to_check", "--out", "x.csv"), 2, "say one place"),
    ],
)
def test_what_cannot_be_written_to_a_table_says_why(
    world: World, address: str, words: tuple[str, ...], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALMON_AUDIT_URL", address)
    found = world.calmon("audit", "draw", "--week", WEEKS[8], "--each", "5", *SOURCE, *words)
    assert (found.exit_code, says in " ".join(found.output.split())) == (code, True), found.output
    assert "Traceback" not in found.output


def test_each_line_is_stored_or_said(audited: World, tmp_path: Path) -> None:
    file = tmp_path / "audit.csv"
    drawn = drawn_file(audited, file, WEEKS[8], "--each", "4")
    first, second, third, fourth = drawn[:4]
    write_rows(
        file,
        [first | {"truth": "1"}, first | {"truth": "0"}, second | {"truth": "perhaps"}, third | {"truth": ""},
         fourth | {"item": "other", "truth": "1"}, fourth | {"label": "billing", "truth": "1"}],
    )  # fmt: skip
    done = audited.calmon("audit", "import", str(file), *SOURCE)
    assert done.exit_code == 1
    assert "1 line stored, 1 not decided yet, 4 refused." in " ".join(done.stdout.split())
    said = done.stderr.splitlines()
    assert [line.split(":")[0] for line in said] == ["line 3", "line 4", "line 6", "line 7"]
    reasons = ("another truth", "perhaps is neither 1 nor 0", "other was not drawn", "was not drawn")
    assert all(why in line for why, line in zip(reasons, said, strict=True)), said
    (tmp_path / "no.csv").write_text("source,item\n")
    assert "the columns item and truth" in audited.calmon("audit", "import", str(tmp_path / "no.csv"), *SOURCE).stderr


def quality_of(world: World, week: str) -> dict[str, str]:
    with world.opened() as opened:
        found = opened.store.quality("weekly", named("weekly", week, UTC).start, "tickets")
        return {each.reason: str(each.examples[0]["why"]) for each in found}


def test_truths_that_come_for_wrong_items_are_named_and_count_nowhere(tmp_path: Path) -> None:
    """Of what acts, 90% of the wrong and 30% of the right items have a truth; of three of them it is another one."""
    rng, frame = np.random.default_rng(3), rows()
    acts = frame["score"] >= 0.8
    came = ~acts | (rng.random(len(frame)) < np.where(frame["actual"] == 1, 0.1, 0.9))
    stated = frame.assign(predicted_at=frame["resolved_at"], resolved_at=frame["resolved_at"].where(came))
    stated["actual"] = frame["actual"].where(came)
    write_duckdb(tmp_path / "warehouse.duckdb", stated)
    world = make_world(tmp_path, config=AUDITED, warehouse_url=f"duckdb:///{tmp_path / 'warehouse.duckdb'}")
    assert world.calmon("backfill", "--from", WEEKS[7], "--to", WEEKS[8]).exit_code == 0
    before = acting_counts(world, WEEKS[8])
    assert all(counts.rows for counts in before.values())
    assert not {"truths_biased", "audit_differs"} & set(quality_of(world, WEEKS[8]))

    file, truth = tmp_path / "audit.csv", frame.set_index(["label", "item"])["actual"]
    drawn = drawn_file(world, file, WEEKS[8], "--each", "200")
    known = stated.set_index(["label", "item"])["actual"]
    keys = [(row["label"], row["item"]) for row in drawn]
    odd = set([key for key in keys if known[key] == 1.0][:3])
    found = [truth[key] if key not in odd else 1 - truth[key] for key in keys]
    write_rows(file, [row | {"truth": str(value)} for row, value in zip(drawn, found, strict=True)])
    assert world.calmon("audit", "import", str(file), *SOURCE).exit_code == 0
    assert world.calmon("run", "weekly", "--week", WEEKS[9]).exit_code == 0

    both = sum(known[key] == known[key] for key in keys)
    said = quality_of(world, WEEKS[8])
    assert said["audit_differs"].startswith(f"people found another truth than the relation for 3 of {both} checked")
    pairs = list(zip(keys, found, strict=True))
    came_for = {y: [known[key] == known[key] for key, value in pairs if value == y] for y in (0, 1)}
    wrong, right = (f"{np.mean(came_for[y]):.0%}" for y in (0, 1))
    assert f"for {wrong} of wrong and {right} of right items, of {len(keys)} items" in said["truths_biased"]
    assert "truths_biased" in quality_of(world, WEEKS[9])
    assert all(counts.rows == 0 for counts in acting_counts(world, WEEKS[9]).values()), "no audit, no truth"
    audited = acting_counts(world, WEEKS[8])
    assert {label: counts.rows for label, counts in audited.items() if label} == {
        label: sum(key[0] == label for key in keys) for label in ("rare", "slipping", "steady")
    }
    shown = world.calmon("report", "--week", WEEKS[9])
    assert "the truths of what acts alone are biased" in " ".join(shown.output.split()), shown.output


def test_truths_of_some_labels_are_no_bias() -> None:
    """Known for most items of a label that is often wrong, for few of one that is right: within each it is chance."""
    rng, named_biased = np.random.default_rng(11), 0
    for _ in range(300):
        strata = []
        for right, known in ((0.6, 0.9), (0.95, 0.2)):
            y, k = rng.random(80) < right, rng.random(80) < known
            strata.append((int((y & k).sum()), int(y.sum()), int((~y & k).sum()), int((~y).sum())))
        named_biased += truth_bias(strata) is not None
    assert named_biased <= 3
    assert truth_bias([]) is None
