"""The limits that Slack has for messages, blocks and modals, with Slack's own texts of refusal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

Answer = dict[str, Any]
TOTAL_BLOCKS = 16_000  # not documented by Slack; it refused 17,700 characters of JSON
PLAIN, ANY_TEXT = ("plain_text",), ("mrkdwn", "plain_text")


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
    problems = list(block_problems(blocks)) if isinstance(blocks, list) else ["blocks must be an array"]
    if problems:
        return refused("invalid_blocks", problems)
    if len(json.dumps(blocks)) > TOTAL_BLOCKS:
        return {"ok": False, "error": "msg_blocks_too_long"}
    return None


def view_problem(view: Any) -> Answer | None:
    """The refusal of an invalid modal; None if it is valid."""
    if not isinstance(view, dict) or view.get("type") != "modal":
        return refused("invalid_arguments", ["must be a modal [json-pointer:/view/type]"])
    problems = list(_text_problems(view.get("title"), "/view/title", 24, PLAIN))
    for name in ("submit", "close"):
        if view.get(name) is not None:
            problems += _text_problems(view[name], f"/view/{name}", 24, PLAIN)
    for name, longest in (("private_metadata", 3000), ("callback_id", 255)):
        if len(view.get(name) or "") > longest:
            problems.append(f"must be less than {longest + 1} characters [json-pointer:/view/{name}]")
    problems += block_problems(view.get("blocks") or [], most=100)
    return refused("invalid_arguments", problems) if problems else None


def refused(error: str, problems: list[str]) -> Answer:
    return {
        "ok": False, "error": error, "response_metadata": {"messages": [f"[ERROR] {p}" for p in problems]},
    }  # fmt: skip


def block_problems(blocks: list[Any], most: int = 50) -> Iterator[str]:
    """The problems for which Slack would refuse the blocks, with Slack's pointers."""
    if len(blocks) > most:
        yield f"no more than {most} items allowed [json-pointer:/blocks]"
    named = Counter(b["block_id"] for b in blocks if isinstance(b, dict) and b.get("block_id"))
    yield from (f"block_id {name!r} already exists [json-pointer:/blocks]" for name, n in named.items() if n > 1)
    for i, block in enumerate(blocks):
        at = f"/blocks/{i}"
        kind = block.get("type") if isinstance(block, dict) else None
        check = _CHECKS.get(kind or "")
        if check is None:
            yield f"unsupported type: {kind} [json-pointer:{at}/type]"
            continue
        if len(block.get("block_id") or "") > 255:
            yield f"must be less than 256 characters [json-pointer:{at}/block_id]"
        yield from check(block, at)


def _header(block: Answer, at: str) -> Iterator[str]:
    yield from _text_problems(block.get("text"), f"{at}/text", 150, PLAIN)


def _section(block: Answer, at: str) -> Iterator[str]:
    fields = block.get("fields") or []
    if block.get("text") is None and not fields:
        yield f"missing required field: text [json-pointer:{at}]"
    elif block.get("text") is not None:
        yield from _text_problems(block["text"], f"{at}/text", 3000, ANY_TEXT)
    if len(fields) > 10:
        yield f"no more than 10 items allowed [json-pointer:{at}/fields]"
    for j, one in enumerate(fields):
        yield from _text_problems(one, f"{at}/fields/{j}", 2000, ANY_TEXT)
    if block.get("accessory") is not None:
        yield from _button(block["accessory"], f"{at}/accessory")


def _context(block: Answer, at: str) -> Iterator[str]:
    elements = block.get("elements") or []
    if not 1 <= len(elements) <= 10:
        yield f"1 to 10 items allowed [json-pointer:{at}/elements]"
    for j, one in enumerate(elements):
        yield from _text_problems(one, f"{at}/elements/{j}", 3000, ANY_TEXT)


def _actions(block: Answer, at: str) -> Iterator[str]:
    elements = block.get("elements") or []
    if not 1 <= len(elements) <= 25:
        yield f"1 to 25 items allowed [json-pointer:{at}/elements]"
    for j, one in enumerate(elements):
        yield from _button(one, f"{at}/elements/{j}")
    named = Counter(str(e.get("action_id")) for e in elements if isinstance(e, dict))
    yield from (f"action_id {n!r} already exists [json-pointer:{at}/elements]" for n, k in named.items() if k > 1)


def _button(element: Any, at: str) -> Iterator[str]:
    if not isinstance(element, dict) or element.get("type") != "button":
        yield f"unsupported type [json-pointer:{at}/type]"
        return
    yield from _text_problems(element.get("text"), f"{at}/text", 75, PLAIN)
    for name, longest in (("action_id", 255), ("value", 2000), ("url", 3000)):
        if len(element.get(name) or "") > longest:
            yield f"must be less than {longest + 1} characters [json-pointer:{at}/{name}]"
    if not element.get("action_id"):
        yield f"missing required field: action_id [json-pointer:{at}]"
    if element.get("style") not in (None, "primary", "danger"):
        yield f"must be one of primary, danger [json-pointer:{at}/style]"
    if element.get("confirm") is not None:
        yield from _confirm(element["confirm"], f"{at}/confirm")


def _confirm(confirm: Answer, at: str) -> Iterator[str]:
    yield from _text_problems(confirm.get("title"), f"{at}/title", 100, PLAIN)
    yield from _text_problems(confirm.get("text"), f"{at}/text", 300, ANY_TEXT)
    for name in ("confirm", "deny"):
        if confirm.get(name) is not None:
            yield from _text_problems(confirm[name], f"{at}/{name}", 30, PLAIN)


def _input(block: Answer, at: str) -> Iterator[str]:
    yield from _text_problems(block.get("label"), f"{at}/label", 2000, PLAIN)
    element = block.get("element") or {}
    if element.get("type") != "plain_text_input":
        yield f"unsupported type [json-pointer:{at}/element/type]"
    if not 0 <= element.get("min_length", 0) <= element.get("max_length", 3000) <= 3000:
        yield f"lengths must be 0 to 3000 [json-pointer:{at}/element]"
    if element.get("placeholder") is not None:
        yield from _text_problems(element["placeholder"], f"{at}/element/placeholder", 150, PLAIN)


def _divider(_block: Answer, _at: str) -> Iterator[str]:
    yield from ()


def _text_problems(text: Any, at: str, longest: int, kinds: tuple[str, ...]) -> Iterator[str]:
    allowed = {"mrkdwn": {"type", "text", "verbatim"}, "plain_text": {"type", "text", "emoji"}}
    if not isinstance(text, dict) or text.get("type") not in kinds:
        yield f"must be one of {', '.join(kinds)} [json-pointer:{at}/type]"
        return
    if set(text) - allowed[text["type"]]:
        yield f"no more fields allowed [json-pointer:{at}]"
    length = len(text.get("text") or "")
    if length == 0:
        yield f"must be more than 0 characters [json-pointer:{at}/text]"
    if length > longest:
        yield f"must be less than {longest + 1} characters [json-pointer:{at}/text]"


_CHECKS = {
    "header": _header, "section": _section, "context": _context, "actions": _actions, "input": _input,
    "divider": _divider,
}  # fmt: skip
