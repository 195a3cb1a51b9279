"""What the commands, the flows and the service do, one verb a module."""
