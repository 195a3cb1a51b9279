"""Pages for people: the self-contained HTML report."""
