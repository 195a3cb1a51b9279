"""Recalibration: maps from a classifier's scores to calibrated scores.

``score_map`` is the map itself, for routers (it imports only the standard library). ``fitting`` makes it from counts,
and uses it on many scores, ``gain`` measures its gain by cross-validation and chooses the method.
"""
