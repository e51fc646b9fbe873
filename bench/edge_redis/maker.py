"""The process that makes the streams of `bench.edge_redis`; prints its CPU time in seconds.

python -m bench.edge_redis.maker URL STREAMS RENDITIONS SECONDS BYTES
"""

import asyncio
import sys
import time
from typing import Final

import uvloop

from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import open_edge_store
from media.hls.playlist import PartialSegment
from media.hls.timeline import Timeline
from media.ticks import VIDEO_SCALE

NAMESPACE: Final = "bench"
PARTS: Final = 4  # of a segment
PART_SECONDS: Final = 0.5
_LISTED: Final = 15  # segments of a playlist


def folder_of(stream: int) -> str:
    """Return the folder of the run of a stream."""
    return f"live/{stream:012d}/20260131T120000123"


def rendition_of(number: int) -> str:
    """Return the name of a rendition."""
    return f"r{number}"


async def _make_stream(
    edge: PublishingEdge, stream: int, renditions: int, parts: int, size: int, begin: float
) -> None:
    """Put the parts of a stream into the edge, each at its time."""
    loop = asyncio.get_running_loop()
    folder = folder_of(stream)
    timelines = {
        rendition_of(number): Timeline(part_target=VIDEO_SCALE // 2) for number in range(renditions)
    }
    for count in range(parts):
        await asyncio.sleep(begin + count * PART_SECONDS - loop.time())
        msn, index = divmod(count, PARTS)
        for name in timelines:
            await _put_part(edge, folder, name, timelines, (msn, index), size)
            await asyncio.sleep(0)  # an engine reports one after the other


async def _put_part(
    edge: PublishingEdge,
    folder: str,
    name: str,
    timelines: dict[str, Timeline],
    place: tuple[int, int],
    size: int,
) -> None:
    msn, index = place
    timeline = timelines[name]
    if not index:
        if timeline.opened is not None:
            timeline = timeline.close(f"{msn - 1}.m4s", 2 * VIDEO_SCALE)
            timeline = timeline.trimmed(max(0, timeline.count - _LISTED))
        timeline = timeline.open("init-0.mp4", wall_us=2_000_000 * msn)
    part = PartialSegment(f"{msn}.{index}.m4s", VIDEO_SCALE // 2, independent=not index)
    timelines[name] = timeline.with_part(part, hint=f"{msn}.{index + 1}.m4s")
    data = time.monotonic_ns().to_bytes(8, "big").ljust(size, b"x")
    await edge.put_part(f"{folder}/{name}/{part.uri}", data)
    await edge.put_timelines(folder, {name: timelines[name]}, low_latency=True)


async def _run(url: str, streams: int, renditions: int, seconds: float, size: int) -> None:
    async with open_edge_store(url, namespace=NAMESPACE) as store, asyncio.TaskGroup() as tasks:
        edge = PublishingEdge(store)
        writing = tasks.create_task(edge.run())
        begin = asyncio.get_running_loop().time()
        parts = round(seconds / PART_SECONDS)
        before = time.process_time()
        async with asyncio.TaskGroup() as making:
            for stream in range(streams):
                at = begin + PART_SECONDS * stream / streams
                making.create_task(_make_stream(edge, stream, renditions, parts, size, at))
        spent = time.process_time() - before
        await asyncio.sleep(1)
        writing.cancel()
    print(spent, flush=True)


if __name__ == "__main__":
    _URL, *_NUMBERS = sys.argv[1:]
    _STREAMS, _RENDITIONS, _SECONDS, _BYTES = map(int, _NUMBERS)
    uvloop.run(_run(_URL, _STREAMS, _RENDITIONS, _SECONDS, _BYTES))
