"""Incidents: one for each label, source, or trouble of the monitor, from the first window to resolved."""
