"""Annotations: adding a note at a time of a source or label, and removing it, each with a person's name."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from monitor.core.records import Annotation, WrongRequest
from monitor.history.store import Store

LONGEST = 1000
"""The most characters of a text or a reason."""


class AnnotationRefused(WrongRequest):
    """Nothing is stored; the message says what is wrong."""


class AnnotationKeyReused(ValueError):
    """The key belongs to another annotation."""


@dataclass(frozen=True, slots=True)
class NewAnnotation:
    """A person's note at a time (time zone aware) of a source or, with ``label``, of one label.

    Requests with the same ``key`` are stored once.
    """

    source: str
    label: str | None
    at: datetime
    text: str
    by: str
    key: str | None = None


def annotate(store: Store, note: NewAnnotation, clock: Callable[[], datetime]) -> tuple[Annotation, bool]:
    """Store a note; returns the stored one, and whether an earlier request had stored it.

    Raises AnnotationRefused for a text that is empty, too long or has control characters, AnnotationKeyReused.
    """
    text = _words("text", note.text)
    new = Annotation(uuid.uuid4().hex[:16], note.source, note.label, note.at, text, clock(), note.by, key=note.key)
    stored = store.add_annotation(new)
    if (stored.source, stored.label, stored.at, stored.text) != (new.source, new.label, new.at, new.text):
        raise AnnotationKeyReused(f"the key is that of another annotation, {stored.id}")
    return stored, stored.id != new.id


def remove(store: Store, id: str, *, by: str, reason: str, clock: Callable[[], datetime]) -> tuple[Annotation, bool]:
    """Remove an annotation from every axis; returns it, and whether it was removed before. Its row stays stored.

    Raises AnnotationRefused without a reason, NotFound or Ambiguous for an unknown or ambiguous id.
    """
    why = _words("reason", reason)
    found = store.annotation(id)
    removed = store.remove_annotation(found.id, by=by, reason=why, now=clock())
    return store.annotation(found.id), not removed


def _words(what: str, text: str) -> str:
    stripped = text.strip()
    if not stripped:
        raise AnnotationRefused(f"the {what} may not be empty")
    if len(stripped) > LONGEST:
        raise AnnotationRefused(f"the {what} has {len(stripped):,} characters; at most {LONGEST:,} are kept")
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in stripped):
        raise AnnotationRefused(f"the {what} has control characters; write words")
    return stripped
