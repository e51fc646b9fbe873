"""The cost of decoding alone: chunks to messages to packets, without sockets and wake-ups.

The same media are cut into chunks of the sizes that encoders send (128 librtmp, 4096 OBS, 65536
ffmpeg, as we announce) and read 64 KiB at a time, by our core and by pyrtmp's in its own process.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.ingest.clip import make_clip, media_tags
from bench.ingest.path import path_ms
from bench.ingest.servers import PYRTMP, SERVERS
from ingest.rtmp.chunks import ChunkReader, ChunkWriter, Message
from ingest.rtmp.events import Event
from ingest.rtmp.flv import FlvReader
from ingest.rtmp.limits import Limits
from media.packet import MediaPacket

CHUNK_BYTES: Final = (128, 4096, 65_536)
READ_BYTES: Final = 64 << 10
CLIP_SECONDS: Final = 6
ROUNDS: Final = 5
PEER_SECONDS: Final = 120.0  # a deadline
_VIDEO, _STREAM = 9, 1


def core_table() -> str:
    """Measure both cores and return the table in Markdown: ms of CPU per MB, medians of five."""
    SERVERS["pyrtmp"].prepare(False)
    lines = ["| chunks of | ours, ms/MB | pyrtmp, ms/MB | ours / it |", "|---|---|---|---|"]
    with TemporaryDirectory(prefix="headend-bench-") as name:
        clip = make_clip(Path(name), CLIP_SECONDS)
        for size in CHUNK_BYTES:
            wire = Path(name) / "wire"
            wire.write_bytes(b"".join(_chunks(clip.path, size)))
            packets, _ = list(clip.packets())[-1]
            ours, pyrtmp = _ours(wire.read_bytes(), size, packets), _pyrtmp(wire, size)
            lines.append(f"| {size} bytes | {ours:.2f} | {pyrtmp:.1f} | 1/{pyrtmp / ours:.0f} |")
        path = path_ms(media_tags(clip.path.read_bytes()))
    lines.append(f"\nFrom bytes to the run, without sockets: {path:.2f} ms of CPU a stream-second.")
    return "\n".join(lines)


def _chunks(clip: Path, size: int) -> Iterator[bytes]:
    writer = ChunkWriter()
    writer.chunk_bytes = size
    for kind, stamp, body in media_tags(clip.read_bytes()):
        number = 6 if kind == _VIDEO else 4
        yield writer.write(number, kind, body, stream=_STREAM, timestamp=stamp)


def _ours(wire: bytes, size: int, packets: int) -> float:
    return statistics.median(_once(wire, size, packets) for _ in range(ROUNDS))


def _once(wire: bytes, size: int, packets: int) -> float:
    """Return the ms of CPU per MB of one reading; it must find every packet."""
    reader, flv, events = ChunkReader(Limits()), FlvReader(), list[Event]()
    announcements = list[Message]()
    announced = ChunkWriter().write(2, 1, size.to_bytes(4, "big"))
    reader.feed(announced, announcements)
    counted = 0
    reads = [wire[at : at + READ_BYTES] for at in range(0, len(wire), READ_BYTES)]
    began = time.process_time()
    for data in reads:
        messages: list[Message] = []
        reader.feed(data, messages)
        for message in messages:
            read = flv.read_video if message.kind == _VIDEO else flv.read_audio
            read(message.timestamp, message.body, events)
        counted += sum(isinstance(event, MediaPacket) for event in events)
        events.clear()  # as the connection does after passing them on
    seconds = time.process_time() - began
    if counted != packets:
        raise RuntimeError(f"{counted} of {packets} packets")
    return seconds * 1e9 / len(wire)


def _pyrtmp(wire: Path, size: int) -> float:
    command = [PYRTMP / ".venv" / "bin" / "python", PYRTMP / "core.py", wire, str(size)]
    answer = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PEER_SECONDS
    )
    return float(json.loads(answer.stdout)["ms_per_mb"])
