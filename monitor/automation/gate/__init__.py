"""What the automation asks before it acts."""
