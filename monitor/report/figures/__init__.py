"""One data function a figure, and its drawings."""
