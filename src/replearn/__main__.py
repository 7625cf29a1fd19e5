"""The process of one command: ``replearn``, or ``python -m replearn``."""

import os
import signal
import sys
from typing import Any


class _Interrupt:
    """Python's handler of SIGINT, which remembers: an import that it stops raises other errors."""

    came = False

    def __call__(self, *_: Any) -> None:
        self.came = True
        raise KeyboardInterrupt


def run() -> None:
    """Run a command; an interrupt says so at any time, and none comes after the result."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nobody ignores it
        signal.signal(signal.SIGINT, _Interrupt())
    try:
        from replearn.cli import main

        code = main()
    except KeyboardInterrupt:
        print("replearn: interrupted", file=sys.stderr)
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == 130:
        os._exit(code)  # sys.exit ends with the signal if that stopped an exec
    sys.exit(code)


if __name__ == "__main__":
    run()
