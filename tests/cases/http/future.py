"""A hook of schemathesis for the two rules that no schema can say, so that right requests stay right.

``until`` lies in the future (``at`` in years that the service takes), and a key is for one request: well-formed ones
are made so.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import schemathesis

_numbers = itertools.count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    for name in ("until", "at"):
        moment = case.body.get(name) if isinstance(case.body, dict) else None
        if isinstance(moment, str) and re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T", moment):
            case.body[name] = f"2099{moment[4:]}"
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch(r"[\x21-\x7e]{1,200}", key):
        case.headers["Idempotency-Key"] = f"{key[:150]}-{next(_numbers)}"
