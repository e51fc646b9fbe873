"""The bench of the live edge in Redis, at a small count."""

from pathlib import Path

from bench.edge_redis.__main__ import measure
from tests.support.redis_server import redis_server


async def test_every_part_reaches_all_readers_and_is_read_once(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        result = await measure(
            server.url, streams=2, renditions=2, readers=10, seconds=1, size=10_000
        )
    parts = 2 * 2 * 2
    assert (result.parts, result.answers, result.reads) == (parts, 10 * parts, parts)
    assert len(result.delays) == parts
    assert all(each >= 0 for each in result.delays)
    assert min(result.maker_cpu, result.reader_cpu, result.redis_cpu) >= 0
