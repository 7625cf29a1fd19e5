"""Places on this machine for servers of tests."""

import socket


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]
