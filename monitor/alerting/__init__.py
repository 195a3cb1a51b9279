"""Incidents and the messages that tell people about them."""
