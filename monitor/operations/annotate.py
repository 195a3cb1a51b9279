"""Annotations: putting a note at a time of a source or label, and taking it away again, each by name."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from monitor.core.records import Annotation
from monitor.history.store import Store

LONGEST = 1000
"""Characters of a text or a reason."""


class AnnotationRefused(ValueError):
    """Nothing is stored; the message says what is wrong."""


class AnnotationKeyReused(ValueError):
    """The key belongs to another annotation."""


@dataclass(frozen=True, slots=True)
class NewAnnotation:
    """What a person notes at a time (time zone aware) of a source; label None: of all its labels.

    With a ``key``, the same one asked for again is stored once.
    """

    source: str
    label: str | None
    at: datetime
    text: str
    by: str
    key: str | None = None


def annotate(store: Store, wanted: NewAnnotation, clock: Callable[[], datetime]) -> tuple[Annotation, bool]:
    """Store it; gives what is stored, and whether an earlier request had stored it.

    Raises AnnotationRefused for a text that says nothing or has control characters, AnnotationKeyReused.
    """
    text = _words("text", wanted.text)
    new = Annotation(
        uuid.uuid4().hex[:16], wanted.source, wanted.label, wanted.at, text, clock(), wanted.by, key=wanted.key
    )
    stored = store.add_annotation(new)
    if (stored.source, stored.label, stored.at, stored.text) != (new.source, new.label, new.at, new.text):
        raise AnnotationKeyReused(f"the key is that of another annotation, {stored.id}")
    return stored, stored.id != new.id


def remove(store: Store, id: str, *, by: str, reason: str, clock: Callable[[], datetime]) -> tuple[Annotation, bool]:
    """Take one away from every axis; gives it, and whether it was removed before. It stays stored, for the record.

    Raises AnnotationRefused without a reason, NotFound or Ambiguous for an id that is none.
    """
    why = _words("reason", reason)
    found = store.annotation(id)
    done = store.remove_annotation(found.id, by=by, reason=why, now=clock())
    return store.annotation(found.id), not done


def _words(what: str, text: str) -> str:
    found = text.strip()
    if not found:
        raise AnnotationRefused(f"the {what} may not be empty")
    if len(found) > LONGEST:
        raise AnnotationRefused(f"the {what} has {len(found):,} characters; at most {LONGEST:,} are kept")
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in found):
        raise AnnotationRefused(f"the {what} has control characters; write words")
    return found
