"""Replay: which incidents a rules file would have opened, beside the present one, over what is in the history."""
