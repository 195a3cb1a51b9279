"""Prefect flows: thin wrappers that put monitor.run on a schedule."""
