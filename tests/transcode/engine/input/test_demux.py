"""Packets of files in which tracks begin late, that are encrypted, or that begin below zero."""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.engine.sources import ffmpeg
from tests.support.transcode.corpus import CORPUS
from tests.support.transcode.corpus_bytes import flv_of_noise
from transcode.engine.input.container import BadUpload, Upload, open_upload, video_stream
from transcode.engine.input.demux import KeyOrder, Reach, demux, timed_packets


@contextmanager
def opened(path: Path) -> Generator[Upload]:
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        yield upload


def test_tracks_that_begin_after_the_header_do_not_break_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.flv"
    path.write_bytes(flv_of_noise(18))
    with opened(path) as upload:
        assert len(list(demux(upload, list(upload.streams)))) > 0


def test_packets_before_zero_come_before_the_first_that_has_a_time(tmp_path: Path) -> None:
    """Matroska cannot hold times below zero."""
    (item,) = [item for item in CORPUS if item.file == "before-zero.mkv"]
    item.make(tmp_path / "a.mkv")
    with opened(tmp_path / "a.mkv") as upload:
        picture = video_stream(upload)
        assert picture is not None
        packets = list(timed_packets(upload, [picture]))
    assert sum(packet.pts is None for packet, _, _ in packets) > 30
    times = [pts for _, _, pts in packets]
    assert len(times) == 75
    assert all(abs(later - time - 3_600) <= 90 for time, later in pairwise(times))


@pytest.mark.parametrize("name", ["encrypted-cenc.mp4", "encrypted-cbcs.mp4"])
def test_an_encrypted_packet_is_refused(tmp_path: Path, name: str) -> None:
    (item,) = [item for item in CORPUS if item.file == name]
    item.make(tmp_path / name)
    with opened(tmp_path / name) as upload:
        picture = video_stream(upload)
        assert picture is not None
        with pytest.raises(BadUpload, match="encrypted"):
            next(demux(upload, [picture]))


def test_the_reach_of_a_file_is_that_of_all_tracks_from_zero_or_the_first_time(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.mkv"
    tracks = ("color=s=16x16:r=10:d=2", "anullsrc=r=8000:d=2", "anullsrc=r=8000:d=5")
    sources = [option for track in tracks for option in ("-f", "lavfi", "-i", track)]
    maps = ("-map", "0", "-map", "1", "-map", "2", "-c:a", "pcm_s16le")
    ffmpeg(*sources, *maps, "-output_ts_offset", "100", "-y", path)
    reach = Reach()
    with opened(path) as upload:
        picture = video_stream(upload)
        assert picture is not None
        assert {packet.stream for packet in demux(upload, [picture], reach)} == {picture}
    assert abs(reach.ticks - 105 * 90_000) < 9_000
    assert Reach().ticks == 0


@pytest.mark.parametrize(
    ("pictures", "expected"),
    [
        pytest.param([(0, 1), (2, 0), (1, 0), (3, 1), (5, 0), (4, 0)], [], id="closed groups"),
        pytest.param([(0, 1), (3, 0), (1, 0), (2, 0), (6, 1), (4, 0), (5, 0)], [], id="open ones"),
        pytest.param([(time, 1) for time in range(5)], [], id="keyframes alone"),
        pytest.param([(5, 1), (6, 0), (5, 1), (7, 0), (8, 1)], [2], id="another film"),
        pytest.param([(5, 1), (6, 0), (6, 1), (7, 0)], [], id="the same time"),
    ],
)
def test_a_keyframe_before_what_was_decoded_earlier_is_another_film_s(
    pictures: list[tuple[int, int]], expected: list[int]
) -> None:
    order = KeyOrder()
    broken = [order.is_broken_by(pts, key=bool(key)) for pts, key in pictures]
    assert [place for place, is_broken in enumerate(broken) if is_broken] == expected
