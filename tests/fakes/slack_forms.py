"""The limits that Slack has for messages, blocks and modals (``tests/cases/slack/forms.json``), and its refusals."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

Answer = dict[str, Any]
FORMS = json.loads((Path(__file__).parents[1] / "cases" / "slack" / "forms.json").read_text("utf-8"))
TOTAL_BLOCKS = 16_000  # not documented by Slack; it refused 17,700 characters of JSON


def form_problem(text: str, blocks: Any, metadata: Any) -> Answer | None:
    """The refusal of an invalid message; None if it is valid."""
    if not text and not blocks:
        return {"ok": False, "error": "no_text"}
    if len(text) > 40_000:
        return {"ok": False, "error": "msg_too_long"}
    if metadata is not None and not (
        isinstance(metadata, dict) and metadata.get("event_type") and isinstance(metadata.get("event_payload"), dict)
    ):
        return {"ok": False, "error": "invalid_metadata_format"}
    problems = _problems("message", blocks) or _repeated(blocks)
    if problems:
        return _refused("invalid_blocks", problems)
    if len(json.dumps(blocks)) > TOTAL_BLOCKS:
        return {"ok": False, "error": "msg_blocks_too_long"}
    return None


def view_problem(view: Any) -> Answer | None:
    """The refusal of an invalid modal; None if it is valid."""
    problems = _problems("view", view) or _repeated(view.get("blocks", []))
    return _refused("invalid_arguments", problems) if problems else None


@cache
def _validator(form: str) -> Draft202012Validator:
    return Draft202012Validator(FORMS | {"$ref": f"#/$defs/{form}"})


def _problems(form: str, value: Any) -> list[str]:
    """What is wrong, what is too long in Slack's words."""
    return [
        f"must be less than {error.validator_value + 1} characters [json-pointer:{error.json_path}]"
        if error.validator == "maxLength" else f"{error.message} [json-pointer:{error.json_path}]"
        for error in _validator(form).iter_errors(value)
    ]  # fmt: skip


def _repeated(blocks: list[Any]) -> list[str]:
    """The ids that are there twice, which a schema cannot say: of blocks, and of the buttons of one block."""
    ids = [("block_id", [block["block_id"] for block in blocks if block.get("block_id")])]
    ids += [
        ("action_id", [one["action_id"] for one in block["elements"]]) for block in blocks if block["type"] == "actions"
    ]
    return [f"{name} already exists in {known}" for name, known in ids if len(set(known)) < len(known)]


def _refused(error: str, problems: list[str]) -> Answer:
    return {
        "ok": False, "error": error, "response_metadata": {"messages": [f"[ERROR] {p}" for p in problems]},
    }  # fmt: skip
