"""Free loopback ports, for servers that cannot bind to port 0."""

import socket
from contextlib import ExitStack


def free_port() -> int:
    """Return a port that was free a moment ago."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
