"""Processes on one database, as an ingest and two APIs are: nothing that either writes is lost."""

import asyncio
import sys
from pathlib import Path

import pytest

from storage.catalog import open_catalog

pytestmark = pytest.mark.anyio

ROUNDS = 60

# Adds streams, and reads each back, as callers of the API do.
CALLER = """
import asyncio, sys
from storage.catalog import open_catalog

async def main(place, rounds):
    async with open_catalog(place, migrate=False) as catalog:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(rounds):
            added = await catalog.add_stream(1, f"Stream {number}", number)
            assert await catalog.stream(added.id) == added

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""

# Writes another state each time, as ingest does, and looks keys up in between.
TAKER = """
import asyncio, sys
from storage.catalog import open_catalog

async def main(place, rounds):
    async with open_catalog(place, migrate=False) as catalog:
        first = (await catalog.all_streams())[0]
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(rounds):
            on = number % 2 == 0
            await catalog.set_live_state(first.id, live=on, processing=on, on_air=None,
                                         sending=frozenset({0} if on else ()), no_audio=False,
                                         now_us=number)
            assert (await catalog.find_ingest(first.key)) is not None

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def test_writers_of_several_processes_lose_nothing(place: Path) -> None:
    async with open_catalog(place, migrate=True) as catalog:
        first = (await catalog.first_start(1)).stream
        assert first is not None
        before = first.version
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        children = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, str(place), str(ROUNDS),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )
            for program in (CALLER, TAKER, CALLER)
        ]  # fmt: skip
        for child in children:
            assert child.stdout is not None
            assert await child.stdout.readline() == b"ready\n"
        ends = [tasks.create_task(child.communicate(b"go\n")) for child in children]
    assert all(end.done() for end in ends)
    assert [child.returncode for child in children] == [0, 0, 0]
    async with open_catalog(place, migrate=False) as catalog:
        streams = await catalog.all_streams()
        titles = sorted(stream.title for stream in streams[1:])
        assert titles == sorted(2 * [f"Stream {number}" for number in range(ROUNDS)])
        # Each write said something new, and the version counted each.
        assert (streams[0].version, streams[0].published_us) == (before + ROUNDS, 0)
