"""The troubles of the monitor itself: how findings become incidents, and what is said of them."""
