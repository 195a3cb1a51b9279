"""alerts.yaml and the environment, as typed objects."""
