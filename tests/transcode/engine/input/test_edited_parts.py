"""The parts of an edit list: where they begin, and the times of their pictures."""

from pathlib import Path

import av
from av.stream import Stream

from tests.support.engine.edited_films import edited
from tests.support.engine.made_assets import OWN, SMALL
from tests.support.engine.numbered_films import numbered
from transcode.engine.input.edited_parts import PartJoiner, SeamWatch


def test_a_part_begins_where_a_track_goes_back_to_a_keyframe(tmp_path: Path) -> None:
    film = numbered(tmp_path / "a.mp4", *OWN, seconds=6, size=SMALL, sound=None)
    seams: dict[Path, list[float]] = {}
    for path in (film, edited(film, (1, 4.48), (2, 0.48), (1, 0.2))):
        with av.open(str(path)) as container:
            watch, tracks = SeamWatch(), list[Stream](container.streams.video)
            seams[path] = [
                round(float(packet.pts * packet.time_base), 1)
                for packet in container.demux(tracks)
                if packet.pts is not None and watch.is_at(packet)
            ]
    own, of_edits = seams.values()
    assert own == []
    # The keyframe is 0.48 and 0.2 s before the part, which begins after 1 and 3 s.
    assert [abs(at - begin) <= 0.11 for at, begin in zip(of_edits, (0.52, 2.8), strict=True)] == [
        True,
        True,
    ]


def test_pictures_of_a_part_follow_those_of_the_part_before() -> None:
    joiner = PartJoiner()
    joiner.begin(100)
    assert [joiner.add(time) for time in (100, 140, 180)] == [100, 140, 180]
    joiner.begin(180)  # as B-frames mislead the library
    assert [joiner.add(time) for time in (180, 220)] == [220, 260]
    joiner.begin(300)
    assert [joiner.add(time) for time in (300, 340)] == [340, 380]
