"""Recalibration: maps from the scores a classifier gives to scores that mean what they say.

``score_map`` is the map itself, for routers (it imports nothing outside the standard library); ``fitting`` makes it
from counts, ``applying`` uses it on many scores, ``gain`` says by cross-validation what it is worth, ``choice``
which one to take.
"""
