"""The JSON Schema of alerts.yaml, for editors: made from the types that read the file, so it cannot disagree.

The meaning of each key comes from docs/configuration.md. ``calmon check`` checks keys that depend on each other.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from monitor.config.model import Config
from monitor.config.sections import SECTIONS, Pattern
from monitor.core import documents

_ONLY_SOME_NEED_SCORE_IS = {
    "if": {"properties": {"kind": {"enum": ["regression", "single_label"]}}, "required": ["kind"]},
    "else": {"required": ["score_is"]},
}


class _Untitled(GenerateJsonSchema):
    """Without titles that are made from the names of keys."""

    def field_title_should_be_set(self, _: object) -> bool:
        return False


def schema_text() -> str:
    """The text of docs/alerts.schema.json."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def json_schema() -> dict[str, Any]:
    """The schema, of draft 2020-12."""
    made = Config.model_json_schema(schema_generator=_Untitled)
    models = {**made.pop("$defs"), "Config": made}
    models["SourceConfig"]["required"].remove("score_is")
    models["SourceConfig"] |= _ONLY_SOME_NEED_SCORE_IS
    models["Rule"]["oneOf"] = [{"required": ["metric"]}, {"required": ["test"]}]
    models["Route"]["anyOf"] = [{"required": ["channel"]}, {"required": ["apprise"]}]
    del models["Route"]["properties"]["channel"]["default"]
    made["properties"]["sources"]["minProperties"] = made["properties"]["rules"]["minItems"] = 1
    for path, keys in _meanings().items():
        for key, meaning in keys.items():
            models[SECTIONS[path].__name__]["properties"][key]["description"] = meaning
    for model in models.values():
        for of_code in ("title", "description"):  # the name and the docstring of a class are for readers of the code
            model.pop(of_code, None)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "alerts.yaml of calibration-monitor",
    }
    return {**head, **made, "$defs": {name: models[name] for name in sorted(models) if name != "Config"}}


def _meanings() -> dict[Pattern, dict[str, str]]:
    """The meaning of each key, from the tables of the page; {} if the documents are not installed."""
    page = documents.text_of("configuration") or ""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    found: dict[Pattern, dict[str, str]] = {}
    for path in SECTIONS:
        rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", bodies.get(heading(path), ""), re.MULTILINE)
        found[path] = {key: re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", meaning) for key, meaning in rows}
    return found


def heading(path: Pattern) -> str:
    """The heading in docs/configuration.md above the keys of a section.

    >>> heading(("sources", "*", "labels", "*")), heading(("rules", "*", "match")), heading(())
    ('sources.NAME.labels.LABEL', 'rules.match', 'The file')
    """
    names = {("sources", "*"): "NAME", ("sources", "*", "labels", "*"): "LABEL"}
    words = (names.get(path[: index + 1], "") if step == "*" else step for index, step in enumerate(path))
    return ".".join(word for word in words if word) or "The file"
