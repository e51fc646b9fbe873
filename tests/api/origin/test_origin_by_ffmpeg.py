"""A published run as FFmpeg reads it over HTTP: real media, real disk, a real server.

FFmpeg makes the segments, too, so only publication and origin are tested.
"""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from litestar import Litestar

from api.origin.origin import Origin, OriginFirst
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist
from media.hls.segment import InitSection, Part, Segment, SegmentStart
from media.ladder import Rendition
from storage.catalog.records.common import PublicRecord
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import HASH, LOW, NOON_US, RUN, TOP, open_run

FFMPEG = shutil.which("ffmpeg") or "ffmpeg"
FFPROBE = shutil.which("ffprobe") or "ffprobe"
SECONDS = 9  # 4 segments of 2 s and one of 1 s
CODECS = {"720p": "avc1.64001F", "360p": "avc1.64001E", "audio": "mp4a.40.2"}


class OneStream:
    async def find(self, hash_: str, /) -> PublicRecord | None:
        return PublicRecord(
            hash=hash_, project=1, title="", description="", published=True, hidden=False, live=True
        )


async def never_owner(authorization: str | None, hash_: str, /) -> bool:
    return False


def make_media(folder: Path) -> None:
    """Let FFmpeg make two video renditions and one of audio, each with an init section."""
    folder.mkdir()
    source = f"testsrc2=s=1280x720:r=30000/1001:d={SECONDS}"
    hls = [
        "-f", "hls", "-hls_time", "2", "-hls_segment_type", "fmp4", "-hls_list_size", "0",
        "-hls_flags", "independent_segments",
    ]  # fmt: skip
    picture = [
        "-c:v", "libx264", "-preset", "ultrafast", "-profile:v", "high", "-pix_fmt", "yuv420p",
        "-force_key_frames", "expr:gte(t,n_forced*2)", "-sc_threshold", "0",
    ]  # fmt: skip
    command = [FFMPEG, "-v", "error", "-f", "lavfi", "-i", source]
    command += ["-f", "lavfi", "-i", f"sine=d={SECONDS}:r=48000"]
    for name, size in (("720p", "1280x720"), ("360p", "640x360")):
        command += ["-map", "0:v", "-s", size, *picture, *hls]
        command += ["-hls_fmp4_init_filename", f"{name}.mp4", f"{folder}/{name}.m3u8"]
    command += ["-map", "1:a", "-c:a", "aac", "-ac", "2", *hls]
    command += ["-hls_fmp4_init_filename", "audio.mp4", f"{folder}/audio.m3u8"]
    subprocess.run(command, check=True)


def count_frames(data: bytes) -> int:
    """Count a segment's samples: the sum over its track runs (ISO/IEC 14496-12, 8.8.8)."""
    total, offset = 0, data.find(b"trun")
    while offset >= 0:
        total += int.from_bytes(data[offset + 8 : offset + 12])
        offset = data.find(b"trun", offset + 4)
    return total


def engine_reports(folder: Path, name: str) -> list[InitSection | SegmentStart | Part | Segment]:
    """Return the reports of an engine for FFmpeg's files."""
    playlist = parse((folder / f"{name}.m3u8").read_text())
    assert isinstance(playlist, MediaPlaylist)
    init = (folder / f"{name}.mp4").read_bytes()
    items: list[InitSection | SegmentStart | Part | Segment] = [
        InitSection(rendition=name, number=0, codecs=CODECS[name], data=init)
    ]
    start = 0
    for sequence, listed in enumerate(playlist.segments):
        data = (folder / listed.uri).read_bytes()
        items.append(
            SegmentStart(
                rendition=name, sequence=sequence, epoch=0, start=start, init=0,
                discontinuity=False,
            )
        )  # fmt: skip
        items.append(
            Part(
                rendition=name, sequence=sequence, index=0, duration=listed.duration,
                independent=True, data=data,
            )
        )  # fmt: skip
        items.append(
            Segment(
                rendition=name, sequence=sequence, epoch=0, start=start, duration=listed.duration,
                size=len(data), frames=count_frames(data), parts=1, init=0, discontinuity=False,
            )
        )  # fmt: skip
        start += listed.duration
    return items


async def publish(
    folder: Path, objects: DiskObjects, edge: MemoryEdge, rungs: tuple[Rendition, ...]
) -> None:
    publication = await open_run(objects, edge, ManualClock())
    await publication.prepare(0, rungs, NOON_US)
    for name in (*(rung.name for rung in rungs), "audio"):
        for report in engine_reports(folder, name):
            await publication.append(report)
    await publication.store_pending()
    await publication.finish()


@asynccontextmanager
async def serving(objects: DiskObjects, edge: MemoryEdge) -> AsyncGenerator[str, None]:
    origin = Origin(
        objects=objects, edge=edge, visibility=VisibilityCache(OneStream(), never_owner)
    )
    app = OriginFirst(origin, Litestar([], logging_config=None))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[listening]))
            try:
                yield f"http://127.0.0.1:{port}/live/{HASH}/index.m3u8"
            finally:
                server.should_exit = True


async def run_program(*command: str) -> tuple[str, str]:
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(30):
        output, errors = await child.communicate()
    assert child.returncode == 0, errors.decode()
    return output.decode(), errors.decode()


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "media"
    make_media(folder)
    return folder


@pytest.mark.parametrize("from_edge", [True, False], ids=["from the edge", "from disk"])
async def test_ffmpeg_reads_every_rendition_without_a_word(
    media: Path, tmp_path: Path, from_edge: bool
) -> None:
    objects, edge = DiskObjects(tmp_path), MemoryEdge()
    await publish(media, objects, edge, (TOP, LOW))
    if not from_edge:
        await edge.drop_folder("live")
    async with serving(objects, edge) as url:
        output, errors = await run_program(
            FFPROBE, "-v", "warning", "-count_packets", "-of", "csv=p=0",
            "-show_entries", "stream=codec_type,width,height,nb_read_packets", url,
        )  # fmt: skip
        assert errors == ""
        expected = {"video,1280,720,270", "video,640,360,270"}
        streams = {line.rstrip(",") for line in output.split()}
        assert expected <= streams
        assert any(line.startswith("audio,") for line in streams)
        _, errors = await run_program(
            FFMPEG, "-v", "warning", "-i", url, "-map", "0", "-f", "null", "-"
        )
        assert errors == ""


async def test_the_variants_are_true_to_the_media(media: Path, tmp_path: Path) -> None:
    objects, edge = DiskObjects(tmp_path), MemoryEdge()
    await publish(media, objects, edge, (TOP, LOW))
    text = (await objects.get(f"live/{HASH}/index.m3u8")).decode()
    assert text.count("FRAME-RATE=29.970") == 2
    lines = text.splitlines()
    sizes = {name: sum(map(len, segment_data(media, name))) for name in CODECS}
    for rung in (TOP, LOW):
        attributes = lines[lines.index(f"{RUN}/{rung.name}/index.m3u8") - 1].split(":")[1]
        pairs = [pair.partition("=") for pair in attributes.split(",")]
        announced = {name: value for name, _, value in pairs}
        average = 8 * (sizes[rung.name] + sizes["audio"]) / SECONDS
        assert abs(int(announced["AVERAGE-BANDWIDTH"]) - average) < 0.06 * average
        assert (
            int(announced["BANDWIDTH"])
            >= peak_bit_rate(media, rung.name) + peak_bit_rate(media, "audio") - 1
        )
        assert int(announced["BANDWIDTH"]) <= 1.02 * (
            peak_bit_rate(media, rung.name) + peak_bit_rate(media, "audio")
        )
        assert announced["RESOLUTION"] == f"{rung.width}x{rung.height}"


def segment_data(media: Path, name: str) -> list[bytes]:
    return [report.data for report in engine_reports(media, name) if isinstance(report, Part)]


def peak_bit_rate(media: Path, name: str) -> float:
    """Return the highest bit rate of contiguous segments of 2 to 6 s."""
    cuts = [
        (report.size, report.duration)
        for report in engine_reports(media, name)
        if isinstance(report, Segment)
    ]
    rates: list[float] = []
    for start in range(len(cuts)):
        for stop in range(start + 1, len(cuts) + 1):
            size = sum(size for size, _ in cuts[start:stop])
            ticks = sum(ticks for _, ticks in cuts[start:stop])
            if 180_000 <= ticks <= 540_000:
                rates.append(8 * size * 90_000 / ticks)
    return max(rates)
