"""Counts to estimates, comparisons and verdicts."""
