"""Publishes a live run to an edge, part by part."""

from delivery.edge.base import EdgeWriter
from delivery.edge.changes import EdgeMessage, EdgeState
from delivery.edge.redis import RedisEdgeStore
from media.hls.timeline import Timeline
from tests.support.media.timelines import part
from tests.support.storage.engine_reports import HASH, RUN

FOLDER = f"live/{HASH}/{RUN}"
NEXT_RUN = FOLDER[:-1] + "4"
PLAYLIST = f"{FOLDER}/720p/index.m3u8"
VARIANTS = f"live/{HASH}/index.m3u8"


async def put(edge: EdgeWriter, timeline: Timeline, *, generation: int = 0) -> None:
    """Publish the timeline of the only rendition."""
    await edge.put_timelines(FOLDER, {"720p": timeline}, low_latency=True, generation=generation)


def part_data(msn: int, index: int, size: int = 10) -> bytes:
    """Return the bytes of a part, which differ for every part."""
    return f"{msn}.{index}".encode().ljust(size)


async def put_next_part(
    edge: EdgeWriter, timeline: Timeline, *, size: int = 10, generation: int = 0
) -> Timeline:
    """Publish the next part like a publication: its bytes, then the timeline that lists it."""
    msn, index = timeline.next_msn, len(timeline.parts)
    if timeline.opened is None:
        timeline = timeline.open("init-0.mp4")
    await edge.put_part(f"{FOLDER}/720p/{msn}.{index}.m4s", part_data(msn, index, size))
    timeline = timeline.with_part(part(msn, index), hint=f"{msn}.{index + 1}.m4s")
    await put(edge, timeline, generation=generation)
    return timeline


async def published(store: RedisEdgeStore) -> EdgeState:
    """Return the state of the stream as another process reads it."""
    state = EdgeState()
    for data in await store.read_state(HASH) or ():
        state = EdgeMessage.decode(data).change.applied(state)
    return state
