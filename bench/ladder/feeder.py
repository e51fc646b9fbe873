"""The parent of an engine, in a process of its own: a clip in, segments on disk out.

    python -m bench.ladder.feeder CLIP FOLDER MODULE

It reads the FLV with ingest's own parser and feeds the engine through
`transcode.protocol.engine_process`, as the service does, but as fast as the engine reads. Each
rendition is written as CMAF segments into a folder of its own. One line of JSON on standard output
contains the CPU time and memory of the engine alone.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Final

from ingest.rtmp.events import Event, TrackFound
from ingest.rtmp.flv import FlvReader, split_aggregate
from media.hls.segment import InitSection, Part, Segment
from media.ladder import ladder_for
from media.packet import MediaPacket
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from media.track import AudioTrack, VideoTrack
from transcode.protocol.engine_process import EngineProcess, spawn_engine
from transcode.protocol.messages import Begin, EngineOrder, Finish, Packet, Trouble

_FLV_HEADER: Final = 9 + 4  # the header and the length of the tag before the first
_AUDIO, _VIDEO = 8, 9  # tag types
_ACTIVE: Final = frozenset({"1080p", "720p", "480p", "360p"})


def orders(clip: Path) -> list[EngineOrder]:
    """Return a clip as the requests of one epoch.

    Raises:
        ValueError: the clip has no video or no audio.
    """
    reader = FlvReader()
    events: list[Event] = []
    for kind, stamp, body in split_aggregate(0, memoryview(clip.read_bytes())[_FLV_HEADER:]):
        if kind == _VIDEO:
            reader.read_video(stamp, body, events)
        elif kind == _AUDIO:
            reader.read_audio(stamp, body, events)
    tracks = [event.track for event in events if isinstance(event, TrackFound)]
    video = next((track for track in tracks if isinstance(track, VideoTrack)), None)
    audio = next((track for track in tracks if isinstance(track, AudioTrack)), None)
    if video is None or audio is None:
        raise ValueError(f"{clip} lacks picture or sound")
    begin = Begin(
        epoch=0,
        video=video,
        audio=audio,
        ladder=ladder_for(video.width, video.height, _ACTIVE),
        start=ORIGIN_SECONDS * VIDEO_SCALE,
        sequence=0,
        inits={},
        discontinuity=False,
    )
    packets = [_order(event) for event in events if isinstance(event, MediaPacket)]
    return [begin, *packets, Finish()]


def _order(packet: MediaPacket) -> Packet:
    return Packet(
        video=isinstance(packet.track, VideoTrack),
        dts=packet.dts,
        pts=packet.pts,
        key=packet.key,
        data=packet.data,
    )


async def _feed(child: EngineProcess, requests: list[EngineOrder]) -> None:
    for order in requests:
        await child.send(order)
    child.close_input()


async def _make(clip: Path, folder: Path, module: str) -> None:
    async with spawn_engine("live", "bench", module=module) as child, asyncio.TaskGroup() as tasks:
        tasks.create_task(_feed(child, orders(clip)))
        parts: dict[str, list[bytes]] = {}
        async for report in child.reports():
            match report:
                case InitSection():
                    (folder / report.rendition).mkdir(parents=True)
                    (folder / report.rendition / "init.mp4").write_bytes(report.data)
                case Part():
                    parts.setdefault(report.rendition, []).append(report.data)
                case Segment():
                    path = folder / report.rendition / f"{report.sequence}.m4s"
                    path.write_bytes(b"".join(parts.pop(report.rendition)))
                case Trouble():
                    raise RuntimeError(f"{report.what}: {report.detail}")
                case _:
                    pass


def main() -> None:
    """Feed the clip, then print what the engine used."""
    clip, folder, module = sys.argv[1:]
    asyncio.run(_make(Path(clip), Path(folder), module))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "peak_kib": usage.ru_maxrss}))


if __name__ == "__main__":
    main()
