"""Intervals, tests of change, multiplicity and detectability: how a number becomes evidence."""
