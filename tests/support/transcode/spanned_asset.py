"""Films that are encoded in two spans, and a check that the result is complete."""

from itertools import pairwise
from pathlib import Path
from typing import Final

from storage.catalog.records.videos import WholeVideo
from tests.support.engine.decoded_output import packets, warnings_of
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.transcode.transcode_fixture import VodFixture

SIZE: Final = (720, 72)
_PICTURES: Final = 25 * 25
_CODING: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-profile:v", "high", "-bf", "2",
                  "-sc_threshold", "0")  # fmt: skip


def film_with_own_packets(folder: Path) -> Path:
    """Make 25 s of 480p whose video and audio packets are reused: only 360p is encoded."""
    coding = (*_CODING, "-g", "50", "-keyint_min", "50", "-c:a", "aac")
    return numbered(folder / "a.mp4", *coding, seconds=25, size=SIZE)


def film_with_sparse_keyframes(folder: Path) -> Path:
    """Make 25 s whose keyframes are 4.8 s apart and whose sound is MP3."""
    coding = (*_CODING, "-g", "120", "-keyint_min", "120", "-c:a", "libmp3lame")
    return numbered(folder / "b.mkv", *coding, seconds=25, size=SIZE)


async def is_whole(vod: VodFixture, whole: WholeVideo) -> bool:
    """Return whether all rungs have each frame once, at equal times, without warnings."""
    assert whole.video.state == "completed"
    variants = await vod.variants(whole)
    lengths: set[tuple[int, ...]] = set()
    for variant in variants.variants:
        playlist = await vod.playlist(whole, variant.uri)
        assert not any(each.discontinuity or each.gap for each in playlist.segments)
        assert len({each.map_uri for each in playlist.segments}) == 1
        lengths.add(tuple(each.duration for each in playlist.segments))
    assert len(lengths) == 1
    files = {name: file for name, (file,) in (await vod.rendition_files(whole)).items()}
    assert warnings_of(list(files.items())) == {}
    for name, file in files.items():
        stamps = packets(file)
        assert all(a[0] < b[0] for a, b in pairwise(stamps)), name
        if name == "audio":
            steps = {b[1] - a[1] for a, b in pairwise(stamps)}
            assert steps == {1024}
        else:
            assert all(dts <= pts for dts, pts, _ in stamps)
            assert [number for _, number in numbers(file)] == list(range(_PICTURES)), name
    return True
