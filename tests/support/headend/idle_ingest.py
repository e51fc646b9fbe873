"""An ingest role's listener without any stream key, and its live runs."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from headend.roles.adapters import EngineSinks
from ingest.rtmp.limits import Limits
from ingest.server.listener import RtmpListener, listening
from ingest.stream.ports import Grant, LiveState
from media.stream_events import StreamEvent
from media.stream_keys import StreamKey
from storage.objects.disk import DiskObjects
from transcode.live.service import LiveTranscoding


class _EmptyPorts:
    """A directory without keys, and a journal that discards its events."""

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        return None

    async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None: ...


@asynccontextmanager
async def idle_ingest(folder: Path) -> AsyncGenerator[tuple[RtmpListener, LiveTranscoding]]:
    """Create a listener without a socket, and live runs that are stored in a folder."""
    with DiskObjects(folder) as objects:
        transcoding = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=LiveWindow())
        async with listening(
            limits=Limits(),
            directory=_EmptyPorts(),
            sinks=EngineSinks(transcoding),
            journal=_EmptyPorts(),
            sockets=[],
            drain_seconds=1,
        ) as listener:
            yield listener, transcoding
