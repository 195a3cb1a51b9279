"""Replay: which incidents a proposed and the present rules file would have opened on the counts in the history."""
