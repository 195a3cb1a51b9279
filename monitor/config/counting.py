"""The settings of a source that decide what its counts mean, in the form in which the history keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from monitor.config.model import SourceConfig
from monitor.config.relation import is_select
from monitor.core.source_settings import COLUMN, QUERY

_PLAIN = ("kind", "score_scale", "score", "latest_by", "agreement_by", "types", "window_on")
_WORDS = ("positive", "negative")
_OF_NO_NUMBER = ("model_version",)


def settings_of(source: SourceConfig) -> dict[str, str]:
    """Setting -> value, without those that have their default.

    Segments, features, thresholds and costs are no part of it: they change neither score nor outcome of a row.

    >>> settings_of(SourceConfig(relation="tickets", score_is="probability_of_label", columns={"score": "p"}))
    {'relation': 'tickets', 'score_is': 'probability_of_label', 'columns.score': 'p'}
    """
    return dict(_settings(source))


def _settings(source: SourceConfig) -> Iterator[tuple[str, str]]:
    yield "relation", _relation(source.relation)
    yield "score_is", source.score_is
    for name in (*_PLAIN, *_WORDS):
        value = getattr(source, name)
        if value != SourceConfig.model_fields[name].default:
            yield name, _text(sorted(value) if name in _WORDS else value)
    if source.truth is not None:
        yield "truth.relation", _relation(source.truth.relation)
        yield "truth.on", _text(source.truth.on)
    if source.wide is not None:  # its labels are no part of it: another label leaves the others as they are
        yield "wide", _text(source.wide.model_dump(exclude={"labels"}, exclude_none=True))
    own = (*source.segments, *source.features, *_OF_NO_NUMBER)
    for ours, theirs in sorted(source.columns.items()):
        if ours not in own and ours != theirs:
            yield f"{COLUMN}{ours}", theirs


def _text(value: Any) -> str:
    """A value as text; the same for equal values, whatever the order of their keys."""
    if isinstance(value, (str, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(value)
    plain = value.model_dump(by_alias=True) if hasattr(value, "model_dump") else dict(value)
    return json.dumps(plain, sort_keys=True, ensure_ascii=False)


def _relation(relation: str) -> str:
    """The name of a relation; of a SELECT a hash, in which white space does not count."""
    statement = " ".join(relation.split())
    if not is_select(relation):
        return statement
    return f"{QUERY}{hashlib.sha256(statement.encode()).hexdigest()[:16]}"
