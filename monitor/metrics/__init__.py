"""Metrics as functions of counts: one function, one registry row and one section of docs/metrics.md each."""
