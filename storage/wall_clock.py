"""This host's wall clock. What is stored goes by `storage.catalog.engine.clock` instead."""

import time


def wall_clock_us() -> int:
    """Return the time in microseconds since the Unix epoch; it may be set back."""
    return time.time_ns() // 1000
