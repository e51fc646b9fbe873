"""The ways to the catalog that the bench compares: the same answers, on the threads they name."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from bench.api.rows import fill
from bench.catalog.ways import WAYS, Way, open_ways
from storage.catalog.records.videos import VideoQuery

VIDEOS = 40


@pytest.fixture
async def ways(tmp_path: Path) -> AsyncGenerator[dict[str, Way]]:
    await fill(tmp_path / "catalog.db", VIDEOS)
    async with open_ways(tmp_path / "catalog.db") as opened:
        yield opened


async def test_every_way_answers_the_same(ways: dict[str, Way]) -> None:
    answers: list[object] = []
    for way in ways.values():
        first = await way.read(way.catalog.installation.find())
        assert first is not None
        assert first.stream is not None
        ingest_stream = await way.read(way.catalog.live_state.find_ingest(first.stream.key))
        assert ingest_stream is not None
        page = await way.read(way.catalog.videos.find_page(first.project, VideoQuery(), 2))
        assert page.total == VIDEOS
        answers.append((first, ingest_stream, page))
    assert answers == [answers[0]] * len(WAYS)


async def test_what_one_way_writes_the_others_read(ways: dict[str, Way]) -> None:
    for turn, writer in enumerate(ways.values()):
        await writer.write(
            writer.catalog.live_state.set(
                1, live=turn % 2 == 0, processing=False, on_air=None, sending=[],
                no_audio=False, now_us=turn,
            )
        )  # fmt: skip
        for reader in ways.values():
            stream = await reader.read(reader.catalog.streams.find(1))
            assert stream is not None
            assert (stream.live, stream.version) == (turn % 2 == 0, turn + 2)


async def here() -> int:
    return threading.get_ident()


async def test_threads_run_whole_transactions_away_from_the_loop(ways: dict[str, Way]) -> None:
    mine = threading.get_ident()
    one, several = ways["one thread"], ways["threads"]
    assert await one.read(here()) == await one.write(here()) != mine
    assert len({await several.read(here()), await several.write(here()), mine}) == 3
    assert await ways["headend"].read(here()) == mine


async def test_a_transaction_that_waits_for_something_else_is_refused(
    ways: dict[str, Way],
) -> None:
    with pytest.raises(RuntimeError, match="something else"):
        await ways["one thread"].read(asyncio.sleep(0))
