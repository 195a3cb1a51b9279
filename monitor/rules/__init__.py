"""alerts.yaml: its typed form, its parser and the problems it can have."""
