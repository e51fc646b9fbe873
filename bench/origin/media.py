"""The media to serve: live runs and a long playlist, published as the service does it.

A run has one video rendition and audio; a video segment has 2 MB, which is 8 Mbit/s. The long
playlist belongs to a second stream; its segments do not exist, because they are not requested.
"""

import os
from typing import Final

from delivery.edge.memory import MemoryEdge
from delivery.run.publication import Publication
from delivery.run.run_state import LiveWindow
from media.hls.m3u8 import render
from media.hls.playlist import MediaPlaylist, PlaylistSegment
from media.hls.segment import InitSection, Part, Segment, SegmentStart
from media.ladder import AUDIO_RENDITION, Rendition
from media.run_policy import RunPolicy, resolve
from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS
from storage.objects.addresses import live_playlist, live_segment
from storage.objects.disk import DiskObjects

SEGMENT_BYTES: Final = 2_000_000
_NOON_US: Final = 1_769_860_800_000_000  # 2026-01-31T12:00:00Z
_TICKS: Final = 180_000  # 2 s
_SECONDS: Final = 2
_LISTED: Final = 15  # 30 s
PARTS: Final = 4  # of a segment with low latency
_LONG: Final = 360  # 12 minutes, a playlist of 26 kB

_TOP: Final = Rendition(name="1080p", width=1920, height=1080, rate=8_000_000, source_size=True)
_SIZES: Final = {_TOP.name: SEGMENT_BYTES, AUDIO_RENDITION: 40_000}
_CODECS: Final = {_TOP.name: "avc1.640028", AUDIO_RENDITION: "mp4a.40.2"}


async def publish(objects: DiskObjects, edge: MemoryEdge, hash_: PublicHash) -> tuple[str, str]:
    """Publish a run of 30 s; return the addresses of its playlist and its newest segment."""
    # Normal latency, as in the playlists on disk, which the other servers read.
    run = await _opened(objects, edge, hash_, low_latency=False)
    for sequence in range(_LISTED + 1):
        for name, size in _SIZES.items():
            await run.append(_start(name, sequence))
            await run.append(_part(name, sequence, 0, _TICKS, os.urandom(size)))
            await run.append(_segment(name, sequence, 1, size))
    await run.store_pending()
    return (
        live_playlist(hash_, run.run, _TOP.name),
        live_segment(hash_, run.run, _TOP.name, _LISTED),
    )


class SteppedRun:
    """A low-latency run that advances by half a second on demand.

    `address` is the playlist of its video, `msn` and `part` the part that comes next.
    """

    def __init__(self, run: Publication) -> None:
        self.address = live_playlist(run.hash, run.run, _TOP.name)
        self.msn, self.part = 0, 0
        self._run = run

    @classmethod
    async def publish(
        cls, objects: DiskObjects, edge: MemoryEdge, hash_: PublicHash
    ) -> "SteppedRun":
        """Publish 30 s, and store them."""
        run = cls(await _opened(objects, edge, hash_, low_latency=True))
        for _ in range((_LISTED + 1) * PARTS):
            await run.publish_part()
        await run._run.store_pending()
        return run

    async def publish_part(self) -> None:
        """Publish the next part of the video, then that of the audio."""
        for name, size in _SIZES.items():
            if self.part == 0:
                await self._run.append(_start(name, self.msn))
            piece = bytes(size // PARTS)
            await self._run.append(_part(name, self.msn, self.part, _TICKS // PARTS, piece))
            if self.part == PARTS - 1:
                await self._run.append(_segment(name, self.msn, PARTS, len(piece) * PARTS))
        self.part += 1
        if self.part == PARTS:
            self.msn, self.part = self.msn + 1, 0


async def _opened(
    objects: DiskObjects, edge: MemoryEdge, hash_: PublicHash, *, low_latency: bool
) -> Publication:
    window = LiveWindow(listed_seconds=float(_LISTED * _SECONDS), kept_seconds=60.0)
    policy = resolve(RunPolicy(latency="low" if low_latency else "normal"))
    run = await Publication.open(
        objects, edge, hash=hash_, now_us=_NOON_US, window=window, policy=policy
    )
    await run.prepare(0, (_TOP,), _NOON_US)
    for name in _SIZES:
        await run.append(
            InitSection(rendition=name, number=0, codecs=_CODECS[name], data=bytes(700))
        )
    return run


def _start(name: str, sequence: int) -> SegmentStart:
    return SegmentStart(
        rendition=name,
        sequence=sequence,
        epoch=0,
        start=sequence * _TICKS,
        init=0,
        discontinuity=False,
    )


def _part(name: str, sequence: int, index: int, duration: int, data: bytes) -> Part:
    return Part(
        rendition=name,
        sequence=sequence,
        index=index,
        duration=duration,
        independent=index == 0,
        data=data,
    )


def _segment(name: str, sequence: int, parts: int, size: int) -> Segment:
    return Segment(
        rendition=name,
        sequence=sequence,
        epoch=0,
        start=sequence * _TICKS,
        duration=_TICKS,
        size=size,
        frames=60,
        parts=parts,
        init=0,
        discontinuity=False,
    )


async def publish_long(objects: DiskObjects, edge: MemoryEdge, hash_: PublicHash) -> str:
    """Publish a playlist of 12 minutes; return its address."""
    playlist = MediaPlaylist(
        sequence=100_000,
        segments=tuple(
            PlaylistSegment(
                uri=f"{100_000 + number}.m4s",
                duration=_TICKS,
                map_uri="init-0.mp4",
                wall_us=_NOON_US + number * _SECONDS * MICROSECONDS,
            )
            for number in range(_LONG)
        ),
    )
    address = live_playlist(hash_, "20260131T120000000", _TOP.name)
    text = render(playlist)
    await objects.put(address, text.encode())
    await edge.put_playlists({address: text})
    return address
