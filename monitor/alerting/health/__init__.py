"""Is the monitor itself at work? Its troubles are incidents too."""
