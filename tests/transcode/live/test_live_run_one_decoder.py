"""A whole playlist through one decoder, which is how all players read it that use FFmpeg.

They keep the first init section and ignore later ones. A reader that begins a new file at each init
section cannot see what they see.
"""

import subprocess
from itertools import groupby
from pathlib import Path

import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from media.run_policy import RunPolicy, resolve
from media.ticks import VIDEO_SCALE
from storage.objects.disk import DiskObjects
from tests.support.engine.coded_sources import HEVC, coded
from tests.support.engine.decoded_output import packets
from tests.support.engine.sources import LOW_480P, Source, moving, source_of
from tests.support.transcode.live_runs import STREAM, playlist, send, tracks_of
from tests.support.waiting import until
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding

TOP, ENCODED = "480p", "360p"
_SECONDS = 60  # far longer than any decoder takes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


@pytest.fixture(scope="module")
def rare_keyframes(folder: Path) -> Source:
    """10 s with a keyframe every 8 s: the encoder takes the top rung over after 4 s."""
    return source_of(moving(folder / "rare.flv", seconds=10, gop=240, size=LOW_480P))


@pytest.fixture(scope="module")
def other_size(folder: Path) -> Source:
    """Another size and frame rate, for which the encoders have other parameter sets."""
    return source_of(moving(folder / "other.flv", seconds=4, gop=50, size=(640, 64), rate=50))


@pytest.fixture(scope="module")
def other_encoder(folder: Path) -> Source:
    """An encoder with other parameter sets, whose packets are reused."""
    return source_of(moving(folder / "own.flv", seconds=4, gop=60, size=LOW_480P, bframes=0))


@pytest.fixture(scope="module")
def backup() -> Source:
    """HEVC without sound."""
    return coded(HEVC, size=LOW_480P)


def seconds_listed(root: Path) -> float:
    """Return how long the run is so far, the time between its renditions' ends aside."""
    if not any((root / "live" / STREAM).glob(f"*/{TOP}/index.m3u8")):
        return 0
    return sum(segment.duration for segment in playlist(root, TOP).segments) / VIDEO_SCALE


def made(root: Path, rendition: str) -> list[int]:
    """Return how many pictures the playlist lists, by init section in their order."""
    (folder,) = (root / "live" / STREAM).glob(f"*/{rendition}")
    segments = playlist(root, rendition).segments
    counts: list[int] = []
    for init, group in groupby(segments, lambda segment: segment.map_uri):
        assert init is not None
        media = [(folder / segment.uri).read_bytes() for segment in group if not segment.gap]
        counts.append(len(packets((folder / init).read_bytes() + b"".join(media))))
    return counts


def decoded(root: Path, rendition: str) -> tuple[int, str]:
    """Return how many pictures Debian's ffmpeg decodes up to its first error, and its errors."""
    (path,) = (root / "live" / STREAM).glob(f"*/{rendition}/index.m3u8")
    command = ["ffmpeg", "-nostdin", "-v", "error", "-xerror", "-progress", "pipe:1"]
    command += ["-i", str(path), "-fps_mode", "passthrough", "-enc_time_base", "-1"]
    command += ["-f", "null", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    count = [line for line in done.stdout.splitlines() if line.startswith("frame=")][-1]
    return int(count.removeprefix("frame=")), done.stderr


async def follow(run: LiveRun, *sources: Source) -> None:
    """Let sources follow each other, each in an epoch of its own."""
    for source in sources:
        run.begin(tracks_of(source))
        send(run, source)


@pytest.mark.parametrize(
    ("low_latency", "inits"),
    [
        # Encoders with low delay rely on the frame rate, so that has an init section of its own.
        pytest.param(True, {TOP: 5, ENCODED: 3}, id="low latency"),
        pytest.param(False, {TOP: 3, ENCODED: 1}, id="normal latency", marks=pytest.mark.prove),
    ],
)
async def test_one_decoder_shows_every_picture_over_all_switches(
    tmp_path: Path,
    rare_keyframes: Source,
    other_size: Source,
    backup: Source,
    other_encoder: Source,
    *,
    low_latency: bool,
    inits: dict[str, int],
) -> None:
    with DiskObjects(tmp_path) as objects:
        transcoding = LiveTranscoding(
            objects=objects,
            edge=MemoryEdge(),
            window=LiveWindow(listed_seconds=60, kept_seconds=70),
        )
        async with transcoding.run(
            stream=STREAM,
            active=frozenset({TOP, ENCODED}),
            settings=RunSettings(
                policy=resolve(RunPolicy(latency="low" if low_latency else "normal"))
            ),
            notify=lambda: None,
        ) as run:
            await follow(run, rare_keyframes)
            run.slate(2.5)
            await until(lambda: seconds_listed(tmp_path) >= 12, within=25)
            await follow(run, other_size, backup, other_encoder)
            run.finish()
            run.end()
    for rendition, count in inits.items():
        counts = made(tmp_path, rendition)
        assert len(counts) == count
        assert decoded(tmp_path, rendition) == (sum(counts), ""), (rendition, counts)
