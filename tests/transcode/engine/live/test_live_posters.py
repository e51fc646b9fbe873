"""Posters of live runs: which keyframes are used, and the JPEGs, in every codec."""

import io
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import msgspec
import pytest
from av.video.frame import VideoFrame

from media.ladder import ladder_for
from media.ticks import VIDEO_SCALE
from tests.support.engine.coded_sources import HEVC, coded
from tests.support.engine.engine_process import LABELS, begin, orders, run
from tests.support.engine.sources import Source, ffmpeg, moving, source_of
from tests.support.engine.upload_files import picture_size
from transcode.engine.core.reports import ReportWriter
from transcode.engine.live import live_posters
from transcode.engine.live.live_posters import (
    PictureRating,
    PosterSchedule,
    PosterStage,
    rate_picture,
)
from transcode.protocol.messages import EngineReport, Poster, Posters, Prepared, Trouble, WireReader

S = VIDEO_SCALE
EVERY = 30 * S
GOOD, POOR, POORER = (
    PictureRating(9.0, poor=False),
    PictureRating(1.0, poor=True),
    PictureRating(0.5, poor=True),
)
_PATIENCE = 20.0  # seconds, far above what one poster takes


# -- rhythm (pure) --------------------------------------------------------------------------------


def shown(looks: dict[float, PictureRating], step: float = 0.5, until: float = 100) -> list[float]:
    """Offer keyframes every `step` seconds; `looks` says what is seen from a time on."""
    rhythm = PosterSchedule()
    times: list[float] = []
    best: PictureRating | None = None
    for count in range(int(until / step)):
        now = count * step
        at = round(now * S)
        if not rhythm.is_due(at):
            continue
        rating = looks[max(time for time in looks if time <= now)]
        if rating.poor and best is not None and best.score > rating.score:
            rating = best
        best = rating if rating.poor else None
        if rhythm.should_send(rating, at, EVERY):
            times.append(now)
    return times


@pytest.mark.parametrize(
    ("looks", "sent"),
    [
        pytest.param({0: GOOD}, [0, 30, 60, 90], id="good ones: one in 30 s"),
        pytest.param({0: POOR, 3: GOOD}, [3, 33, 63, 93], id="black first: the first good one"),
        pytest.param({0: POOR, 14: GOOD}, [10, 15, 45, 75], id="10 s of black: the best of it"),
        pytest.param({0: POORER, 20: POOR}, [10, 20], id="the best so far, then a better one"),
        pytest.param({0: GOOD, 30: POOR, 34: GOOD}, [0, 34, 64, 94], id="a fade is waited out"),
        pytest.param({0: GOOD, 30: POOR}, [0], id="black never replaces what is good"),
    ],
)
def test_posters_come_when_they_are_due(
    looks: dict[float, PictureRating], sent: list[float]
) -> None:
    assert shown(looks) == sent


def test_keyframes_are_rated_once_a_second_at_most() -> None:
    rhythm = PosterSchedule()
    looked = [at for at in range(0, 9 * S, S // 60) if rhythm.is_due(at)]
    assert looked == [second * S for second in range(9)]


def test_poor_pictures_are_rated_less_often_after_a_while() -> None:
    rhythm = PosterSchedule()
    looked = [second for second in range(60) if rhythm.is_due(second * S)]
    assert looked == [*range(11), *range(15, 60, 5)]


def test_at_the_end_the_best_does_unless_something_good_was_sent() -> None:
    rhythm = PosterSchedule()
    assert rhythm.is_due(0)
    assert not rhythm.should_send(POOR, 0, EVERY)
    assert rhythm.should_send(POOR, None)
    assert not rhythm.should_send(POORER, None)
    assert rhythm.should_send(GOOD, S, EVERY)
    assert rhythm.good
    assert not rhythm.should_send(POOR, None)


# -- what is good ---------------------------------------------------------------------------------


def picture(graph: str) -> VideoFrame:
    path = f"{graph},format=yuv420p"
    with av.open(path, "r", format="lavfi") as container:
        frame = next(container.decode(video=0))
    assert isinstance(frame, VideoFrame)
    return frame


@pytest.mark.parametrize(
    ("graph", "poor"),
    [
        pytest.param("color=black:s=640x360", True, id="black"),
        pytest.param("color=0x3050a0:s=640x360,noise=alls=8:allf=t", True, id="plain, with noise"),
        pytest.param("color=white:s=640x360", True, id="white"),
        pytest.param(
            "color=black:s=640x360,drawbox=w=60:h=20:x=290:y=170:c=white:t=fill", True, id="a title"
        ),
        pytest.param("testsrc2=s=640x360", False, id="a test picture"),
        pytest.param("testsrc2=s=640x360,lutyuv=y=16+val*0.2", False, id="a night scene"),
        pytest.param(
            "color=white:s=640x360,drawgrid=w=80:h=40:t=6:c=black", False, id="a page of print"
        ),
    ],
)
def test_black_and_plain_pictures_are_poor(graph: str, poor: bool) -> None:
    assert rate_picture(picture(graph)).poor is poor


# -- keyframes into JPEGs -------------------------------------------------------------------------


@contextmanager
def making() -> Generator[tuple[PosterStage, list[EngineReport]]]:
    """A worker and what it reports, whole once the block is left."""
    reading, writing = os.pipe()
    reports: list[EngineReport] = []
    outlet = ReportWriter(writing)

    def read() -> None:
        reader: WireReader[EngineReport] = WireReader(EngineReport)
        while data := os.read(reading, 1 << 20):
            reports.extend(reader.feed(data))

    listening = threading.Thread(target=read)
    listening.start()
    worker = PosterStage(outlet)
    try:
        yield worker, reports
        worker.finish()
        outlet.flush_troubles()
    finally:
        os.close(writing)
        listening.join()
        os.close(reading)


def source_for(source: Source, every: int = EVERY) -> live_posters.PosterSource:
    track = source.video
    assert track is not None
    rungs = ladder_for(track.width, track.height, LABELS).renditions
    return live_posters.PosterSource(track=track, aspect=Fraction(1), rungs=rungs, every=every)


def feed(worker: PosterStage, source: Source, every: int = EVERY) -> None:
    """Offer all keyframes of a source at their times, each once the one before is processed."""
    poster_source = source_for(source, every)
    for packet in source.pictures:
        if packet.key:
            assert worker.idle.wait(_PATIENCE)
            worker.offer(poster_source, packet.data, packet.pts * 90)


def made(source: Source, every: int = EVERY) -> list[Posters]:
    with making() as (worker, reports):
        feed(worker, source, every)
    assert [each for each in reports if isinstance(each, Trouble)] == []
    return [each for each in reports if isinstance(each, Posters)]


def mean(data: bytes) -> float:
    return sum(bytes(_gray(data).planes[0])) / (16 * 16)


def _gray(data: bytes, size: int = 16) -> VideoFrame:
    with av.open(io.BytesIO(data), "r", format="jpeg_pipe") as container:
        frame = next(container.decode(video=0)).reformat(width=size, height=size, format="gray")
    assert frame.planes[0].line_size >= size
    return frame


def flv(path: Path, graph: str, *coding: str) -> Source:
    """Encode a lavfi graph as an FLV with a keyframe each second."""
    encoder = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "25")
    ffmpeg("-filter_complex", graph, *encoder, *coding, "-y", path)
    return source_of(path)


def test_a_stream_that_begins_in_black_is_shown_by_its_first_good_picture(tmp_path: Path) -> None:
    graph = "color=black:s=320x180:r=25:d=4[a];testsrc2=s=320x180:r=25:d=3[b];[a][b]concat"
    (posters,) = made(flv(tmp_path / "a.flv", graph))
    assert not posters.poor
    (poster,) = posters.posters
    assert (poster.label, poster.width, poster.height) == ("240p", 320, 180)
    assert mean(poster.data) > 60


def test_ten_seconds_of_black_are_shown_until_something_better_comes(tmp_path: Path) -> None:
    graph = "color=black:s=320x180:r=25:d=17[a];testsrc2=s=320x180:r=25:d=6[b];[a][b]concat"
    first, second = made(flv(tmp_path / "a.flv", graph))
    assert (first.poor, second.poor) == (True, False)
    assert mean(first.posters[0].data) < 5 < 60 < mean(second.posters[0].data)


def test_a_short_and_dark_run_has_a_poster(tmp_path: Path) -> None:
    (posters,) = made(flv(tmp_path / "a.flv", "color=black:s=320x180:r=25:d=2"))
    assert posters.poor


def test_posters_follow_each_other_in_the_time_that_was_asked_for(tmp_path: Path) -> None:
    source = source_of(moving(tmp_path / "a.flv", seconds=9, gop=30))
    assert len(made(source, every=3 * S)) == 3


def test_a_poster_has_the_size_of_each_rung(tmp_path: Path) -> None:
    source = source_of(moving(tmp_path / "a.flv", seconds=1, gop=30, size=(1280, 720)))
    (posters,) = made(source)
    sizes = [(each.label, each.width, each.height) for each in posters.posters]
    assert sizes == [("720p", 1280, 720), ("480p", 854, 480), ("360p", 640, 360)]
    for each in posters.posters:
        assert picture_size(each.data) == (each.width, each.height)


def test_an_upright_picture_has_upright_posters(tmp_path: Path) -> None:
    source = source_of(moving(tmp_path / "a.flv", seconds=1, gop=30, size=(720, 1280)))
    (posters,) = made(source)
    assert [picture_size(each.data) for each in posters.posters] == [
        (720, 1280),
        (480, 854),
        (360, 640),
    ]


def test_a_rotated_picture_is_upright_in_its_poster(tmp_path: Path) -> None:
    # White above, black below; the mark says that it is to be turned by a quarter.
    graph = "color=black:s=640x360:r=25:d=1,drawbox=c=white:t=fill:w=640:h=180"
    orientation = "h264_metadata=display_orientation=insert:rotate=90"
    source = flv(tmp_path / "a.flv", graph, "-bsf:v", orientation)
    (posters,) = made(source)
    gray = _gray(posters.posters[0].data, 64)
    row = bytes(gray.planes[0])[32 * gray.planes[0].line_size :][:64]
    # Fitted into its landscape box, it has black beside it; what was above is at one side.
    middle = row[22:42]
    assert min(row[0], row[-1]) < 5
    assert {each > 128 for each in middle[:8]} != {each > 128 for each in middle[-8:]}
    assert len({each > 128 for each in middle[:8]}) == 1


@pytest.mark.parametrize(
    ("encoder", "form"),
    [(HEVC, "yuv420p"), (HEVC, "yuv420p10le"), ("libsvtav1", "yuv420p"), ("libvpx-vp9", "yuv420p")],
)
def test_every_codec_has_posters(encoder: str, form: str) -> None:
    posters = made(coded(encoder, seconds=2, form=form, size=(640, 72)), every=S)
    assert posters
    for each in posters:
        assert not each.poor
        assert picture_size(each.posters[0].data) == (640, 72)
        assert 60 < mean(each.posters[0].data) < 200


def test_what_cannot_be_decoded_is_a_trouble_and_the_next_is_tried(tmp_path: Path) -> None:
    source = source_of(moving(tmp_path / "a.flv", seconds=3, gop=30))
    first = source.pictures[0]
    broken = msgspec.structs.replace(first, data=first.data[:40] + bytes(len(first.data) - 40))
    packets = (broken, *source.pictures[1:])
    with making() as (worker, reports):
        feed(worker, msgspec.structs.replace(source, packets=packets))
    assert len([each for each in reports if isinstance(each, Posters)]) == 1


def test_noise_in_place_of_keyframes_ends_nothing(tmp_path: Path) -> None:
    source = source_of(moving(tmp_path / "a.flv", seconds=1, gop=30))
    poster_source = source_for(source)
    data = source.pictures[0].data
    with making() as (worker, reports):
        for count in range(0, 60):
            place = count * len(data) // 60
            assert worker.idle.wait(_PATIENCE)
            worker.offer(poster_source, data[:place] + os.urandom(200), count * S)
            worker.offer(poster_source, os.urandom(count), count * S + S // 2)
        assert worker.idle.wait(_PATIENCE)
        worker.offer(poster_source, data, 1000 * S)
    assert any(isinstance(each, Posters) for each in reports)


# -- in an engine ---------------------------------------------------------------------------------


def with_posters(source: Source, every: int = EVERY) -> list[Poster]:
    order = msgspec.structs.replace(begin(source), poster=every)
    output = run(orders(source, order))
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    return [poster for found in output.of(Posters) for poster in found.posters]


def test_one_copied_rung_has_a_poster_though_nothing_is_decoded(tmp_path: Path) -> None:
    source = source_of(moving(tmp_path / "a.flv", seconds=2, gop=30))
    output = run(orders(source, msgspec.structs.replace(begin(source), poster=EVERY)))
    (prepared,) = output.of(Prepared)
    (posters,) = output.of(Posters)
    assert prepared.reused == posters.posters[0].label == "240p"
    assert len(posters.posters) == 1


def test_keyframes_that_are_no_idr_pictures_do(tmp_path: Path) -> None:
    # The source arrives faster than real time: keyframes that meet a busy worker are skipped.
    graph = "color=black:s=256x144:r=25:d=1[a];testsrc2=s=256x144:r=25:d=20[b];[a][b]concat"
    groups = "open-gop=1:keyint=25:min-keyint=25:scenecut=0"
    source = flv(tmp_path / "a.flv", graph, "-x264-params", groups)
    output = run(orders(source, msgspec.structs.replace(begin(source), poster=EVERY)))
    assert not output.of(Posters)[-1].poor


def test_an_engine_makes_a_poster_of_each_rung_in_hevc_too() -> None:
    posters = with_posters(coded(HEVC, seconds=1, size=(640, 72)))
    assert [(each.label, each.width, each.height) for each in posters] == [("360p", 640, 72)]


def test_the_rhythm_continues_over_another_source(tmp_path: Path) -> None:
    source = source_of(moving(tmp_path / "a.flv", seconds=2, gop=30))
    order = msgspec.structs.replace(begin(source), poster=EVERY)
    again = msgspec.structs.replace(order, epoch=1, discontinuity=True)
    output = run(orders(source, order), orders(source, again))
    assert len(output.of(Posters)) == 1


def test_no_posters_are_made_where_none_are_asked_for(tmp_path: Path) -> None:
    assert with_posters(source_of(moving(tmp_path / "a.flv", seconds=1, gop=30)), every=0) == []
