"""The switch: what may act alone, decided by pure functions over stored state."""
