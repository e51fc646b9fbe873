"""What phones, cameras and editors make: each file of the corpus becomes a video, or says why not.

Through the worker and its engines, without a service; players are `tests/e2e/test_formats.py`'s.
"""

import io
import logging
from pathlib import Path
from typing import Final

import av
import pytest

from media.ladder import AUDIO_RENDITION
from storage.catalog.records.videos import VideoStatus, WholeVideo
from tests.support.engine.decoded_output import frames, onsets, warnings_of
from tests.support.transcode.corpus import CORPUS
from tests.support.transcode.corpus_items import Item, line_of
from tests.support.transcode.made_truth import false_claims
from tests.support.transcode.transcode_fixture import VodFixture

_PAGE: Final = Path(__file__).parents[3] / "docs" / "formats.md"
_ORIGIN: Final = 10.0
# A picture is off by less than one at 15 a second, sound by less than what anybody notices.
_SLACK: Final = 0.08
# One of each kind of trouble that was ever found; the others are `make prove`'s.
_FEW: Final = (
    "mov-h264.mov",
    "turned-90.mp4",
    "sound-cover.m4a",
    "damaged.mp4",
    "nothing.mp4",
    "one-keyframe.ts",
    "stray-cluster.mkv",
    "many-tracks.mkv",
    "left-right.mov",
    "encrypted-cenc.mp4",
)


def _proof(item: Item) -> tuple[pytest.MarkDecorator, ...]:
    return () if item.file in _FEW else (pytest.mark.prove,)


@pytest.mark.parametrize(
    "item", [pytest.param(item, id=item.file, marks=_proof(item)) for item in CORPUS]
)
async def test_what_people_make_becomes_a_video_or_is_refused_with_a_reason(
    vod: VodFixture, tmp_path: Path, caplog: pytest.LogCaptureFixture, item: Item
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / item.file
    item.make(path)
    whole = await vod.transcode(path)
    status = await vod.status(whole.video.id)
    stored = await vod.stored_objects(whole.video.hash)
    if item.refused:
        assert (status.state, item.refused in status.reason, stored) == ("failed", True, [])
        return
    _check_warnings(item, whole, status)
    picture = item.size is not None
    lies = await false_claims(vod, whole, seconds=item.seconds, sound=item.sound, picture=picture)
    assert lies == []
    (surveyed,) = [record for record in caplog.records if record.message == "source surveyed"]
    facts = surveyed.__dict__
    assert (facts["reused"] is not None, facts["sound_kept"]) == (item.own, item.kept)
    files = {name: file for name, (file,) in (await vod.rendition_files(whole)).items()}
    assert warnings_of(list(files.items())) == {}
    for name, file in files.items():
        assert (name == AUDIO_RENDITION) is (b"mp4a" in file)
    _check_pattern(item, files)


def _check_warnings(item: Item, whole: WholeVideo, status: VideoStatus) -> None:
    assert status.state == "completed", status.reason
    assert abs(whole.video.length_us / 1e6 - item.seconds) < max(0.1, item.seconds / 20)
    assert (item.warning in " ".join(status.warnings)) if item.warning else not status.warnings


def _check_pattern(item: Item, files: dict[str, bytes]) -> None:
    """Look for the flashes and the beeps where they belong, and whether the picture is upright."""
    first_heard = item.first if item.heard is None else item.heard
    beeps = onsets(files[AUDIO_RENDITION])[1] if item.sound else []
    assert _are_due(beeps, first_heard, item.beeps), beeps
    rungs = [file for name, file in files.items() if name != AUDIO_RENDITION]
    assert bool(rungs) is (item.size is not None)
    for file in rungs:
        flashes, _ = onsets(file)
        assert _are_due(flashes, item.first, item.flashes), flashes
        if item.flashes:
            assert _is_upright(file)
    sizes = {(wide, high) for file in rungs for _, wide, high in frames(file)}
    assert max(sizes, default=None) == item.size


def _is_upright(file: bytes) -> bool:
    """Whether the first picture has its grey box in the upper left corner, and there alone."""
    with av.open(io.BytesIO(file), "r") as container:
        picture = next(container.decode(video=0)).reformat(width=32, height=32, format="gray")
    plane = picture.planes[0]
    data, stride = bytes(plane), plane.line_size
    corners = [data[row * stride + place] for row in (3, 28) for place in (3, 28)]
    return corners[0] > 70 > 50 > max(corners[1:])


def _are_due(times: list[float], first: float, count: int) -> bool:
    due = [_ORIGIN + first + second for second in range(count)]
    pairs = zip(times, due, strict=False)
    return len(times) == count and all(abs(time - wanted) < _SLACK for time, wanted in pairs)


def test_the_page_names_every_file_and_what_comes_of_it() -> None:
    lines = [line for line in _PAGE.read_text().splitlines() if line.startswith("| ")]
    assert lines[1:] == [line_of(item) for item in CORPUS]


def test_there_are_files_enough_and_no_two_of_a_name() -> None:
    assert len({item.file for item in CORPUS}) == len(CORPUS) >= 45
