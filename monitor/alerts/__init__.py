"""Messages, their delivery to Slack, and the outbox between them."""
