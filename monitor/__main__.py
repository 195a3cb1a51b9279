"""``python -m monitor`` is ``calmon``."""

from monitor.cli import main

if __name__ == "__main__":
    main()
