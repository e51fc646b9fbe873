"""This host's wall clock. Leases use the database's clock (`storage.catalog.engine.clock`)."""

import time

__all__ = ["wall_clock_us"]


def wall_clock_us() -> int:
    """Return the time in microseconds since the Unix epoch; it may be set back."""
    return time.time_ns() // 1000
