"""The health of the monitor itself; its troubles are incidents too."""
