"""A data function for each figure, and its drawings."""
