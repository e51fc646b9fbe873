"""Sources of every make: groups of pictures, frame rates, shapes and forms of H.264."""

import itertools
from pathlib import Path

import msgspec
import pytest

from media.codecs.avc import AvcConfig
from media.ladder import AUDIO_RENDITION, Ladder, Rendition, ladder_for
from tests.support.engine.decoded_output import frames, packets, warnings
from tests.support.engine.engine_process import (
    FRAME,
    LABELS,
    ORIGIN,
    EngineOutput,
    begin,
    orders,
    run,
)
from tests.support.engine.sources import LOW_360P, Source, moving, scenes, source_of, thinned
from transcode.protocol.messages import Finish, Prepared, TakenOver

SECOND = 90_000
LONGEST = 4 * SECOND


def two_rungs(source: Source) -> Ladder:
    """The source's own size and half of it."""
    assert source.video
    width, height = source.video.width, source.video.height
    rate = 6 * width * height  # 0.2 bits for each pixel of 30 pictures a second
    return Ladder(
        (
            Rendition(name="top", width=width, height=height, rate=rate, source_size=True),
            Rendition(name="half", width=width // 4 * 2, height=height // 4 * 2, rate=rate // 3),
        )
    )


def exact(output: EngineOutput, source: Source) -> bool:
    """Whether every frame comes out of every rung at its time, once, in order and silently."""
    assert (output.status, output.complaints, output.troubles, warnings(output)) == (0, "", {}, {})
    assert output.in_step()
    first = source.pictures[0].pts
    wanted = sorted(ORIGIN + 90 * (packet.pts - first) for packet in source.pictures)
    for name in (name for name in output.names if name != AUDIO_RENDITION):
        assert [pts for file in output.files(name) for pts, _, _ in frames(file)] == wanted, name
        stamps = [dts for file in output.files(name) for dts, _, _ in packets(file)]
        assert all(a < b for a, b in itertools.pairwise(stamps))
        for segment in output.segments(name):
            assert segment.duration <= LONGEST + 2 * FRAME
    return True


@pytest.mark.parametrize(
    ("gop", "bframes", "taken"),
    [
        pytest.param(1, 0, False, id="keyframes only"),
        pytest.param(60, 0, False, id="2 s, no B-frames", marks=pytest.mark.prove),
        pytest.param(60, 3, False, id="2 s"),
        pytest.param(99, 3, False, id="3.3 s", marks=pytest.mark.prove),
        pytest.param(240, 0, True, id="8 s, no B-frames", marks=pytest.mark.prove),
        pytest.param(240, 3, True, id="8 s"),
        pytest.param(9_999, 2, True, id="a single keyframe", marks=pytest.mark.prove),
    ],
)
def test_any_group_of_pictures_goes_through_whole(
    folder: Path, gop: int, bframes: int, taken: bool
) -> None:
    path = moving(folder / f"group{gop}-{bframes}.flv", seconds=9, gop=gop, bframes=bframes)
    source = source_of(path)
    output = run(orders(source, begin(source, ladder=two_rungs(source))))
    assert exact(output, source)
    assert output.of(TakenOver) == ([TakenOver(epoch=0)] if taken else [])
    lengths = [segment.duration for segment in output.segments("half")][:-1]
    assert all(length >= 2 * SECOND - FRAME for length in lengths)


@pytest.mark.parametrize(
    ("rate", "reuse"),
    [
        (24, True),
        (29.97, True),
        (60, False),
        *(
            pytest.param(*each, marks=pytest.mark.prove)
            for each in ((24, False), (25, True), (29.97, False), (50, True))
        ),
    ],
)
def test_any_frame_rate_goes_through_whole(folder: Path, rate: float, reuse: bool) -> None:
    path = folder / f"rate{rate}.flv"
    if not path.exists():
        moving(path, seconds=5, gop=round(2 * rate), rate=rate)
    source = source_of(path)
    output = run(orders(source, begin(source, ladder=two_rungs(source), reuse=reuse)))
    assert exact(output, source)
    lengths = [segment.duration for segment in output.segments("half")][:-1]
    assert lengths == pytest.approx([2 * SECOND] * len(lengths), abs=SECOND / rate)


@pytest.mark.parametrize("reuse", [pytest.param(True, marks=pytest.mark.prove), False])
def test_a_variable_frame_rate_goes_through_whole(folder: Path, reuse: bool) -> None:
    steady = source_of(moving(folder / f"vary{reuse}.flv", seconds=6, gop=1, bframes=0))
    # Of pictures that need no other, any may be missing: a grabber that skips what did not change.
    kept = [n for n in range(len(steady.pictures)) if n == 0 or n % 7 in (1, 2, 5)]
    times = {steady.pictures[n].dts for n in kept}
    source = msgspec.structs.replace(
        steady,
        packets=tuple(each for each in steady.packets if not each.video or each.dts in times),
    )
    output = run(orders(source, begin(source, ladder=two_rungs(source), reuse=reuse)))
    assert exact(output, source)


@pytest.mark.parametrize(
    ("size", "form"),
    [
        pytest.param((72, 640), "yuv420p", id="portrait"),
        pytest.param((606, 70), "yuv420p", id="an odd half", marks=pytest.mark.prove),
        pytest.param((607, 69), "yuv444p", id="odd"),
        pytest.param((107, 959), "yuv444p", id="odd and portrait", marks=pytest.mark.prove),
        pytest.param((640, 72), "yuv422p", id="4:2:2", marks=pytest.mark.prove),
        pytest.param((640, 72), "yuv444p", id="4:4:4", marks=pytest.mark.prove),
        pytest.param((640, 72), "yuv420p10le", id="10 bits"),
        pytest.param((640, 72), "yuvj420p", id="full range"),
    ],
)
def test_any_shape_and_form_goes_through_whole(
    folder: Path, size: tuple[int, int], form: str
) -> None:
    path = folder / f"form{size[0]}{form}.flv"
    source = source_of(moving(path, seconds=3, gop=60, size=size, form=form))
    assert source.video
    assert (source.video.width, source.video.height) == size
    ladder = ladder_for(*size, LABELS | {"240p"})
    output = run(orders(source, begin(source, ladder=ladder)))
    assert exact(output, source)
    (prepared,) = output.of(Prepared)
    plain = form in ("yuv420p", "yuvj420p")
    assert prepared.reused == (ladder.renditions[0].name if plain else None)
    for rung in ladder.renditions:
        for file in output.files(rung.name):
            sizes = {(width, height) for _, width, height in frames(file)}
            assert sizes == {(rung.width, rung.height)}


def test_a_first_group_that_is_torn_leaves_the_second_whole(small: Source) -> None:
    pictures = small.pictures
    torn = {pictures[n].dts for n in (2, 3, 7, 20)}
    source = msgspec.structs.replace(
        small,
        packets=tuple(each for each in small.packets if not each.video or each.dts not in torn),
    )
    output = run(orders(source, begin(source, ladder=two_rungs(source))))
    assert output.status == 0
    assert output.in_step()
    second = output.segments("half")[1]
    frames_shown = [pts for file in output.files("half") for pts, _, _ in frames(file)]
    assert sum(pts >= second.start for pts in frames_shown) == len(pictures) // 2
    assert [data for _, _, data in packets(output.files("top")[0])] == source.published


@pytest.mark.parametrize("reuse", [True, pytest.param(False, marks=pytest.mark.prove)])
def test_a_source_that_begins_between_open_groups_starts_with_one_after_a_while(
    folder: Path, reuse: bool
) -> None:
    path = folder / f"open_groups{reuse}.flv"
    extra = ("-x264-params", "open-gop=1:keyint=30")
    whole = source_of(scenes(path, seconds=9, gop=1, size=(320, 64), extra=extra))
    pictures = whole.pictures
    since = pictures[15].dts + 4_000
    entry = next(n for n, each in enumerate(pictures) if each.key and each.dts >= since)
    after = next(n for n in range(entry + 1, 270) if pictures[n].pts > pictures[entry].pts)
    assert after > entry + 1, "pictures of the group before come between"
    shortened = msgspec.structs.replace(whole, packets=(pictures[entry], *pictures[after:]))
    late = whole.packets[whole.packets.index(pictures[15]) :]
    output = run([begin(whole, ladder=two_rungs(whole), reuse=reuse), *late, Finish()])
    assert exact(output, shortened)
    assert output.of(TakenOver) == ([TakenOver(epoch=0)] if reuse else [])


# -- another size than the rungs' -----------------------------------------------------------------


def test_a_ladder_of_another_size_gets_the_picture_in_bars(small: Source) -> None:
    assert small.video
    ladder = thinned(ladder_for(656, 96, LABELS))
    claimed = Ladder(
        (
            msgspec.structs.replace(ladder.renditions[0], source_size=True),
            *ladder.renditions[1:],
        )
    )
    for each in (ladder, claimed):
        output = run(orders(small, begin(small, ladder=each)))
        assert exact(output, small)
        (prepared,) = output.of(Prepared)
        assert prepared.reused is None
        for rung in each.renditions:
            (file,) = output.files(rung.name)
            sizes = {(width, height) for _, width, height in frames(file)}
            assert sizes == {(rung.width, rung.height)}


def in_band(first: Source, second: Source) -> Source:
    """One source after another without a new configuration: its sets come before its keyframes."""
    assert first.video
    assert second.video
    config = AvcConfig.parse(second.video.config)
    sets = b"".join(len(unit).to_bytes(4, "big") + unit for unit in (*config.sps, *config.pps))
    shift = 4_000
    later = tuple(
        msgspec.structs.replace(
            packet,
            dts=packet.dts + shift,
            pts=packet.pts + shift,
            data=sets + packet.data if packet.video and packet.key else packet.data,
        )
        for packet in second.packets
    )
    early = tuple(packet for packet in first.packets if packet.dts < first.pictures[0].dts + shift)
    return msgspec.structs.replace(first, packets=(*early, *later))


@pytest.fixture(scope="module")
def wider(folder: Path) -> Source:
    """4 s of 854x96 with keyframes every 2 s."""
    return source_of(moving(folder / "wider.flv", seconds=4, gop=60, size=(854, 96)))


@pytest.mark.parametrize("alone", [True, pytest.param(False, marks=pytest.mark.prove)])
def test_a_size_that_changes_within_a_source_is_taken_over(
    small: Source, wider: Source, alone: bool
) -> None:
    source = in_band(small, wider)
    ladder = two_rungs(small)
    ladder = Ladder(ladder.renditions[:1]) if alone else ladder
    output = run(orders(source, begin(source, ladder=ladder)))
    assert exact(output, source)
    assert output.of(TakenOver) == [TakenOver(epoch=0, for_good=True)]
    top = output.segments("top")
    assert not any(segment.discontinuity for segment in top)
    assert [segment.init for segment in top] == [0, 0, 1, 1]
    for name in ("top", "half")[: len(ladder.renditions)]:
        sizes = {frame[1:] for file in output.files(name) for frame in frames(file)}
        assert len(sizes) == 1, "the picture is fitted into the rung it has"


def test_a_size_that_changes_where_all_is_encoded_goes_through(
    small: Source, wider: Source
) -> None:
    source = in_band(small, wider)
    output = run(orders(source, begin(source, ladder=two_rungs(small), reuse=False)))
    assert exact(output, source)
    assert not any(segment.discontinuity for segment in output.segments("top"))


def test_a_first_picture_that_belies_its_configuration_is_not_passed_on(
    small: Source, wider: Source
) -> None:
    assert small.video
    source = in_band(small, wider)
    late = msgspec.structs.replace(source, packets=source.packets[-len(wider.packets) :])
    output = run(orders(late, begin(late, ladder=two_rungs(small))))
    assert exact(output, late)
    assert output.of(TakenOver) == [TakenOver(epoch=0, for_good=True)]
    assert {frame[1:] for frame in frames(output.files("top")[-1])} == {LOW_360P}


def test_the_same_sets_again_and_again_change_nothing(small: Source) -> None:
    source = in_band(small, small)
    output = run(orders(source, begin(source, ladder=two_rungs(small))))
    assert exact(output, source)
    assert output.of(TakenOver) == []
    assert len(output.inits("top")) == 1
