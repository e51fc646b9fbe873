"""A live run with a real engine, a real disk and a real edge, and its playlists."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from media.hls import m3u8
from media.hls.playlist import MediaPlaylist
from media.no_op import do_nothing
from media.packet import MediaPacket
from media.track import Track
from storage.objects.disk import DiskObjects
from tests.support.engine.engine_forks import running_forks
from tests.support.engine.sources import Source
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding, RecordEvent

STREAM = "Ab3dEf6hIj9l"
RUNG = "144p"


def tracks_of(source: Source) -> tuple[Track, ...]:
    return tuple(track for track in (source.video, source.audio) if track is not None)


def send(run: LiveRun, source: Source, start: int = 0, end: int = 1 << 40) -> None:
    """Offer the source's packets from `start` to `end`, in ms."""
    for packet in source.packets:
        track = source.video if packet.video else source.audio
        if track is not None and start <= packet.dts < end:
            run.offer(
                [
                    MediaPacket(
                        track=track,
                        dts=packet.dts,
                        pts=packet.pts,
                        key=packet.key,
                        data=packet.data,
                    )
                ]
            )


def children() -> list[int]:
    """Return the process IDs of this process's engines, whether children or forks."""
    own = os.getpid()
    pids = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    return [int(pid) for pid in pids if b"transcode.engine" in _command(pid)] + running_forks()


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


@asynccontextmanager
async def running(
    objects: DiskObjects,
    record_event: RecordEvent = do_nothing,
    settings: RunSettings | None = None,
) -> AsyncGenerator[LiveRun, None]:
    transcoding = LiveTranscoding(
        objects=objects,
        edge=MemoryEdge(),
        window=LiveWindow(listed_seconds=60, kept_seconds=70),
        record_event=record_event,
    )
    async with transcoding.run(
        stream=STREAM, active=frozenset(), settings=settings or RunSettings(), notify=lambda: None
    ) as run:
        yield run


def playlist(root: Path, rendition: str = RUNG) -> MediaPlaylist:
    """Read the newest run's playlist from disk; all listed objects must exist."""
    newest = max(path for path in (root / "live" / STREAM).iterdir() if path.is_dir())
    parsed = m3u8.parse((newest / rendition / "index.m3u8").read_text())
    assert isinstance(parsed, MediaPlaylist)
    assert all(
        (newest / rendition / segment.uri).stat().st_size
        for segment in parsed.segments
        if not segment.gap
    )
    return parsed
