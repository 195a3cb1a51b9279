"""What people are told: typed facts, and the words for them. Every face shows the same."""
