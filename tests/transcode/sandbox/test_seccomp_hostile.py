"""Hostile files in the real sandbox: a sentence, bounded memory and time, no other file read."""

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import av
import av.error
import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import ladder_for
from tests.support.engine.engine_process import LABELS, EngineOutput
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import film
from tests.support.transcode.canary import Canary, canary
from tests.support.transcode.hostile_files import (
    BOMBS,
    DISGUISES,
    PICTURE_BOMBS,
    PICTURES,
    REFERENCES,
    hls,
)
from tests.support.waiting import SCALE
from transcode.inspect.probe import NotMedia, probe
from transcode.inspect.still import NotImage, make_posters
from transcode.protocol.file_messages import AssetOrder
from transcode.protocol.messages import EngineReport, FileOrder, Poster, Probed, Refused, WireReader

GIB = 1 << 30
# The memory of a child before it reads a file: Python, the library and its tables.
BASE_BYTES = 100 << 20
LADDER = ladder_for(320, 180, LABELS)
# One of several similar files; `make prove` tests the others.
FEW = {
    "HLS, file:", "HLS, a name", "HLS, http:", "HLS, subfile:", "HLS, a key",
    "HLS, a playlist of playlists", "a list for concat", "DASH, http:", "SDP", "RTSP",
    "samples elsewhere, by URL", "samples elsewhere, by alias", "AVI, a playlist for subtitles",
    "MP3, a cover elsewhere", "SVG", "SVG, http:", "HLS", "a film",
    "a zip of a film", "a program", "a playlist, then a film", "half a film",
    "a film that begins with a page", "a film with its octets turned round",
    "an index that is packed", "a million tracks, MP4", "200 000 tracks, Matroska",
    "eight thousand programmes", "4 000 million samples", "atoms in atoms",
    "an atom of 2^63", "PNG, 16000x16000 of one bit", "PNG, a packed text",
    "PNG, more rows than said", "JPEG, 65500x65500",
}  # fmt: skip


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    proof = pytest.mark.prove
    cases = [pytest.param(name, marks=() if name in FEW else proof, id=name) for name in names]
    return pytest.mark.parametrize("name", cases)


def test_the_few_are_among_all() -> None:
    assert FEW.issubset({*REFERENCES, *PICTURES, *DISGUISES, *BOMBS, *PICTURE_BOMBS})


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("good")
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-movflags", "+faststart")
    return film(folder / "a.mp4", *coding, seconds=1).read_bytes()


@pytest.fixture(scope="module")
def canary_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canary]:
    """Another owner's film, beside the files that are probed."""
    path = tmp_path_factory.mktemp("others") / "secret.ts"
    film(path, "-c:v", "libx264", "-preset", "ultrafast", seconds=1)
    with canary(path) as watched:
        yield watched


def beside(canary_process: Canary, data: bytes) -> Path:
    """Keep a file where a playlist's relative names lead to the canary."""
    path = canary_process.path.with_name("1")
    path.write_bytes(data)
    return path


def is_sentence(text: str, canary_process: Canary | None = None) -> bool:
    """Whether a text is fit for users: no path, no address, none of the library's messages."""
    hidden = ["/", "0x", "Error", "error:", "b'"] + (
        [canary_process.path.name] if canary_process else []
    )
    return text.endswith(".") and text[0].isupper() and not any(word in text for word in hidden)


@pytest.mark.parametrize("how", ["file", "web"])
def test_the_same_text_bites_where_nothing_forbids_it(how: str, canary_process: Canary) -> None:
    text = hls(canary_process.path.as_uri() if how == "file" else f"{canary_process.web}/a.ts")
    with (
        contextlib.suppress(av.error.FFmpegError),  # the server says nothing
        av.open(io.BytesIO(text), "r", format="hls", timeout=(0.5, 0.5)) as container,
    ):
        next(container.decode(video=0))
    assert canary_process.alarms() != []


@each(REFERENCES)
async def test_a_file_that_names_another_is_refused_and_names_it_in_vain(
    name: str, canary_process: Canary
) -> None:
    path = beside(canary_process, REFERENCES[name](canary_process))
    canary_process.alarms()
    with pytest.raises(NotMedia) as refused:
        await probe(path, seconds=5 * SCALE)
    assert is_sentence(refused.value.reason, canary_process)
    assert canary_process.alarms() == []


@pytest.mark.prove
@pytest.mark.parametrize("name", list(REFERENCES))
@pytest.mark.parametrize("kind", ["asset", "video", "poster"])
def test_later_engines_do_not_follow_it_either(
    kind: str, name: str, canary_process: Canary
) -> None:
    path = beside(canary_process, REFERENCES[name](canary_process))
    canary_process.alarms()
    make = AssetOrder(ladder=LADDER) if kind == "asset" else FileOrder(ladder=LADDER)
    engine = MeasuredEngine(kind, path, make)
    assert engine.status == 0
    # A film without one readable sample ends without a segment; that fails the video later.
    assert engine.of(Refused) or (not engine.of(Segment) and not engine.of(Poster))
    assert canary_process.alarms() == []


@each(PICTURES)
async def test_what_is_no_poster_is_refused(name: str, canary_process: Canary) -> None:
    path = beside(canary_process, PICTURES[name](canary_process))
    canary_process.alarms()
    with pytest.raises(NotImage) as refused:
        await make_posters(path, 640, 360)
    assert is_sentence(refused.value.reason, canary_process)
    assert canary_process.alarms() == []


@each(DISGUISES)
async def test_a_disguise_is_a_film_or_refused(name: str, good: bytes, tmp_path: Path) -> None:
    change, may_pass = DISGUISES[name]
    (tmp_path / "1").write_bytes(change(good))
    try:
        media = await probe(tmp_path / "1", seconds=5 * SCALE)
    except NotMedia as refused:
        assert is_sentence(refused.reason)
    else:
        assert may_pass
        assert (media.width, media.height, media.video_codec) == (320, 180, "h264")


class MeasuredEngine(EngineOutput):
    """An engine's output about a file, its peak memory, and how long it took."""

    def __init__(self, kind: str, path: Path, make: FileOrder | AssetOrder | None = None) -> None:
        command = [sys.executable, "-I", "-m", "transcode.engine", kind]
        command += [msgspec.json.encode(make).decode()] if make is not None else []
        began = time.monotonic()
        with path.open("rb") as file:
            child = subprocess.Popen(
                command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
            )
        with child:
            assert child.stdout is not None
            output = child.stdout.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        reports: WireReader[EngineReport] = WireReader(EngineReport)
        super().__init__(reports.feed(output), child.returncode, "")
        self.bytes = usage.ru_maxrss << 10
        self.processor_seconds = usage.ru_utime + usage.ru_stime
        self.seconds = time.monotonic() - began


@each(BOMBS)
def test_a_bomb_takes_no_more_than_its_box_gives(name: str, tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_bytes(BOMBS[name]())
    engine = MeasuredEngine("probe", path)
    assert engine.bytes < GIB + BASE_BYTES
    assert engine.processor_seconds < 20 + 1  # the box's own
    assert engine.status <= 0, "nothing of ours broke"  # below 0: it was ended by the kernel
    for refused in engine.of(Refused):
        assert is_sentence(refused.reason)
    assert engine.of(Probed) == []


@each(PICTURE_BOMBS)
def test_a_picture_bomb_takes_no_more_than_its_box_gives(name: str, tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_bytes(PICTURE_BOMBS[name]())
    engine = MeasuredEngine("still", path, FileOrder(ladder=LADDER))
    assert engine.bytes < GIB + BASE_BYTES
    assert engine.seconds < 20 * SCALE
    assert engine.status == 0
    assert len(engine.of(Refused)) + bool(engine.of(Poster)) == 1
    assert all(is_sentence(refused.reason) for refused in engine.of(Refused))
    assert all((each.width, each.height) == (180, 180) for each in engine.of(Poster))


@pytest.mark.prove
def test_a_film_of_far_too_many_pixels_is_refused_by_each_engine(tmp_path: Path) -> None:
    """15360x8640, honestly coded: a frame of it alone takes 200 MB."""
    path = tmp_path / "1.avi"
    source = ("-f", "lavfi", "-i", "color=gray:s=15360x8640:r=25,format=yuvj420p")
    ffmpeg(*source, "-frames:v", "1", "-threads", "1", "-c:v", "mjpeg", "-y", path)
    for kind in ("probe", "asset"):
        engine = MeasuredEngine(kind, path, AssetOrder(ladder=LADDER) if kind == "asset" else None)
        assert engine.bytes < 3 * GIB + BASE_BYTES
        assert engine.status == 0
        (refused,) = engine.of(Refused)
        assert is_sentence(refused.reason)
