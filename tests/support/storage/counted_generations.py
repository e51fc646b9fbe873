"""Streams whose generations count owners one by one, so that a test can say which owner it is.

Generations follow the database's clock unless the last one is later than that (see
`storage.catalog.hosts.owners`). Here it is.
"""

from pathlib import Path
from typing import Final

from tests.support.sql import run_sql

__all__ = ["BEFORE_FIRST", "count_generations"]

# Until 2054 the clock gives smaller ones.
BEFORE_FIRST: Final = 1 << 30
_LATER_US: Final = 1 << 60  # a host that starts removes old rows of streams that are not there


def count_generations(place: str | Path, *streams: int) -> None:
    """Let the first owner of each of these streams have the generation `BEFORE_FIRST` + 1."""
    rows = ", ".join(f"({stream}, NULL, {BEFORE_FIRST}, {_LATER_US})" for stream in streams)
    run_sql(
        place,
        f"INSERT INTO stream_owners (stream_id, host_id, generation, taken_us) VALUES {rows}",
    )
