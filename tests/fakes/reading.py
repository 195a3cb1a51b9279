"""A Slack message as a person reads it, in plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def texts(block: Mapping[str, Any]) -> list[str]:
    """The texts of one block; buttons in one line, each as ``[text]``."""
    if block["type"] == "actions":
        return [" ".join(f"[{element['text']['text']}]" for element in block["elements"])]
    parts = [block["text"]] if "text" in block else block.get("elements", [])
    return [str(part["text"]) for part in parts]


def as_read(payload: Mapping[str, Any]) -> str:
    """The message as one readable file: channel, fallback text, then each block."""
    return "\n".join([f"to {payload['channel']}", "", payload["text"], "", *lines_of(payload)]) + "\n"


def lines_of(payload: Mapping[str, Any]) -> list[str]:
    """The blocks of a message, a divider as a line of its own."""
    found = []
    for block in payload["blocks"]:
        found += ["----"] if block["type"] == "divider" else [f"[{block['type']}] {text}" for text in texts(block)]
    return found
