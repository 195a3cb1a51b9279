"""Incidents and the messages about them."""
