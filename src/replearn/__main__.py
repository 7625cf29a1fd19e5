"""``python -m replearn`` is ``replearn``."""

import sys

from replearn.cli import main

if __name__ == "__main__":
    sys.exit(main())
