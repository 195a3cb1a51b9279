"""alerts.yaml is read whole and typed, or refused with all of its problems."""

from __future__ import annotations

import json
import os
import pickle
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from monitor.config.checks import matches_nothing, never_fires
from monitor.config.load import load_config, parse_config
from monitor.config.model import Config, ReEnableAfter, RuleMatch, Strict
from monitor.config.problems import PROBLEMS, ConfigProblems, Problem, render
from monitor.config.sections import SECTIONS

CASES = sorted((Path(__file__).parents[2] / "cases" / "rules").glob("*.yaml"))
EXPECTED = "# --- expected ---\n"
SHIPPED = Path(__file__).parents[3] / "alerts.yaml"

LASTING = ["lasting-ece-increase", "lasting-auc-decrease"]
# The example of the design, unchanged.
DESIGNED = """\
version: 1
timezone: UTC                     # the schedules in deployments/ must say the same: `check` compares
sources:
  tickets:
    relation: resolved_tickets
    columns: {item: ticket_id, resolved_at: resolved_at}   # canonical: theirs; the same name may be left out
    score_is: probability_of_label
    window_on: resolved_at
    segments: [model_version, channel]
    features: [channel, language, body_length]
    automate_at: 0.8              # the score from which the classifier acts alone
    labels: {phishing: {critical: true, automate_at: 0.9}}
evaluation:
  bins: 15
  binning: equal_frequency        # or equal_width
  interval: bootstrap             # or analytic, percentile
  resamples: 1000
  confidence: 0.95
  false_discovery_rate: 0.01
  min_samples: 500
  pool_weeks: 4
  seed: 20260101
baseline: {weeks: 8, min_pairs: 10000}    # min_pairs per label; nothing is pinned again by itself
rules:
  - {id: automated-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05, min_samples: 30, schedule: weekly, severity: critical, actions: [slack, disable_automation]}
  - {id: lasting-overconfidence, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02, min_samples: 30, schedule: weekly, severity: critical, actions: [slack, disable_automation]}
  - {id: lasting-segments, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02, scope: segments, segments: all, min_samples: 30, schedule: weekly, severity: warning, actions: [slack]}
  - {id: automated-accuracy-decrease, metric: automated_accuracy, condition: decrease, threshold: 0.03, min_samples: 30, schedule: weekly, severity: critical, actions: [slack, disable_automation]}
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.02, schedule: weekly, severity: warning, actions: [slack]}
  - {id: mce-increase, metric: mce, condition: increase, threshold: 0.05, schedule: weekly, severity: warning, actions: [slack]}
  - {id: mce-blocks-scores, metric: mce, condition: above, threshold: 0.20, schedule: weekly, severity: critical, actions: [slack, block_scores]}
  - {id: ece-two-days, metric: ece, condition: above, threshold: 0.08, schedule: daily, for: 2, severity: critical, actions: [slack, disable_automation]}
  - {id: auc-floor, metric: roc_auc, condition: below, threshold: 0.80, schedule: weekly, severity: warning, actions: [slack]}
  - {id: missed-phishing, metric: false_negative_rate, match: {label: phishing}, condition: above, threshold: 0.02, schedule: weekly, severity: critical, actions: [slack, disable_automation]}
  - {id: auc-decrease, metric: roc_auc, condition: decrease, threshold: 0.03, schedule: weekly, severity: warning, actions: [slack]}
  - {id: score-shift, test: ks, column: score, threshold: 0.1, schedule: weekly, severity: info, actions: []}
automation:
  when_not_evaluated: keep        # or disable: no default, it must be written
  lease: 9d
  initial: off                    # or on_first_ok (YAML reads off as false: accepted)
  re_enable: manual               # or {after: 2}
  operators: []                   # Slack users and groups who may turn automation on
routes:
  - {match: {severity: critical}, channel: "#ml-oncall", mention: "<!subteam^S0123>", repeat: 24h}
  - {channel: "#ml-monitoring", repeat: 1w}
"""  # noqa: E501 - the design's own lines

MINIMAL = """\
version: 1
sources: {tickets: {relation: tickets, score_is: probability_of_label}}
rules: [{id: ece-increase, metric: ece, condition: increase, threshold: 0.02}]
automation: {when_not_evaluated: keep}
"""


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigProblems) as raised:
        parse_config(text)
    return raised.value.problems


def with_rule(rule: str) -> str:
    return re.sub(r"^rules: .*$", f"rules: [{rule}]", MINIMAL, flags=re.MULTILINE)


def with_source(source: str) -> str:
    return re.sub(r"^sources: .*$", f"sources: {{tickets: {source}}}", MINIMAL, flags=re.MULTILINE)


def with_automation(automation: str) -> str:
    return re.sub(r"^automation: .*$", f"automation: {automation}", MINIMAL, flags=re.MULTILINE)


# Golden cases: each file is an alerts.yaml, and after the marker what is printed about it.


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_mistake_is_printed_as_its_golden_case_says(case: Path) -> None:
    text, _, expected = case.read_text("utf-8").partition(EXPECTED)
    with pytest.raises(ConfigProblems) as raised:
        parse_config(text)
    printed = "".join(f"# {line}".rstrip() + "\n" for line in str(raised.value).split("\n"))
    if os.environ.get("CALMON_TEST_WRITE_CASES"):  # then read the difference before you keep it
        case.write_text(f"{text}{EXPECTED}{printed}", encoding="utf-8")
        expected = printed
    assert printed == expected


def test_every_problem_has_a_golden_case() -> None:
    shown = {
        found for case in CASES for found in re.findall(r"^# .*\b(CAL\d{3}) ", case.read_text("utf-8"), re.MULTILINE)
    }
    assert shown == set(PROBLEMS) - {"CAL002"}  # that one is about files that cannot be read: below


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("@here", "<!here>"), ("here", "<!here>"), ("!channel", "<!channel>"), ("<!everyone>", "<!everyone>"),
        ("U0123ABCD", "<@U0123ABCD>"), ("@W012AB", "<@W012AB>"), ("<@U0123ABCD|ann>", "<@U0123ABCD>"),
        ("S0123ABCD", "<!subteam^S0123ABCD>"), ("<!subteam^S0123ABCD|@ml>", "<!subteam^S0123ABCD>"),
        ("<@U012A> , @here", "<@U012A> <!here>"),
    ],
)  # fmt: skip
def test_a_mention_that_can_only_mean_one_thing_is_read_as_slack_writes_it(written: str, meant: str) -> None:
    config = parse_config(f"{MINIMAL}routes: [{{channel: '#ml', mention: '{written}'}}]\n")
    assert config.routes[0].mention == meant


# What is accepted.


def test_the_example_of_the_design_loads_unchanged() -> None:
    config = parse_config(DESIGNED)
    assert [rule.id for rule in config.rules] == [
        "automated-overconfidence", "lasting-overconfidence", "lasting-segments", "automated-accuracy-decrease",
        "ece-increase", "mce-increase", "mce-blocks-scores", "ece-two-days", "auc-floor", "missed-phishing",
        "auc-decrease", "score-shift",
    ]  # fmt: skip
    by_id = {rule.id: rule for rule in config.rules}
    assert by_id["ece-two-days"].for_windows == 2
    assert by_id["missed-phishing"].match == RuleMatch(label="phishing")
    assert config.sources["tickets"].columns == {"item": "ticket_id", "resolved_at": "resolved_at"}
    assert config.sources["tickets"].automate_from("phishing") == 0.9
    assert config.automation.initial == "off"
    assert config.automation.lease == timedelta(days=9)
    assert [route.repeat for route in config.routes] == [timedelta(days=1), timedelta(weeks=1)]


def test_the_shipped_file_has_the_rules_and_numbers_of_the_design() -> None:
    shipped, designed = load_config(SHIPPED), parse_config(DESIGNED)
    # and two warnings that came later: evidence on changes that lasts
    assert [rule.id for rule in shipped.rules if rule.evidence == "accumulated"] == LASTING
    shipped = shipped.model_copy(update={"rules": tuple(rule for rule in shipped.rules if rule.id not in LASTING)})
    # its own sources, and one route: a placeholder user group would page nobody
    own = {"sources", "routes"}
    assert shipped.model_dump(exclude=own) == designed.model_dump(exclude=own)
    assert set(shipped.sources) == {"tickets", "mail"}
    assert shipped.sources["mail"].is_critical("phishing")


def test_what_may_be_left_out_has_the_values_that_the_design_shows() -> None:
    config, designed = parse_config(MINIMAL), parse_config(DESIGNED)
    assert (config.evaluation, config.baseline, config.timezone) == (designed.evaluation, designed.baseline, "UTC")
    assert config.automation == designed.automation
    assert config.routes == ()
    assert config.sources["tickets"].window_on == "resolved_at"
    assert config.sources["tickets"].automate_at == 0.8


def test_the_time_zone_is_usable() -> None:
    assert parse_config(MINIMAL + "timezone: Europe/Berlin\n").zone == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(hours=24)),
        ("9d", timedelta(days=9)),
        ("1w", timedelta(weeks=1)),
        ('"2 d"', timedelta(days=2)),
    ],
)
def test_durations_are_minutes_hours_days_or_weeks(written: str, meant: timedelta) -> None:
    assert parse_config(with_automation(f"{{when_not_evaluated: keep, lease: {written}}}")).automation.lease == meant


@pytest.mark.parametrize("written", ["off", "'off'", "no", "false", "Off"])
def test_every_spelling_of_off_is_accepted_as_the_initial_state(written: str) -> None:
    assert (
        parse_config(with_automation(f"{{when_not_evaluated: keep, initial: {written}}}")).automation.initial == "off"
    )


def test_automation_may_come_back_after_good_windows() -> None:
    automation = parse_config(with_automation("{when_not_evaluated: disable, re_enable: {after: 2}}")).automation
    assert automation.re_enable == ReEnableAfter(after=2)


@pytest.mark.parametrize("label", ["no", "off", "404", "1.5", "null", "2026-01-01", "a: b", "<!here>", "="])
def test_a_label_keeps_the_name_that_is_written(label: str) -> None:
    key = f'"{label}"' if ":" in label else label
    source = f"{{relation: t, score_is: probability_of_label, labels: {{{key}: {{critical: true}}}}}}"
    assert parse_config(with_source(source)).sources["tickets"].is_critical(label)


@pytest.mark.parametrize(
    ("test", "column", "scope"),
    [("ks", "score", "labels"), ("psi", "score", "labels"), ("chi_square", "label", "source")],
)
def test_a_shift_test_without_a_column_is_of_what_it_can_compare(test: str, column: str, scope: str) -> None:
    (rule,) = parse_config(with_rule(f"{{id: a, test: {test}, threshold: 0.1}}")).rules
    assert (rule.column, rule.scope, rule.measure) == (column, scope, test)


@pytest.mark.parametrize("test", ["missing", "new_categories", "constant", "empty"])
def test_what_happened_to_a_column_is_asked_of_a_feature_only(test: str) -> None:
    def with_column(column: str) -> str:
        source = "sources: {tickets: {relation: t, score_is: probability_of_label, features: [language]}}"
        return re.sub(
            r"^sources: .*$", source, with_rule(f"{{id: own, test: {test}, {column}threshold: 0.1}}"), flags=re.M
        )

    (rule,) = parse_config(with_column("column: language, ")).rules
    assert (rule.column, rule.scope) == ("language", "source")
    unnamed = f"{test} is of a feature column, and this rule names none"
    scores = f"unknown column 'score': {test} is of one of the sources' features"
    for column, expected in (("", unnamed), ("column: score, ", scores)):
        with pytest.raises(ConfigProblems, match=expected):
            parse_config(with_column(column))


def test_the_weeks_before_are_a_reference_for_changes_of_one_week() -> None:
    step = "{id: a, metric: ece, condition: increase, threshold: 0.02, reference: previous_weeks}"
    (rule,) = parse_config(with_rule(step)).rules
    assert (rule.rolls, rule.reference_weeks) == (True, 4)


@pytest.mark.parametrize(
    "rule",
    [
        "metric: ece, condition: above",
        "metric: ece, condition: increase, schedule: daily",
        "metric: ece, condition: increase, for: 2",
        "metric: ece, condition: increase, scope: segments",
        "metric: macro_f1, condition: decrease",
        "test: missing, column: language",
    ],
)
def test_what_the_weeks_before_are_no_reference_for_is_refused(rule: str) -> None:
    found = problems_of(with_rule(f"{{id: a, {rule}, threshold: 0.1, reference: previous_weeks}}"))
    assert any("the weeks before are a reference for one week" in problem.summary for problem in found)
    alone = with_rule("{id: a, metric: ece, condition: increase, threshold: 0.1, reference_weeks: 2}")
    assert [problem.id for problem in problems_of(alone)] == ["CAL024"]


def test_a_longer_run_of_windows_may_be_asked_of_an_increase() -> None:
    (rule,) = parse_config(with_rule("{id: a, metric: ece, condition: increase, for: 3, threshold: 0.02}")).rules
    assert rule.for_windows == 3


def test_a_shift_test_is_of_one_window_alone() -> None:
    assert parse_config(with_rule("{id: a, test: ks, for: 1, threshold: 0.1}")).rules
    (problem,) = problems_of(with_rule("{id: a, test: ks, for: 2, threshold: 0.1}"))
    assert (problem.id, problem.summary) == (
        "CAL024", "a shift test is of one window alone: the windows before are not compared",
    )  # fmt: skip


@pytest.mark.parametrize(
    "relation",
    [
        "tickets",
        "marts.resolved_tickets",
        "data/*.parquet",
        "selected_tickets",
        "\"select a, ';' from b -- (\\n\"",
        '"with a as (select 1) select * from a"',
        '"/* why */ SELECT 1 from \\"a;b\\""',
    ],
)
def test_a_table_a_view_or_one_select_is_a_relation(relation: str) -> None:
    assert parse_config(with_source(f"{{relation: {relation}, score_is: probability_of_label}}")).sources["tickets"]


def test_the_semicolon_people_paste_with_a_select_is_dropped() -> None:
    source = parse_config(with_source('{relation: "select * from a;\\n", score_is: probability_of_label}')).sources[
        "tickets"
    ]
    assert source.relation == "select * from a"


def test_confidence_in_prediction_needs_no_mapping_where_the_column_has_the_canonical_name() -> None:
    config = parse_config(with_source("{relation: t, score_is: confidence_in_prediction}"))
    assert config.sources["tickets"].columns == {}


def test_segments_and_features_may_be_mapped_too() -> None:
    source = "{relation: t, score_is: probability_of_label, segments: [channel], columns: {channel: kanal}}"
    assert parse_config(with_source(source)).sources["tickets"].columns == {"channel": "kanal"}


def test_an_anchor_may_be_used_again() -> None:
    text = MINIMAL.replace("rules: [{", "rules: [{actions: &act [slack, disable_automation], ")
    both = text.replace("}]", "}, {id: b, metric: mce, threshold: 0.2, actions: *act}]")
    assert [rule.actions for rule in parse_config(both).rules] == [("slack", "disable_automation")] * 2


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load_config(path) == parse_config(MINIMAL)


# What is refused.


def test_control_characters_of_the_file_never_reach_the_terminal() -> None:
    text = MINIMAL.replace("timezone", "x") + 'timezone: "\x85\\e[31m"\n'
    printed = str(ConfigProblems(problems_of(text), text))
    assert all(character.isprintable() or character == "\n" for character in printed)


def test_nothing_is_loaded_because_of_a_single_problem() -> None:
    assert len(problems_of(MINIMAL + "routes: [{channel: '#a', match: {rule: nope}}]\n")) == 1


def test_problems_survive_being_sent_between_processes() -> None:
    problems = problems_of(MINIMAL + "x: 1\n")
    copied = pickle.loads(pickle.dumps(ConfigProblems(problems, MINIMAL)))  # noqa: S301 - our own bytes
    assert (copied.problems, copied.text) == (problems, MINIMAL)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("localtime", "a name such as UTC or Europe/Berlin"),
        ("posixrules", "a name such as UTC or Europe/Berlin"),
        ("Factory", "a name such as UTC or Europe/Berlin"),
        ("right/Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("CEST", "a name such as UTC or Europe/Berlin"),
    ],
)
def test_a_zone_that_is_the_machine_s_or_counts_leap_seconds_is_none(name: str, remedy: str) -> None:
    (found,) = problems_of(MINIMAL + f"timezone: {name}\n")
    assert (found.id, found.remedy) == ("CAL008", f"timezone: {remedy}")


def test_operators_are_ids_of_slack_users_and_groups() -> None:
    good = ["<@U0123>", "W0456", "<!subteam^S0789|on-call>"]
    assert parse_config(with_automation(f"{{when_not_evaluated: keep, operators: {good}}}")).automation.operators
    found = problems_of(with_automation(f"{{when_not_evaluated: keep, operators: {[*good, 'ada', '<!here>']}}}"))
    assert [(p.id, p.summary) for p in found] == [
        ("CAL020", "the operator 'ada' is not the id of a Slack user or user group"),
        ("CAL020", "the operator '<!here>' is not the id of a Slack user or user group"),
    ]


SHAPES = (
    {"metric": "recall", "where": "automated", "condition": "below", "certainty": "significant"},
    {"metric": "mce", "condition": "above", "actions": ["block_scores"]},
    {"metric": "ece", "condition": "increase", "reference": "previous_weeks", "mute": ["traffic_mix"]},
    {"metric": "overconfidence", "condition": "accumulated", "scope": "segments", "segments": ["channel"]},
    {"test": "wasserstein", "column": "score", "where": "automated", "condition": "above"},
    {"metric": "subset_accuracy", "scope": "source", "where": "all", "condition": "below"},
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.get("metric", "test"))
@pytest.mark.parametrize("value", [{"a": 1}, [["a"]]], ids=["mapping", "list"])
def test_a_mapping_or_a_list_where_a_word_belongs_is_a_problem_and_no_crash(shape: dict[str, Any], value: Any) -> None:
    plain = {"id": "odd", "threshold": 0.5, "severity": "warning", "actions": ["slack"], **shape}
    for key in plain:
        assert problems_of(with_rule(json.dumps({**plain, key: value}))), key


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("kind: {a: 1}", ["CAL019"]),
        ("latest_by: ' '", ["CAL020"]),
        ("truth: {relation: truths, on: ''}", ["CAL020"]),
        ("kind: multiclass, score_is: confidence_in_prediction, agreement_by: annotator", ["CAL033", "CAL033"]),
    ],
)
def test_odd_values_of_a_source_are_all_told_once(source: str, told: list[str]) -> None:
    probability = "" if "score_is" in source else "score_is: probability_of_label, "
    found = problems_of(with_source(f"{{relation: t, {probability}{source}}}"))
    assert [problem.id for problem in found] == told


@pytest.mark.parametrize(
    ("labels", "match", "why"),
    [
        ("{}", "{critical: true}", "match is about critical labels, and no label has critical: true"),
        ("{a: {}}", "{critical: true, label: a}", "match names the label 'a', which is not critical"),
        ("{a: {critical: true}}", "{critical: false, label: a}", "match names the label 'a', which is critical"),
        ("{a: {critical: true}}", "{critical: true}", ""),
        ("{a: {critical: true}}", "{critical: true, label: a}", ""),
        ("{}", "{critical: false}", ""),
        ("{}", "{label: a}", ""),
    ],
)
def test_a_match_that_no_label_can_have_is_noted(labels: str, match: str, why: str) -> None:
    source = with_source(f"{{relation: t, score_is: probability_of_label, labels: {labels}}}")
    config = parse_config(source.replace("threshold: 0.02", f"threshold: 0.02, match: {match}"))
    assert matches_nothing(config.rules[0], config) == (f"{why}, so it has no verdict" if why else "")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("metric: accuracy, threshold: 1", "accuracy is never above 1, so it never fires"),
        ("metric: roc_auc, condition: below, threshold: 0", "roc_auc is never below 0, so it never fires"),
        ("metric: ece, condition: increase, threshold: 1", "an increase of ece is never above 1, so it never fires"),
        ("metric: ece, threshold: 0", ""),
        ("metric: accuracy, condition: below, threshold: 1", ""),
        ("test: psi, column: score, threshold: 9", ""),
        ("test: wasserstein, threshold: 5", "wasserstein of score is never above 5, so it never fires"),
        ("test: wasserstein, threshold: 0.9", ""),
    ],
)
def test_a_rule_that_can_never_fire_is_noted(rule: str, why: str) -> None:
    assert never_fires(parse_config(with_rule(f"{{id: a, {rule}}}")).rules[0]) == why


@pytest.mark.parametrize("threshold", ["-1", "-0.05", "0.3"])
def test_a_overconfidence_may_be_negative(threshold: str) -> None:
    assert parse_config(with_rule(f"{{id: a, metric: overconfidence, threshold: {threshold}}}")).rules


def test_deep_nesting_is_a_problem_and_not_a_crash() -> None:
    assert [p.id for p in problems_of("a: " + "[" * 5000)] == ["CAL001"]
    assert "CAL001" in [p.id for p in problems_of("a: " + "[" * 60 + "]" * 60)]


@pytest.mark.parametrize("name", ["overconfidence", "expected_overconfidence"])
def test_a_rule_may_call_overconfidence_shortfall(name: str) -> None:
    text = _with_metric(name)
    written = text.replace(name, name.replace("overconfidence", "shortfall"))
    assert written != text
    assert parse_config(written) == parse_config(text)


def test_a_metric_of_the_highest_ranks_is_also_written_as_in_papers() -> None:
    source = "sources: {a: {kind: top_k, relation: t, score_is: probability_of_label}}"
    rule = "scope: source, condition: above, threshold: 0.05"
    named, written = (
        parse_config(
            f"version: 1\ntimezone: UTC\n{source}\nrules: [{{id: r, metric: {name}, {rule}}}]\n"
            "automation: {when_not_evaluated: keep}\n"
        )
        for name in ("ece_at_3", "ece@3")
    )
    assert written == named
    with pytest.raises(ConfigProblems, match="ece@4"):
        parse_config(
            f"version: 1\ntimezone: UTC\n{source}\nrules: [{{id: r, metric: ece@4, {rule}}}]\n"
            "automation: {when_not_evaluated: keep}\n"
        )


def _with_metric(name: str) -> str:
    unresolved = ", unresolved: true" if name.startswith("expected") else ""
    return (
        f"version: 1\ntimezone: UTC\nsources: {{a: {{relation: t, score_is: probability_of_label{unresolved}}}}}\n"
        f"rules: [{{id: r, metric: {name}, where: automated, condition: above, threshold: 0.05}}]\n"
        "automation: {when_not_evaluated: keep}\n"
    )


def test_aliases_that_multiply_are_cut_off() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True))
    assert "CAL001" in {p.id for p in problems_of(bomb)}


def test_a_file_that_does_not_exist_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems) as raised:
        load_config(tmp_path / "no.yaml")
    assert str(raised.value).startswith(f"{tmp_path / 'no.yaml'} CAL002 the file does not exist\n")
    assert "CALMON_CONFIG" in str(raised.value)


def test_a_directory_or_a_binary_file_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"version: 1\n\xff\xfe")
    for path in (tmp_path, binary):
        with pytest.raises(ConfigProblems) as raised:
            load_config(path)
        assert [p.id for p in raised.value.problems] == ["CAL002"]
    assert "line 2" in str(raised.value)


# What holds of every text.

_WORDS = st.sampled_from(
    [
        "version",
        "rules",
        "sources",
        "tickets",
        "metric",
        "ece",
        "automation",
        "routes",
        "match",
        "1",
        "0.05",
        "off",
        "~",
    ]
)
_VALUES = st.recursive(
    _WORDS | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES | st.dictionaries(st.sampled_from(list(Config.model_fields)), _VALUES))
def test_any_yaml_ends_in_problems_with_a_place_in_the_file(value: object) -> None:
    text = yaml.safe_dump(value)
    lines = text.split("\n")
    for found in problems_of(text):
        assert found.id in PROBLEMS
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1
        assert render(found, text)


@given(st.text(alphabet=st.sampled_from("ab:-{}[]'\"\n\t #&*!|>%@`,?\x07\u2028é")))
def test_any_text_ends_in_problems_and_never_in_a_crash(text: str) -> None:
    assert problems_of(text)
    assert problems_of(MINIMAL + "x: " + text)


@given(st.data())
def test_every_mapping_of_the_file_refuses_keys_it_does_not_know(data: st.DataObject) -> None:
    where = data.draw(st.sampled_from(["sources: {tickets: {", "rules: [{", "automation: {"]))
    (found,) = problems_of(MINIMAL.replace(where, where + "surprise: 1, "))
    assert (found.id, found.summary[:22]) == ("CAL004", "unknown key 'surprise'")


def test_every_kind_of_mapping_is_known_to_the_sections() -> None:
    assert set(SECTIONS.values()) == set(Strict.__subclasses__())


def test_a_plain_rule_takes_no_share_of_the_false_discovery_rate_and_rules_without_the_keys_are_significant() -> None:
    text = (
        "version: 1\nsources: {t: {relation: t, score_is: probability_of_label}}\nrules:\n"
        "  - {id: a, metric: ece, threshold: 0.2%s}\n  - {id: b, metric: mce, threshold: 0.3}\n"
        "automation: {when_not_evaluated: keep}\n"
    )
    without, said = parse_config(text % ""), parse_config(text % ", certainty: significant, value: debiased")
    plain = parse_config(text % ", certainty: none, value: plug_in")
    assert without.revision == said.revision
    assert plain.revision != without.revision
    assert (without.decision_rules("weekly"), plain.decision_rules("weekly")) == (2, 1)


def test_a_copy_with_other_values_has_a_revision_of_its_own() -> None:
    config = parse_config(MINIMAL)
    before = config.revision
    assert config.model_copy().revision == before
    assert config.model_copy(update={"timezone": "Asia/Tokyo"}).revision != before
    assert config.revision == before


def test_a_value_without_end_is_shortened_where_it_is_printed() -> None:
    long = "x" * 100_000
    with pytest.raises(ConfigProblems) as raised:
        parse_config(with_rule(f"{{id: a, metric: {long}, threshold: 0.1}}"))
    printed = str(raised.value)
    assert len(printed) < 3_000
    assert "^" in printed
    assert "CAL012" in printed
