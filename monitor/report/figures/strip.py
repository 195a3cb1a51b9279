"""A label's states over the weeks as one strip, newest at the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape

HEIGHT = 10


def strip(states: Sequence[str], names: Sequence[str], words: Mapping[Any, str]) -> Markup:
    """One cell for each week; ``states`` are "" where a week has none, ``words`` say what a state means.

    Weeks in a row of one state are one box with their names. The strip is as wide as its place.
    """
    boxes, place = "", 0
    for state, run in groupby(states):
        many = len(list(run))
        if state:
            first, last = names[place], names[place + many - 1]
            span = first if many == 1 else f"{first} to {last}"
            title = escape(f"{span}: {words[state]}")
            boxes += f'<rect class="{state}" x="{place}" width="{many}" height="{HEIGHT}"><title>{title}</title></rect>'
        place += many
    told = in_words(states, names, words)
    head = '<svg class="strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
    return Markup(head).format(max(len(states), 1), HEIGHT, told) + Markup(boxes) + Markup("</svg>")  # noqa: S704 - made here


def in_words(states: Sequence[str], names: Sequence[str], words: Mapping[Any, str]) -> str:
    """The strip in a sentence, for those who cannot see it: how many weeks are in which state.

    >>> in_words(["fine", "fine", "unsafe"], ["W1", "W2", "W3"], {"fine": "fine", "unsafe": "must not act alone"})
    'W1 to W3: 2 weeks fine, 1 week must not act alone'
    >>> in_words([""], ["W1"], {})
    'W1 to W1: no week judged'
    """
    if not names:
        return "no week judged"
    counts = [(state, sum(each == state for each in states)) for state in words]
    parts = [f"{count} {'week' if count == 1 else 'weeks'} {words[state]}" for state, count in counts if count]
    return f"{names[0]} to {names[-1]}: {', '.join(parts) or 'no week judged'}"
