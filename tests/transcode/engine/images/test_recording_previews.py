"""Thumbnails of keyframes that come through a pipe, made by a real engine in its sandbox."""

import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import av
import msgspec
import pytest

from media.ladder import Rendition
from tests.support.engine.engine_process import EngineOutput, run_raw
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import picture_size
from tests.support.transcode.recordings import RUNG, record
from transcode.engine.images.recording_previews import make_previews
from transcode.protocol.file_messages import Keyframe, PosterKeyframe, PreviewOrder
from transcode.protocol.messages import Poster, Previews, pack

ORDER = PreviewOrder(width=320, height=180)
TEXT = msgspec.json.encode(ORDER).decode()


@pytest.fixture(scope="module")
def keyframes(tmp_path_factory: pytest.TempPathFactory) -> list[Keyframe]:
    """Four keyframes of two epochs, each lighter than the one before."""
    output = record(tmp_path_factory.mktemp("run"), 2, 2)
    return list(_keyframes(output))


def _keyframes(output: EngineOutput) -> Iterator[Keyframe]:
    inits = {init.number: init.data for init in output.inits(RUNG)}
    for number, segment in enumerate(output.segments(RUNG)):
        chunk = next(part for part in output.parts(RUNG) if part.sequence == segment.sequence)
        yield Keyframe(at=2000 * number, data=inits[segment.init] + chunk.data)


def previews(keyframes: Iterable[Keyframe]) -> list[Previews]:
    output = run_raw(b"".join(pack(each) for each in keyframes), "previews", TEXT)
    assert (output.status, output.complaints) == (0, "")
    return output.of(Previews)


def lumas(sheet: bytes, count: int) -> list[int]:
    """The luma in the middle of each thumbnail of the first row."""
    with av.open(io.BytesIO(sheet), "r", format="jpeg_pipe") as container:
        plane = next(container.decode(video=0)).planes[0]
    middle = bytes(plane)[45 * plane.line_size :]
    return [middle[160 * number + 80] for number in range(count)]


def test_keyframes_of_several_epochs_are_thumbnails_in_order(keyframes: list[Keyframe]) -> None:
    (sheets,) = previews(keyframes[place] for place in (0, 2, 1, 3))
    assert (sheets.width, sheets.height, sheets.times) == (160, 90, (0, 2000, 4000, 6000))
    (sheet,) = sheets.sheets
    shades = lumas(sheet, 4)
    assert [round((each - shades[0]) / 23.3) for each in shades] == [0, 1, 2, 3]


def test_what_cannot_be_decoded_is_left_out(keyframes: list[Keyframe]) -> None:
    first, second, third, _ = keyframes
    bad = [
        Keyframe(at=2000, data=b"no media"),
        Keyframe(at=2000, data=b""),
        Keyframe(at=2000, data=second.data[:700]),
    ]
    (sheets,) = previews([first, *bad, third])
    assert sheets.times == (0, 4000)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_pictures_are_no_previews(keyframes: list[Keyframe], count: int) -> None:
    assert previews(keyframes[:count]) == []


def test_the_best_of_the_keyframes_for_it_becomes_the_poster(
    tmp_path: Path, keyframes: list[Keyframe]
) -> None:
    """The detailed picture wins over plain ones, in all sizes; thumbnails are no candidates."""
    path = tmp_path / "detail.mp4"
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=0.2", "-c:v", "libx264"),
        *("-pix_fmt", "yuv420p", "-movflags", "frag_keyframe+empty_moov", "-y", path),
    )
    candidates = [keyframes[0].data, path.read_bytes(), b"no media", keyframes[3].data]
    rungs = tuple(
        Rendition(name=name, width=width, height=height, rate=1)
        for name, width, height in (("240p", 320, 180), ("144p", 160, 90))
    )
    order = msgspec.json.encode(PreviewOrder(width=160, height=90, rungs=rungs)).decode()
    messages = [*(PosterKeyframe(data=each) for each in candidates), keyframes[0]]
    output = run_raw(b"".join(pack(each) for each in messages), "previews", order)
    assert (output.status, output.complaints) == (0, "")
    assert output.of(Previews) == [], "one thumbnail"
    posters = output.of(Poster)
    assert [(each.label, each.width, each.height) for each in posters] == [
        ("240p", 320, 180),
        ("144p", 160, 90),
    ]
    for each in posters:
        assert picture_size(each.data) == (each.width, each.height)
        with av.open(io.BytesIO(each.data), "r", format="jpeg_pipe") as container:
            plane = next(container.decode(video=0)).planes[0]
        assert len(set(bytes(plane))) > 100, "not one of the plain ones"


def test_no_poster_is_made_unless_it_is_asked_for(keyframes: list[Keyframe]) -> None:
    messages = [PosterKeyframe(data=keyframes[0].data), keyframes[0]]
    output = run_raw(b"".join(pack(each) for each in messages), "previews", TEXT)
    assert (output.status, output.reports) == (0, [])


def test_input_that_is_no_keyframe_ends_the_engine(keyframes: list[Keyframe]) -> None:
    output = run_raw(b"\xff" * 8, "previews", TEXT)
    assert (output.status, output.reports) == (2, [])
    assert "a frame of" in output.complaints
    assert run_raw(b"", "previews", "{}").status == 2


def test_keyframes_after_the_time_limit_are_left_out(
    tmp_path: Path, keyframes: list[Keyframe]
) -> None:
    (tmp_path / "pipe").write_bytes(b"".join(pack(each) for each in keyframes))
    for seconds, count in ((30.0, 1), (-1.0, 0)):
        file = os.open(tmp_path / "pipe", os.O_RDONLY)
        try:
            assert len(list(make_previews(file, ORDER, cpu_seconds=seconds))) == count
        finally:
            os.close(file)
