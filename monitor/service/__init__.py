"""The HTTP service, /metrics and the health of the monitor."""
