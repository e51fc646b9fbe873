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

SECOND = 90_000
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-profile:v", "high", "-sc_threshold", "0")
OWN = (*X264, "-g", "50", "-keyint_min", "50", "-bf", "2")
# Low pictures, whose width decides what their rungs are called.
SIZE = (720, 96)
SMALL = (320, 80)


def film_for(path: Path, *, reuse: bool = True, threads: int = 1) -> AssetOrder:
    make = make_for(probed(path), reuse=reuse)
    return AssetOrder(ladder=make.ladder, reuse=make.reuse, threads=threads)


def surveyed(output: EngineOutput) -> Surveyed:
    (survey,) = output.of(Surveyed)
    return survey


def made_of(path: Path, *, reuse: bool = True, threads: int = 1) -> EngineOutput:
    """Return the output of one engine for a film, and of one more engine for each span."""
    whole = read("asset", path, film_for(path, reuse=reuse, threads=threads))
    assert (whole.status, whole.complaints) == (0, "")
    reports: list[EngineReport] = list(whole.reports)
    survey = surveyed(whole)
    if len(survey.spans) > 1:
        for span in survey.spans:
            output = read("span", path, span)
            assert (output.status, output.complaints) == (0, "")
            reports += output.reports
    return EngineOutput(reports, 0, "")


def joined(output: EngineOutput, name: str) -> bytes:
    """Return a rendition as one file: its first init section and all its segments."""
    inits = {init.data for init in output.inits(name)}
    assert len(inits) == 1
    (init,) = inits
    return init + b"".join(output.data(segment) for segment in output.segments(name))


def is_whole(output: EngineOutput, count: int, *, late: int = 0) -> bool:
    """Return whether each rung has each picture once, and ffmpeg decodes all without errors."""
    assert output.in_step()
    files = {name: joined(output, name) for name in output.names}
    assert warnings_of(list(files.items())) == {}
    for name, file in files.items():
        stamps = packets(file)
        assert all(a[0] < b[0] for a, b in pairwise(stamps)), name
        assert all(dts <= pts for dts, pts, _ in stamps), name
        segments = output.segments(name)
        for segment, following in pairwise(segments):
            slack = 1_920 if name == AUDIO_RENDITION else 0
            assert abs(segment.start + segment.duration - following.start) <= slack
        if name != AUDIO_RENDITION:
            assert [number for _, number in numbers(file)][late:] == list(range(late, count)), name
    return True


def sound_is_continuous(output: EngineOutput, seconds: float) -> bool:
    stamps = [pts for _, pts, _ in packets(joined(output, AUDIO_RENDITION))]
    assert {b - a for a, b in pairwise(stamps)} == {1024}
    lengths = sum(segment.duration for segment in output.segments(AUDIO_RENDITION))
    assert abs(lengths / SECOND - seconds) < 0.1
    return True
