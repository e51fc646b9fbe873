"""Generations that count a stream's owners one by one, so that tests can predict them.

Generations follow the database's clock unless the last one is later than that (see
`storage.catalog.hosts.owners`). Here it is.
"""

from pathlib import Path
from typing import Final

from tests.support.sql import run_sql

# The clock gives smaller ones until 2054.
BEFORE_FIRST: Final = 1 << 30
_LATER_US: Final = 1 << 60  # a starting host removes old rows of deleted streams


def count_generations(location: str | Path, *streams: int) -> None:
    """Set the generation of each stream's first owner to `BEFORE_FIRST` + 1."""
    rows = ", ".join(f"({stream}, NULL, {BEFORE_FIRST}, {_LATER_US})" for stream in streams)
    run_sql(
        location,
        f"INSERT INTO stream_owners (stream_id, host_id, generation, taken_us) VALUES {rows}",
    )
