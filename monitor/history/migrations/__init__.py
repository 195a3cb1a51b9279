"""Alembic migrations of the history database."""
