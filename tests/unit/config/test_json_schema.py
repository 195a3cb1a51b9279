"""The JSON Schema for editors takes what `calmon check` takes, and refuses what it refuses for its form."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.json_schema import heading, json_schema, schema_text
from monitor.config.sections import SECTIONS
from monitor.config.yaml_document import read_document
from monitor.operations.starter_files import starter_config
from tests.unit.config.test_rules_load import CASES, EXPECTED
from tests.unit.docs.test_rules_docs import EXAMPLES, HEADINGS, named

ROOT = Path(__file__).parents[3]
SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
#: Problems of keys, types, choices and ranges. The others are of YAML itself, or of keys that depend on each other.
OF_FORM = ("CAL004", "CAL005", "CAL006", "CAL007", "CAL009", "CAL010", "CAL011", *(f"CAL0{n}" for n in range(13, 22)))


def errors(text: str) -> list[str]:
    read = read_document(text, "alerts.yaml").data  # as editors do, where the key `on` is a word
    return [error.message for error in VALIDATOR.iter_errors(json.loads(json.dumps(read)))]


def test_the_file_in_docs_is_what_the_command_prints() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    printed = CliRunner().invoke(app, ["check", "--print-schema"]).stdout
    assert json.loads(printed) == SCHEMA
    file = (ROOT / "docs" / "alerts.schema.json").read_text("utf-8")
    assert file == schema_text(), "run: calmon check --print-schema > docs/alerts.schema.json"


def test_the_shipped_and_the_starter_file_are_right() -> None:
    assert errors((ROOT / "alerts.yaml").read_text("utf-8")) == []
    assert errors(starter_config("mail", "data/*.csv", {"kind": "single_label"}, "UTC")) == []


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not e.wrong], ids=named)
def test_every_example_of_the_docs_is_right(example) -> None:
    assert errors(example.completed) == []


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.wrong and e.heading.startswith(OF_FORM)], ids=named)
def test_every_example_with_a_wrong_form_is_refused(example) -> None:
    assert errors(example.completed) != []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_golden_case_with_a_wrong_form_is_refused(case: Path) -> None:
    text, _, expected = case.read_text("utf-8").partition(EXPECTED)
    is_yaml = "CAL001 not YAML" not in expected
    assert errors(text) or not is_yaml or not re.search(r"CAL0(?:0[4567]|11|1[3-8]) ", expected)


def test_every_key_has_its_meaning_from_the_page() -> None:
    assert {path: heading(path) for path in SECTIONS} == {
        path: HEADINGS.get(path, ".".join(path) or "The file") for path in SECTIONS
    }
    models = {**SCHEMA["$defs"], "Config": SCHEMA}
    silent = [
        (model, key) for model, parts in models.items() for key, part in parts["properties"].items()
        if not part.get("description")
    ]  # fmt: skip
    assert silent == []
