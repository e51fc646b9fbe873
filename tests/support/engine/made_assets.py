"""Runs real engines on whole files and on spans, and checks that their output is complete."""

from itertools import pairwise
from pathlib import Path

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import packets, warnings_of
from tests.support.engine.engine_process import EngineOutput
from tests.support.engine.numbered_films import numbers
from tests.support.engine.upload_files import make_for, probed, read
from transcode.protocol.file_messages import AssetOrder, Surveyed
from transcode.protocol.messages import EngineReport

__all__ = [
    "OWN",
    "SECOND",
    "SIZE",
    "SMALL",
    "X264",
    "film_for",
    "is_whole",
    "joined",
    "made_of",
    "sound_is_continuous",
    "surveyed",
]

SECOND = 90_000
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-profile:v", "high", "-sc_threshold", "0")
OWN = (*X264, "-g", "50", "-keyint_min", "50", "-bf", "2")
# Low pictures, whose width decides what their rungs are called.
SIZE = (720, 96)
SMALL = (320, 80)


def film_for(path: Path, *, reuse: bool = True, threads: int = 1) -> AssetOrder:
    make = make_for(probed(path), reuse=reuse)
    return AssetOrder(ladder=make.ladder, reuse=make.reuse, threads=threads)


def surveyed(made: EngineOutput) -> Surveyed:
    (found,) = made.of(Surveyed)
    return found


def made_of(path: Path, *, reuse: bool = True, threads: int = 1) -> EngineOutput:
    """Return the output of one engine for a film, and of one more engine for each span."""
    whole = read("asset", path, film_for(path, reuse=reuse, threads=threads))
    assert (whole.status, whole.complaints) == (0, "")
    reports: list[EngineReport] = list(whole.reports)
    found = surveyed(whole)
    if len(found.spans) > 1:
        for stretch in found.spans:
            apart = read("span", path, stretch)
            assert (apart.status, apart.complaints) == (0, "")
            reports += apart.reports
    return EngineOutput(reports, 0, "")


def joined(made: EngineOutput, name: str) -> bytes:
    """Return a rendition as one file: its first init section and all its segments."""
    inits = {init.data for init in made.inits(name)}
    assert len(inits) == 1
    (init,) = inits
    return init + b"".join(made.data(segment) for segment in made.segments(name))


def is_whole(made: EngineOutput, count: int, *, late: int = 0) -> bool:
    """Return whether each rung has each picture once, and ffmpeg decodes all without errors."""
    assert made.in_step()
    files = {name: joined(made, name) for name in made.names}
    assert warnings_of(list(files.items())) == {}
    for name, file in files.items():
        stamps = packets(file)
        assert all(a[0] < b[0] for a, b in pairwise(stamps)), name
        assert all(dts <= pts for dts, pts, _ in stamps), name
        segments = made.segments(name)
        for one, other in pairwise(segments):
            slack = 1_920 if name == AUDIO_RENDITION else 0
            assert abs(one.start + one.duration - other.start) <= slack
        if name != AUDIO_RENDITION:
            assert [number for _, number in numbers(file)][late:] == list(range(late, count)), name
    return True


def sound_is_continuous(made: EngineOutput, seconds: float) -> bool:
    stamps = [pts for _, pts, _ in packets(joined(made, AUDIO_RENDITION))]
    assert {b - a for a, b in pairwise(stamps)} == {1024}
    lengths = sum(segment.duration for segment in made.segments(AUDIO_RENDITION))
    assert abs(lengths / SECOND - seconds) < 0.1
    return True
