"""The standard streams of a process, made usable: a stop must work whatever they are."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path


def open_closed_streams() -> None:
    """Give the null device to a standard stream that was closed.

    Otherwise the next file to be opened, such as the warehouse, gets the stream's number and what libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # in the order of their numbers: each gets the lowest that is free
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process


def write_any_letter() -> None:
    r"""Write a letter that the encoding of a stream does not have with a backslash, like \xe9."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
