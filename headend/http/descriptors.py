"""File descriptors, divided among HTTP and everything else.

A process has a limit of descriptors for all that it opens. Any client can open HTTP connections, so
they are the first to use it up; then encoders would be refused, and files could not be opened. So
HTTP gets what is left after a reserve.
"""

import logging
import resource
from typing import Final

log = logging.getLogger(__name__)

# Connections that were accepted in one turn of the event loop and are about to be refused (256, as
# many as wait in the kernel), the database, engines with their pipes, uploads, imports, logs.
_RESERVE: Final = 512
# An answer has a socket, and the file that it sends.
_PER_CONNECTION: Final = 2
_UNLIMITED: Final = 1 << 20  # used where there is no limit; a usual value in containers
# With so few descriptors that nothing is left, HTTP still gets an eighth of them.
_LEAST_SHARE: Final = 8


def raise_limit() -> int:
    """Raise the soft limit of descriptors to the hard one, as servers do, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = _UNLIMITED
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connection_bound(wanted: int, descriptors: int, encoders: int) -> int:
    """Return how many HTTP connections may be open with this limit of descriptors.

    They are `wanted`, or what a reserve for `encoders` connections and the rest of the process
    leaves. One line is logged if that is fewer.
    """
    available = (descriptors - encoders - _RESERVE) // _PER_CONNECTION
    least = max(1, descriptors // _LEAST_SHARE // _PER_CONNECTION)
    bound = min(wanted, max(available, least))
    if bound < wanted:
        fields = {"connections": bound, "wanted": wanted, "descriptors": descriptors}
        log.warning("few descriptors for HTTP", extra=fields)
    return bound
