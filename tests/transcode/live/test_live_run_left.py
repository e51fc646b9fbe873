"""What viewers get of a run that one process has left and another one continues, with real engines.

The films are of one programme, whose pictures have numbers, and on one clock.
"""

from pathlib import Path

import pytest

from media.packet import MediaPacket
from media.source_mark import FindMarks, SourceMark, no_marks
from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source
from tests.support.transcode.live_runs import playlist, running, send, tracks_of
from tests.transcode.live.test_live_run_cut import PICTURES, film, shown, time

GOP_PICTURES = 60
LEFT_AT = 137


def marks_of(source: Source) -> FindMarks:
    """Return what finds the mark of a source by its newest keyframe when the run was left."""
    key = source.pictures[LEFT_AT // GOP_PICTURES * GOP_PICTURES]
    assert key.key
    assert source.video is not None
    packet = MediaPacket(track=source.video, dts=key.dts, pts=key.pts, key=True, data=key.data)
    return lambda: (SourceMark.of(packet),)


async def left_and_continued(root: Path, before: Source, after: Source, marks: FindMarks) -> None:
    """Leave a run within a group of pictures; another one goes on from a keyframe before that."""
    with DiskObjects(root) as objects:
        async with running(objects) as run:
            run.begin(tracks_of(before), marks=marks)
            send(run, before, end=time(before, LEFT_AT))
        async with running(objects) as run:
            run.begin(tracks_of(after))
            send(run, after, start=time(after, GOP_PICTURES))
            run.finish()
            run.end()


@pytest.mark.parametrize("gop", [2.0, 1.0])
async def test_a_source_that_is_known_goes_on_with_the_next_picture(
    gop: float, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("films")
    before, after = film(folder, 2.0), film(folder, gop)
    await left_and_continued(tmp_path, before, after, marks_of(after))
    assert shown(tmp_path) == list(range(PICTURES))
    assert sum(each.discontinuity for each in playlist(tmp_path).segments) == 1


async def test_a_source_that_is_not_known_begins_at_its_keyframe(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = film(tmp_path_factory.mktemp("films"), 2.0)
    await left_and_continued(tmp_path, source, source, no_marks)
    assert shown(tmp_path) == [*range(LEFT_AT), *range(GOP_PICTURES, PICTURES)]
