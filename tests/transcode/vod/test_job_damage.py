"""Each container, damaged at its beginning, middle and end: as long as ffmpeg makes it, and true.

Through the worker and its engines, without a service.
"""

import re
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from tests.support.engine.sources import ffmpeg
from tests.support.transcode.corpus_clips import AAC, Maker, noisy, shortened
from tests.support.transcode.corpus_items import FAST, MPEG2, PLAIN
from tests.support.transcode.made_truth import false_claims
from tests.support.transcode.transcode_fixture import VodFixture

pytestmark = pytest.mark.anyio

_SECONDS: Final = 6
_THEORA: Final = ("-c:v", "libtheora", "-c:a", "libvorbis")
_CODING: Final = {
    "mkv": PLAIN,
    "mp4": PLAIN,
    "ts": PLAIN,
    "flv": PLAIN,
    "avi": ("-c:v", "mpeg4", *AAC),
    "webm": ("-c:v", "libvpx", *FAST, "-g", "25", "-c:a", "libvorbis"),
    "ogv": _THEORA,
    "mpg": (*MPEG2, "-c:a", "mp2"),
}
_PLACES: Final = {"beginning": 0.05, "middle": 0.5, "end": 0.95}
# The tables of an MP4 are of no use for what moved, and Ogg's first pages hold the codecs' own.
_UNREADABLE: Final = {("mp4", "missing"), ("ogv", "beginning")}
_FEW: Final = {("mkv", "middle"), ("flv", "missing")}


def _film(path: Path) -> None:
    """Make a film that moves: its headers are a small part of it."""
    picture = ("-f", "lavfi", "-i", f"testsrc2=s=160x90:r=25:d={_SECONDS}")
    sound = ("-f", "lavfi", "-i", f"sine=d={_SECONDS}")
    coding = _CODING[path.suffix[1:]]
    ffmpeg(*picture, *sound, *coding, "-pix_fmt", "yuv420p", "-y", path)


def _damaged(damage: str) -> Maker:
    return shortened(_film) if damage == "missing" else noisy(_film, _PLACES[damage])


def _decoded_seconds(path: Path) -> float:
    """Return how long ffmpeg's output is."""
    output = ffmpeg("-i", path, "-stats", "-f", "null", "-")
    hours, minutes, seconds = re.findall(r"time=(\d+):(\d+):([\d.]+)", output)[-1]
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        pytest.param(*case, marks=() if case in _FEW else pytest.mark.prove)
        for case in product(_CODING, (*_PLACES, "missing"))
        if case not in _UNREADABLE
    ],
)
async def test_damage_costs_pictures_or_sound_and_neither_the_length_nor_the_truth(
    vod: VodFixture, tmp_path: Path, ending: str, damage: str
) -> None:
    path = tmp_path / f"film.{ending}"
    _damaged(damage)(path)
    whole = await vod.transcode(path)
    status = await vod.status(whole.video.id)
    assert status.state == "completed", status.reason
    seconds = _decoded_seconds(path)
    assert await false_claims(vod, whole, seconds=seconds, sound=True, picture=True) == []
