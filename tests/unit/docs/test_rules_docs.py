"""What can be configured is documented: every key, variable, problem and shipped rule, with examples that load."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from monitor.config.load import load_config, parse_config
from monitor.config.model import Config, Rule
from monitor.config.problems import PROBLEMS, ConfigProblems
from monitor.config.sections import SECTIONS, Pattern
from monitor.config.settings import SECRETS, Settings, variable

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
SHIPPED = load_config(ROOT / "alerts.yaml")
COMMENTED = parse_config(
    re.sub(r"^  # (?=- \{id: )", "  ", (ROOT / "alerts.yaml").read_text("utf-8"), flags=re.MULTILINE)
)
"""The same with the rules that are only proposed in it, behind a #."""

RULE_HEADINGS = ["When it fires, do this", "Tuning"]
HEADINGS = {
    (): "The file",
    ("sources", "*"): "sources.NAME",
    ("sources", "*", "score"): "sources.NAME.score",
    ("sources", "*", "costs"): "sources.NAME.costs",
    ("sources", "*", "truth"): "sources.NAME.truth",
    ("sources", "*", "wide"): "sources.NAME.wide",
    ("sources", "*", "labels", "*", "costs"): "sources.NAME.labels.LABEL.costs",
    ("sources", "*", "labels", "*"): "sources.NAME.labels.LABEL",
    ("rules", "*"): "rules",
    ("rules", "*", "match"): "rules.match",
    ("routes", "*"): "routes",
    ("routes", "*", "match"): "routes.match",
}

# What an example leaves out stands here, so that an example can be short.
MINIMAL = {
    "version": "version: 1\n",
    "sources": "sources: {tickets: {relation: tickets, score_is: probability_of_label}}\n",
    "rules": "rules: [{id: ece-increase, metric: ece, condition: increase, threshold: 0.02}]\n",
    "automation": "automation: {when_not_evaluated: keep}\n",
}


@dataclass(frozen=True)
class Example:
    file: str
    heading: str
    wrong: bool
    text: str

    @property
    def completed(self) -> str:
        """The example as a whole file."""
        given = set(re.findall(r"^(\w+):", self.text, re.MULTILINE))
        return self.text + "".join(text for key, text in MINIMAL.items() if key not in given)

    @property
    def is_ours(self) -> bool:
        """Whether it is of alerts.yaml and not of another YAML file."""
        keys = set(re.findall(r"^(\w+):", self.text, re.MULTILINE))
        return bool(keys) and keys <= set(Config.model_fields)


def sections(text: str) -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def examples() -> list[Example]:
    found = []
    for path in sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")]):
        for heading, body in sections("## (top)\n" + path.read_text("utf-8")).items():
            for wrong, text in re.findall(r"^```yaml( wrong)?\n(.*?)^```$", body, re.MULTILINE | re.DOTALL):
                found.append(Example(path.relative_to(ROOT).as_posix(), heading, bool(wrong), text))
    return [example for example in found if example.is_ours]


EXAMPLES = examples()
assert {example.file for example in EXAMPLES} >= {"docs/problems.md", "docs/configuration.md"}
PROBLEM_SECTIONS = sections((DOCS / "problems.md").read_text("utf-8"))
CONFIGURATION = sections((DOCS / "configuration.md").read_text("utf-8"))


def named(example: Example) -> str:
    return f"{example.file}: {example.heading}"


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not e.wrong], ids=named)
def test_every_example_in_the_docs_loads(example: Example) -> None:
    assert parse_config(example.completed).rules


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.wrong], ids=named)
def test_every_wrong_example_has_exactly_the_problem_it_is_under(example: Example) -> None:
    with pytest.raises(ConfigProblems) as raised:
        parse_config(example.completed)
    assert [problem.id for problem in raised.value.problems] == [example.heading.split()[0]]


def test_every_problem_has_a_section_in_the_order_of_the_ids() -> None:
    assert [heading.partition(" ")[0] for heading in PROBLEM_SECTIONS] == list(PROBLEMS)


@pytest.mark.parametrize("heading", [h for h in PROBLEM_SECTIONS if not h.startswith("CAL002")])
def test_every_problem_shows_what_is_wrong_and_its_fix(heading: str) -> None:
    shown = [example.wrong for example in EXAMPLES if (example.file, example.heading) == ("docs/problems.md", heading)]
    assert shown == [True, False]


@pytest.mark.parametrize("rule", COMMENTED.rules, ids=lambda rule: rule.id)
def test_every_shipped_and_every_proposed_rule_has_a_page_with_the_same_headings_and_its_own_numbers(
    rule: Rule,
) -> None:
    text = (DOCS / "rules" / f"{rule.id}.md").read_text("utf-8")
    assert text.startswith(f"# {rule.id}\n")
    assert list(sections(text)) == RULE_HEADINGS
    (example,) = [e for e in EXAMPLES if e.file == f"docs/rules/{rule.id}.md"]
    assert parse_config(example.completed).rules == (rule,)


def test_no_rule_page_is_left_of_a_rule_that_is_gone() -> None:
    assert {path.stem for path in (DOCS / "rules").glob("*.md")} == {rule.id for rule in COMMENTED.rules}


def rows_of(body: str) -> dict[str, list[str]]:
    """The cells of a table after the first, by what stands in backquotes in the first."""
    rows = (
        re.split(r"\s*\|\s*", line.strip().strip("|").strip()) for line in body.split("\n") if line.startswith("| `")
    )
    return {cells[0].strip("`"): cells[1:] for cells in rows}


@pytest.mark.parametrize("pattern", SECTIONS, ids=lambda pattern: ".".join(pattern) or "top")
def test_every_key_has_its_row_and_no_other_has(pattern: Pattern) -> None:
    rows = rows_of(CONFIGURATION[HEADINGS.get(pattern, ".".join(pattern))])
    keys = [field.alias or name for name, field in SECTIONS[pattern].model_fields.items()]
    assert sorted(rows) == sorted(keys)


@pytest.mark.parametrize("pattern", SECTIONS, ids=lambda pattern: ".".join(pattern) or "top")
def test_every_default_in_the_tables_is_the_real_one(pattern: Pattern) -> None:
    rows = rows_of(CONFIGURATION[HEADINGS.get(pattern, ".".join(pattern))])
    for name, field in SECTIONS[pattern].model_fields.items():
        written = rows[field.alias or name][-1]
        assert (written == "required") == field.is_required(), name
        if isinstance(field.default, str | int | float) and field.default is not PydanticUndefined:
            assert written.split(";")[0] == (str(field.default).lower().replace("utc", "UTC") or "none"), name


def test_every_choice_of_a_key_is_named_in_its_row() -> None:
    checked = 0
    for pattern, model in SECTIONS.items():
        rows = rows_of(CONFIGURATION[HEADINGS.get(pattern, ".".join(pattern))])
        for name, field in model.model_fields.items():
            for choice in re.findall(r"Literal\[(.*?)\]", str(field.annotation)):
                row = " ".join(rows[field.alias or name])
                assert all(word.strip("' ") in row for word in choice.split(",")), (name, choice)
                checked += 1
    assert checked > 10  # the annotations are still written so that the choices are found


def test_every_variable_has_its_row_with_its_default() -> None:
    rows = rows_of(CONFIGURATION["Environment"])
    assert list(rows) == [variable(field) for field in Settings.model_fields]
    for name, field in Settings.model_fields.items():
        default = getattr(field.default, "get_secret_value", lambda default=field.default: default)()
        if default is not None:
            assert rows[variable(name)][1] == str(default)
        assert (f"`{variable(name)}_FILE`" in rows[variable(name)]) == (name in SECRETS)
