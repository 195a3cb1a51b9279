"""Slack: the client, Socket Mode, messages and the outbox."""
