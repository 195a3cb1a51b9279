"""Convert Python values to database values and back: labels as keys, numbers without NaN, plain JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias


class _AnyLabel(Enum):
    ANY = "any"


ANY: Final = _AnyLabel.ANY
"""Any label. None is not any label: it is the source as a whole."""
LabelFilter: TypeAlias = str | _AnyLabel | None

_SEGMENT_BYTES = 400
_SHORTENED = 24


def label_key(label: str | None) -> str:
    """The key of a label; ``""`` for the source as a whole. Raises ValueError for an empty label.

    >>> label_key(None), label_key("billing")
    ('', 'billing')
    """
    if label == "":
        raise ValueError("an empty label cannot be stored: it would be the source as a whole")
    return label or ""


def label_of(key: str) -> str | None:
    """The label of a key."""
    return key or None


def segment_key(segment: tuple[str, str] | None) -> str:
    """A segment as JSON; ``""`` for no segment.

    A value too long for a key is shortened to its beginning and a hash, so that different values stay different.

    >>> segment_key(("channel", "web"))
    '{"channel": "web"}'
    """
    if segment is None:
        return ""
    name, value = segment
    key = json.dumps({name: value}, ensure_ascii=False)
    if len(key.encode()) <= _SEGMENT_BYTES:
        return key
    shortened = f"{value[:_SHORTENED]}…{hashlib.sha256(value.encode()).hexdigest()[:8]}"
    return json.dumps({name: shortened}, ensure_ascii=False)


def segment_of(key: str) -> tuple[str, str] | None:
    """The segment of a key."""
    if not key:
        return None
    ((name, value),) = json.loads(key).items()
    return name, value


def number(value: float | None) -> float | None:
    """The number if it is finite, else None: NaN and infinity are never stored.

    >>> number(float("nan")), number(0.5)
    (None, 0.5)
    """
    return None if value is None or not math.isfinite(value) else float(value)


_SCALARS = frozenset({str, float, int, bool, type(None)})


def plain(value: Any) -> Any:
    """The value in types that JSON has: numpy to Python, tuples to lists, dates to text, NaN to None.

    >>> import numpy as np
    >>> plain({"blocked": ((0.8, np.float64(0.9)),), "rate": float("nan")})
    {'blocked': [[0.8, 0.9]], 'rate': None}
    """
    if type(value) in _SCALARS:  # nearly all values: the other questions take longer
        return _plain_scalar(value)
    if isinstance(value, Enum):
        return plain(value.value)
    tolist = getattr(value, "tolist", None)
    if tolist is not None:  # numpy is not imported here: a gate reads the history without it
        return plain(tolist())
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> bool | int | float | str | None:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return number(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot be stored as JSON")
