"""What viewers see while no encoder is on air, through a real engine process and real encoders."""

import io
import itertools
from fractions import Fraction
from pathlib import Path

import av
import msgspec
import pytest
from av.video.frame import VideoFrame

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION, Ladder, ladder_for
from tests.support.engine.decoded_output import frames, loudness, packets, shape, warnings
from tests.support.engine.engine_process import (
    AAC_FRAME,
    FRAME,
    LABELS,
    ORIGIN,
    EngineOutput,
    begin,
    run,
)
from tests.support.engine.sources import Source, ffmpeg, moving, source_of
from tests.support.engine.splices import LADDER, SIZE, ladder_of, since, up_to
from tests.support.hls.mp4_boxes import read_fragments, read_init
from transcode.engine.live.slate import Colours, draw_card, fit_picture
from transcode.protocol.messages import (
    Begin,
    EngineOrder,
    ExtendSlate,
    Finish,
    Prepared,
    Progress,
    ShowSlate,
    Spliced,
    TakenOver,
)

SECOND = 90_000
STEP = SECOND // 10


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    """6 s of 320x80 with a keyframe every second and two B-frames between others."""
    return source_of(moving(folder / "slate.flv", seconds=6, gop=30, size=SIZE))


def jpeg(folder: Path, colour: str, size: str) -> bytes:
    path = folder / f"{colour}-{size}.jpg"
    picture = f"color={colour}:s={size},format=yuvj420p"
    ffmpeg("-f", "lavfi", "-i", picture, "-frames:v", "1", "-q:v", "2", "-y", path)
    return path.read_bytes()


def shown_for(seconds: float, picture: bytes | None = None, step: float = 0.2) -> list[EngineOrder]:
    """The orders of a slate that is on for some time."""
    steps = [round(number * step * SECOND) for number in range(1, round(seconds / step) + 1)]
    return [ShowSlate(picture=picture), *(ExtendSlate(elapsed=elapsed) for elapsed in steps)]


def again(source: Source, *, reuse: bool = True) -> list[EngineOrder]:
    order = begin(source, ladder=ladder_of(source), epoch=1, reuse=reuse)
    return [msgspec.structs.replace(order, splice=True), *source.packets, Finish()]


def gone(source: Source, *, reuse: bool = True) -> list[EngineOrder]:
    """The orders that come before a slate."""
    return [begin(source, ladder=ladder_of(source), reuse=reuse), *source.packets]


def nothing(ladder: Ladder | None = LADDER) -> Begin:
    return Begin(
        epoch=0,
        video=None,
        audio=None,
        ladder=ladder,
        start=ORIGIN,
        sequence=0,
        inits={},
        discontinuity=False,
    )


def decoded(data: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Time and Y, Cb, Cr of each picture, beside what the card draws in the middle."""
    pictures: list[tuple[int, tuple[int, ...]]] = []
    with av.open(io.BytesIO(data), "r") as container:
        for frame in container.decode(video=0):
            assert frame.pts is not None
            pictures.append((frame.pts, _pixel(frame)))
    return pictures


def _pixel(frame: VideoFrame, across: Fraction = Fraction(1, 4)) -> tuple[int, ...]:
    levels: list[int] = []
    for plane in frame.planes:
        offset = plane.height // 2 * plane.line_size + int(plane.width * across)
        levels.append(bytes(plane)[offset])
    return tuple(levels)


def is_card(levels: tuple[int, ...]) -> bool:
    luma, blue, red = levels
    return luma < 45 and 128 <= blue <= 140 and 120 <= red <= 128


def is_red(levels: tuple[int, ...]) -> bool:
    luma, blue, red = levels
    # Red of BT.601 and of BT.709 in limited range, give or take.
    return 55 <= luma <= 90 and 85 <= blue <= 110 and red > 225


def is_sound(output: EngineOutput) -> bool:
    """Whether decoders do not complain, renditions are in step, and sound has no hole."""
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert warnings(output) == {}
    assert output.in_step()
    times = [pts for file in output.files(AUDIO_RENDITION) for _, pts, _ in packets(file)]
    epochs = len(output.of(Prepared))
    holes = [
        after - before for before, after in itertools.pairwise(times) if after - before != 1024
    ]
    assert len(holes) < epochs
    return True


# -- after a source that lent its packets ----------------------------------------------------------


@pytest.fixture(scope="module")
def lent(source: Source) -> EngineOutput:
    return run([*gone(up_to(source, 3_400)), *shown_for(7), *again(since(source, 2_500))])


def test_the_slate_begins_and_ends_with_a_seam_where_the_source_lent_its_packets(
    lent: EngineOutput,
) -> None:
    assert is_sound(lent)
    assert [each.reused for each in lent.of(Prepared)] == ["240p", "240p"]
    assert lent.of(TakenOver) == [], "no keyframe is missing: nobody need be told"
    for name in lent.names:
        marks = [each.discontinuity for each in lent.segments(name)]
        assert marks == [False, False, True, False, False, False, True, False]
        assert [each.epoch for each in lent.segments(name)] == [0] * 6 + [1] * 2


def test_the_last_picture_is_shown_for_two_seconds_and_then_the_card(
    lent: EngineOutput, source: Source
) -> None:
    taken = up_to(source, 3_400).pictures
    end = ORIGIN + 90 * (max(each.pts for each in taken) - taken[0].pts) + FRAME
    for name in ("240p", "144p"):
        pictures = [each for file in lent.files(name) for each in decoded(file)]
        slate = [(at - end, levels) for at, levels in pictures if end <= at < end + 7 * SECOND]
        # Within a millisecond, of which the source's times are whole numbers.
        assert not any(is_card(levels) for at, levels in slate if at < 2 * SECOND - 90)
        assert all(is_card(levels) for at, levels in slate if at >= 2 * SECOND + FRAME)
        steps = [after - before for (before, _), (after, _) in itertools.pairwise(slate)]
        assert max(steps) <= STEP
        assert not any(is_card(levels) for at, levels in pictures if at >= end + 7 * SECOND + STEP)


def test_the_slate_lasts_as_long_as_ordered(lent: EngineOutput) -> None:
    for name in lent.names:
        segments = lent.segments(name)
        lasted = segments[6].start - segments[2].start
        # The last of its pictures is as long as the others.
        assert lasted == pytest.approx(7 * SECOND, abs=STEP + AAC_FRAME)
        for before, after in itertools.pairwise(segments):
            assert abs(before.start + before.duration - after.start) <= AAC_FRAME
        assert max(each.duration for each in segments) <= 2.5 * SECOND


def test_a_slates_segments_last_as_long_as_their_pictures(lent: EngineOutput) -> None:
    """No picture lasts for a tick only, in what comes before and after the slate neither."""
    for name in ("240p", "144p"):
        for segment, following in itertools.pairwise(lent.segments(name)):
            (init,) = (each for each in lent.inits(name) if each.number == segment.init)
            fragments = read_fragments(lent.data(segment), read_init(init.data))
            if 2 <= segment.sequence <= 5:
                assert sum(each.duration for each in fragments) == segment.duration
                assert (
                    segment.start + segment.duration == following.start or following.discontinuity
                )
                assert fragments[0].shown == fragments[0].start == segment.start
        for file in lent.files(name):
            times = [dts for dts, _, _ in packets(file)]
            steps = [after - before for before, after in itertools.pairwise(times)]
            assert min(steps) >= FRAME // 3 - 90


def test_the_slate_is_silent_and_the_source_is_not(lent: EngineOutput) -> None:
    segments = lent.segments(AUDIO_RENDITION)
    levels = [each for file in lent.files(AUDIO_RENDITION) for each in loudness(file)]
    start, end = segments[2].start / SECOND, segments[6].start / SECOND
    assert max(level for at, level in levels if start + 0.1 < at < end - 0.1) < 0.001
    assert max(level for at, level in levels if at < start - 0.1) > 0.05
    assert max(level for at, level in levels if at > end + 0.1) > 0.05


# -- where all rungs were encoded ------------------------------------------------------------------


def test_there_is_no_seam_where_all_rungs_were_encoded(source: Source) -> None:
    output = run(
        [
            *gone(up_to(source, 3_400), reuse=False),
            *shown_for(5),
            *again(since(source, 2_500), reuse=False),
        ]
    )
    assert is_sound(output)
    assert len(output.of(Prepared)) == 1
    assert output.of(Spliced) == [Spliced(epoch=1, reused=None)]
    assert not any(segment.discontinuity for segment in output.of(Segment))
    assert all(len(output.inits(name)) == 1 for name in output.names)
    for name in ("240p", "144p"):
        (file,) = output.files(name)
        times = [pts for pts, _, _ in frames(file)]
        steps = [after - before for before, after in itertools.pairwise(times)]
        assert all(0 < step <= STEP + 90 for step in steps)
    lengths = [each.duration for each in output.segments("240p")[:-1]]
    assert all(abs(length - 2 * SECOND) <= STEP for length in lengths)


def test_the_slate_comes_and_goes_repeatedly(source: Source) -> None:
    orders: list[EngineOrder] = gone(up_to(source, 1_500), reuse=False)
    for number in range(1, 5):
        orders += shown_for(0.6 * number)
        piece = since(up_to(source, 2_200), 1_000, 1_000_000 * number)
        order = begin(piece, ladder=LADDER, epoch=number, reuse=False)
        orders += [msgspec.structs.replace(order, splice=True), *piece.packets]
    output = run([*orders, Finish()])
    assert is_sound(output)
    assert [each.epoch for each in output.of(Spliced)] == [1, 2, 3, 4]
    assert {segment.epoch for segment in output.of(Segment)} == {0}


# -- pictures --------------------------------------------------------------------------------------


def test_an_owners_picture_is_fitted_into_every_rung(folder: Path) -> None:
    output = run([nothing(), *shown_for(3, jpeg(folder, "red", "600x600")), Finish()])
    assert is_sound(output)
    for name in ("240p", "144p"):
        (file,) = output.files(name)
        assert shape(file) == pytest.approx(SIZE[0] / SIZE[1], abs=0.1)
        with av.open(io.BytesIO(file), "r") as container:
            *_, frame = container.decode(video=0)
        assert is_red(_pixel(frame, Fraction(1, 2)))
        assert _pixel(frame, Fraction(1, 20))[0] <= 17, "black bars beside a square picture"


@pytest.mark.parametrize("colours", ["bt709", "smpte170m"])
def test_a_picture_has_its_own_colours_whatever_the_source_had(folder: Path, colours: str) -> None:
    path = folder / f"slate-{colours}.flv"
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=s=1280x720:r=30:d=1,format=yuv420p"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-colorspace", colours),
        *("-color_primaries", colours, "-color_trc", colours, "-f", "flv", "-y", path),
    )
    source = source_of(path)
    ladder = ladder_for(1280, 720, frozenset({"360p"}))
    order = begin(source, ladder=ladder, reuse=False)
    output = run([order, *source.packets, *shown_for(4, jpeg(folder, "red", "1280x720")), Finish()])
    assert output.status == 0
    with av.open(io.BytesIO(output.files(output.names[0])[0]), "r") as container:
        *_, frame = container.decode(video=0)
    matrix, red = {"bt709": (1, (63, 102, 240)), "smpte170m": (6, (81, 90, 240))}[colours]
    assert int(frame.colorspace) == matrix
    pairs = zip(_pixel(frame), red, strict=True)
    assert all(abs(level - wanted) <= 3 for level, wanted in pairs)


def test_what_is_no_picture_is_a_card_and_a_trouble() -> None:
    output = run([nothing(), *shown_for(1, b"\xff\xd8\xff no picture"), Finish()])
    assert (output.status, output.troubles) == (0, {"slate not decoded": 1})
    assert all(is_card(levels) for _, levels in decoded(output.files("240p")[0]))


@pytest.mark.parametrize("size", [(1920, 1080), (640, 360), (360, 640), (64, 36), (16, 16), (2, 2)])
def test_a_card_has_any_size(size: tuple[int, int]) -> None:
    frame = draw_card(size, Colours())
    assert (frame.width, frame.height) == size
    assert int(frame.colorspace) == 1


@pytest.mark.parametrize("size", [(1920, 1080), (426, 240), (360, 640)])
def test_a_card_has_words_in_its_middle_and_no_sign(size: tuple[int, int]) -> None:
    """Letters and gaps take turns from left to right; the two bars of a pause did so twice."""
    width, height = size
    luma = draw_card(size, Colours()).planes[0]
    pixels = bytes(luma)
    rows = [pixels[row * luma.line_size :][:width] for row in range(height)]
    bright = [number for number, row in enumerate(rows) if max(row) > 150]
    assert abs(bright[0] + bright[-1] - height) < 0.05 * height
    letters = [max(column) > 150 for column in zip(*rows, strict=True)]
    first, last = letters.index(True), width - letters[::-1].index(True)
    assert 0.4 * width < last - first < 0.5 * width, "within the middle half"
    begins = sum(now and not before for before, now in itertools.pairwise(letters))
    assert begins >= 8, "B a c k s o o n"


def test_a_picture_with_its_bars_fills_the_rung() -> None:
    wide = fit_picture(draw_card((640, 360), Colours()), (360, 640), Colours())
    assert (wide.width, wide.height, wide.format.name) == (360, 640, "yuv420p")


# -- where there is no source ----------------------------------------------------------------------


def test_a_slate_can_be_first(source: Source) -> None:
    output = run([begin(source, ladder=LADDER), *shown_for(3), *again(since(source, 0))])
    assert is_sound(output)
    assert all(is_card(levels) for _, levels in decoded(output.files("240p")[0]))
    marks = [each.discontinuity for each in output.segments("240p")]
    assert marks[:3] == [False, False, True]
    assert output.segments("240p")[0].start == ORIGIN


def test_a_copied_rung_switches_at_once_to_the_last_picture(source: Source) -> None:
    """Nothing was decoded, but the packets since the last keyframe were kept."""
    ladder = ladder_for(*SIZE, LABELS)
    order = begin(up_to(source, 2_700), ladder=ladder)
    output = run([order, *up_to(source, 2_700).packets, *shown_for(3), Finish()])
    assert is_sound(output)
    assert output.names == ["240p", AUDIO_RENDITION]
    slate = decoded(output.files("240p")[-1])
    assert not is_card(slate[0][1])
    assert is_card(slate[-1][1])


def test_a_run_of_sound_alone_gets_silence(source: Source) -> None:
    shortened = tuple(packet for packet in source.packets if not packet.video)
    alone = msgspec.structs.replace(source, video=None, packets=shortened)
    output = run([*gone(up_to(alone, 2_500)), *shown_for(3), *again(up_to(alone, 2_500))])
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    (file,) = output.files(AUDIO_RENDITION)
    times = [pts for _, pts, _ in packets(file)]
    assert {after - before for before, after in itertools.pairwise(times)} == {1024}
    assert len(times) * 1024 / 48_000 == pytest.approx(8.0, abs=0.15)
    assert not any(segment.discontinuity for segment in output.of(Segment))


def test_a_slate_that_is_over_at_once_leaves_nothing(source: Source) -> None:
    output = run([*gone(up_to(source, 2_700)), ShowSlate(), *again(since(source, 1_500))])
    assert output.status == 0
    assert warnings(output) == {}
    assert output.in_step()


def test_a_burst_is_cut_like_any_other_slate(source: Source) -> None:
    """A slate extended by a long time at once is still cut into segments."""
    output = run(
        [*gone(up_to(source, 2_700)), ShowSlate(), ExtendSlate(elapsed=9 * SECOND), Finish()]
    )
    assert is_sound(output)
    lengths = [round(each.duration / SECOND, 1) for each in output.segments("144p")]
    assert lengths == [2.0, 0.7, 2.0, 2.0, 2.0, 2.0, 1.1]
    assert [each.frames for each in output.segments("144p")[2:6]] == [20, 20, 20, 20]


def test_orders_out_of_their_order_do_no_harm(source: Source) -> None:
    stray = up_to(source, 1_000).packets
    output = run(
        [
            *(ShowSlate(), ExtendSlate(elapsed=SECOND)),
            *gone(up_to(source, 1_500)),
            ExtendSlate(elapsed=SECOND),
            *(
                ShowSlate(),
                ShowSlate(picture=b"x"),
                ExtendSlate(elapsed=SECOND),
                ExtendSlate(elapsed=0),
            ),
            *stray,
            ExtendSlate(elapsed=2 * SECOND),
            Finish(),
            ExtendSlate(elapsed=3 * SECOND),
        ]
    )
    assert is_sound(output)
    assert sum(each.duration for each in output.segments("240p")) / SECOND == pytest.approx(
        3.5, abs=0.15
    )


@pytest.mark.prove
def test_a_long_slate_needs_no_more_memory_than_a_short_one() -> None:
    """Ten minutes at a small size, in one rung, are enough to show a growth of memory."""
    ladder = ladder_for(16, 16, frozenset())
    output = run([nothing(ladder), *shown_for(600, step=1.0), Finish()])
    assert (output.status, output.troubles) == (0, {})
    assert len(output.segments(AUDIO_RENDITION)) in (300, 301)
    memory = [report.memory_bytes for report in output.of(Progress)]
    assert len(memory) >= 2
    assert memory[-1] - memory[0] < 20 << 20
