"""Pictures that owners send: what is read, and what is refused."""

import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from media.ladder import Ladder, Rendition
from tests.support.api.upload_clips import clip, picture
from transcode.engine.images.still import make_stills
from transcode.engine.input.container import BadUpload
from transcode.inspect.still import NotImage
from transcode.inspect.still import make_posters as asked
from transcode.protocol.messages import FileOrder, Poster

LADDER = Ladder(
    (
        Rendition(name="720p", width=1280, height=720, rate=1),
        Rendition(name="360p", width=640, height=360, rate=1),
    )
)


def made(data: bytes, make: FileOrder | None = None) -> list[Poster]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return make_stills(file.fileno(), make or FileOrder(ladder=LADDER))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: bytes | None = None, color: int = 2) -> bytes:
    """Return a PNG written by hand; without rows, its pixels are zeros that cost nothing."""
    head = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    deep = {0: 1, 2: 3, 6: 4}[color]
    data = zlib.compress(rows if rows is not None else bytes((width * deep + 1) * height), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param("1920x1080", [(1280, 720), (640, 360)], id="of the video's shape"),
        pytest.param("600x1200", [(360, 720), (180, 360)], id="upright"),
        pytest.param("320x240", [(320, 240), (320, 240)], id="small: never scaled up"),
        pytest.param("333x111", [(332, 110), (332, 110)], id="odd"),
    ],
)
def test_a_picture_keeps_its_shape_within_each_rung(
    kind: str, size: str, expected: list[tuple[int, int]]
) -> None:
    posters = made(picture(kind, size))
    assert [(poster.width, poster.height) for poster in posters] == expected
    assert [poster.label for poster in posters] == ["720p", "360p"]
    assert all(poster.data[:3] == b"\xff\xd8\xff" for poster in posters)


def test_without_a_ladder_the_picture_has_its_own() -> None:
    posters = made(picture("png", "1000x500"), FileOrder(ladder=None))
    assert [poster.label for poster in posters] == ["720p", "480p", "360p"]


@pytest.mark.parametrize("color", [0, 2, 6])
def test_grey_coloured_and_transparent_pictures_are_read(color: int) -> None:
    assert len(made(png(64, 48, color=color))) == 2


REFUSED: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a text": lambda: b"hello",
    "an SVG": lambda: b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "a film": clip,
    "a GIF": lambda: b"GIF89a" + bytes(40),
    "a playlist": lambda: b"#EXTM3U\nfile:///etc/passwd\n",
    "the head of a PNG": lambda: picture("png")[:60],
    "the head of a JPEG": lambda: picture("jpg")[:60],
    "the head of a WebP": lambda: picture("webp")[:40],
    "a PNG of one pixel": lambda: png(1, 1),
    "a PNG that claims to be huge": lambda: png(100_000, 100_000, b"\0"),
    "a PNG that is huge": lambda: png(12_000, 12_000, color=0),
    "more than ten megabytes": lambda: picture("png") + bytes(10 * 1024 * 1024),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_picture_is_refused_in_words(name: str) -> None:
    with pytest.raises(BadUpload, match=r"^The (file|picture) .+\.$"):
        made(REFUSED[name]())


async def test_a_boxed_child_does_it(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(picture("webp", "800x600"))
    bad.write_bytes(os.urandom(1000))
    posters = await asked(good, 1280, 720)
    assert list(posters) == ["720p", "480p", "360p"]
    with pytest.raises(NotImage, match="no picture"):
        await asked(bad, 0, 0)
