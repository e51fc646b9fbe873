"""A picture that freezes while the sound continues, through a real engine process."""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import frames, onsets, packets, warnings
from tests.support.engine.engine_process import FRAME, ORIGIN, EngineOutput, begin, orders, run
from tests.support.engine.sources import LOW_360P, TONE, Source, ffmpeg, pulses, source_of
from transcode.engine.output.segment_grid import SLACK
from transcode.protocol.messages import EngineOrder, Packet, TakenOver

SECOND = 90_000
LONGEST = 4 * SECOND
HALF = SECOND // 2


@pytest.fixture(scope="module")
def long_pulses(folder: Path) -> Source:
    """16 s of flashes and beeps, a keyframe every 2 s."""
    return source_of(pulses(folder / "long_pulses.flv", seconds=16, size=LOW_360P))


def without(source: Source, low: float, high: float) -> Source:
    """A source that sends no picture from one second to another and goes on with a keyframe."""
    first = source.pictures[0].dts

    def missing(packet: Packet) -> bool:
        return packet.video and low * 1_000 <= packet.dts - first < high * 1_000

    return msgspec.structs.replace(
        source, packets=tuple(packet for packet in source.packets if not missing(packet))
    )


def slow(folder: Path, name: str, seconds: float, *, coded: Iterable[str] = ()) -> Source:
    """Slides with a number, each shown for so many seconds, with sound all along."""
    path = folder / f"{name}.flv"
    slides = f"testsrc=s={LOW_360P[0]}x{LOW_360P[1]}:r={1 / seconds}:d=21"
    ffmpeg(
        *("-f", "lavfi", "-i", slides, "-f", "lavfi", "-i", TONE),
        *("-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", *coded),
        *("-c:a", "aac", "-t", "21", "-max_interleave_delta", "0", "-f", "flv", "-y", path),
    )
    return source_of(path)


def bounded(output: EngineOutput, *, longest: int = LONGEST + FRAME) -> bool:
    """Whether no segment is too long, all renditions are whole, and times rise."""
    assert (output.status, output.complaints) == (0, "")
    for name in output.names:
        segments = output.segments(name)
        assert [each.sequence for each in segments] == list(range(len(segments)))
        most = longest + (HALF if name == AUDIO_RENDITION else 0)
        assert max(each.duration for each in segments) <= most, name
        for one, other in itertools.pairwise(segments):
            assert one.start + one.duration == other.start
        stamps = [dts for file in output.files(name) for dts, _, _ in packets(file)]
        assert all(a < b for a, b in itertools.pairwise(stamps))
    pictures = [output.starts(name) for name in output.names if name != AUDIO_RENDITION]
    assert all(starts == pictures[0] for starts in pictures)
    for picture, sound in zip(pictures[0], output.starts(AUDIO_RENDITION), strict=True):
        assert abs(picture - sound) <= HALF
    assert warnings(output) == {}
    return True


@pytest.mark.parametrize("reuse", [pytest.param(True, marks=pytest.mark.prove), False])
def test_a_picture_that_freezes_for_five_seconds_continues_in_step(
    long_pulses: Source, reuse: bool
) -> None:
    output = run(orders(without(long_pulses, 5.0, 10.0), begin(long_pulses, reuse=reuse)))
    assert bounded(output)
    assert output.of(TakenOver) == ([TakenOver(epoch=0)] if reuse else [])
    top = output.segments("360p")
    cut = [(one.start, two.start) for one, two in itertools.pairwise(top) if two.discontinuity]
    assert [two - one for one, two in cut] == ([LONGEST] if reuse else [])
    flashes = [time for file in output.files("360p") for time in onsets(file)[0]]
    beeps = onsets(output.files(AUDIO_RENDITION)[0])[1]
    assert len(beeps) == 16
    # No flash during the freeze, and after it each flash with its beep.
    pairs = [(flash, beep) for flash in flashes for beep in beeps if abs(flash - beep) < 0.3]
    assert len(pairs) == len(flashes) == 11
    assert all(abs(flash - beep) < 0.045 for flash, beep in pairs)


def test_the_frozen_picture_is_given_out_while_it_is_frozen(long_pulses: Source) -> None:
    source = without(long_pulses, 5.0, 99.0)
    output = run([begin(source), *source.packets])
    assert bounded(output)
    whole = [segment for segment in output.segments("360p") if segment.start >= ORIGIN + 8 * SECOND]
    frames_shown = [pts for file in output.files("360p") for pts, _, _ in frames(file)]
    steps = [b - a for a, b in itertools.pairwise(frames_shown) if a >= ORIGIN + 8 * SECOND]
    assert len(whole) >= 3
    assert max(steps) == SECOND // 10
    assert min(steps) >= SECOND // 10 - SLACK
    end = output.segments("360p")[-1].start + output.segments("360p")[-1].duration
    assert end >= ORIGIN + 14.5 * SECOND


def test_a_freeze_shorter_than_a_segment_changes_nothing(long_pulses: Source) -> None:
    source = without(long_pulses, 4.9, 5.9)
    output = run(orders(source, begin(source)))
    assert bounded(output)
    assert (output.troubles, output.of(TakenOver)) == ({}, [])
    assert output.finished.frames_out["360p"] == len(source.pictures)


@pytest.mark.parametrize("reuse", [True, pytest.param(False, marks=pytest.mark.prove)])
def test_sound_that_stops_and_comes_back_keeps_its_place(long_pulses: Source, reuse: bool) -> None:
    first = long_pulses.pictures[0].dts
    source = msgspec.structs.replace(
        long_pulses,
        packets=tuple(
            packet
            for packet in long_pulses.packets
            if packet.video or not 5_000 <= packet.dts - first < 10_000
        ),
    )
    output = run(orders(source, begin(source, reuse=reuse)))
    assert bounded(output)
    assert output.of(TakenOver) == []
    flashes, beeps = onsets(output.files("360p")[0])[0], onsets(output.files(AUDIO_RENDITION)[0])[1]
    assert len(flashes) == 16
    assert len(beeps) == 11
    for beep in beeps:
        assert min(abs(flash - beep) for flash in flashes) < 0.045


@pytest.mark.parametrize(
    ("seconds", "coded"),
    [
        pytest.param(5, ("-g", "1"), id="a keyframe every 5 s", marks=pytest.mark.prove),
        pytest.param(5, ("-tune", "zerolatency"), id="one keyframe"),
        pytest.param(
            1.2,
            ("-bf", "2", "-b_strategy", "0"),
            id="reordered by seconds",
            marks=pytest.mark.prove,
        ),
        pytest.param(1.7, ("-tune", "zerolatency"), id="0.6 a second"),
    ],
)
@pytest.mark.parametrize("reuse", [True, pytest.param(False, marks=pytest.mark.prove)])
def test_slides_with_sound_make_segments_as_usual(
    folder: Path, seconds: float, coded: tuple[str, ...], reuse: bool
) -> None:
    source = slow(folder, f"slides{seconds}{coded[0]}", seconds, coded=coded)
    output = run(orders(source, begin(source, reuse=reuse)))
    assert bounded(output)
    frames_shown = [pts for file in output.files("360p") for pts, _, _ in frames(file)]
    first = source.pictures[0].pts
    for packet in source.pictures[:-1]:
        assert ORIGIN + 90 * (packet.pts - first) in frames_shown, "each slide comes at its time"
    assert len(output.segments("360p")) >= 5


def test_slides_without_sound_are_cut_when_the_next_one_comes(folder: Path) -> None:
    source = slow(folder, "mute_slides", 5, coded=("-tune", "zerolatency"))
    mute = msgspec.structs.replace(source, audio=None, packets=tuple(source.pictures))
    output = run(orders(mute, begin(mute)))
    assert bounded(output)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("late", [pytest.param(300, marks=pytest.mark.prove), 2_000])
def test_pictures_that_are_sent_later_than_their_sound_are_all_shown(
    long_pulses: Source, late: int, reuse: bool
) -> None:
    def sent(packet: Packet) -> int:
        return packet.dts + (late if packet.video else 0)

    source = msgspec.structs.replace(
        long_pulses, packets=tuple(sorted(long_pulses.packets, key=sent))
    )
    output = run(orders(source, begin(source, reuse=reuse)))
    assert (output.status, output.troubles, output.of(TakenOver)) == (0, {}, [])
    assert output.in_step()
    assert output.finished.frames_out["360p"] == len(source.pictures)
    flashes, beeps = onsets(output.files("360p")[0])[0], onsets(output.files(AUDIO_RENDITION)[0])[1]
    assert len(flashes) == 16
    for beep in beeps[late // 1_000 :]:
        assert min(abs(flash - beep) for flash in flashes) < 0.045


def stamped(change: Callable[[int, Packet], int], source: Source) -> list[Packet]:
    return [
        msgspec.structs.replace(packet, dts=packet.dts + by, pts=packet.pts + by)
        for index, packet in enumerate(source.packets)
        for by in [change(index, packet)]
    ]


def test_a_single_absurd_time_of_the_sound_does_not_stop_the_picture(small: Source) -> None:
    bad = next(index for index, packet in enumerate(small.packets) if packet.dts > 900)
    while small.packets[bad].video:
        bad += 1
    changed = stamped(lambda place, _: 12_000 if place == bad else 0, small)
    all_orders: list[EngineOrder] = [begin(small), *changed]
    output = run(all_orders)
    assert output.of(TakenOver) == []
    assert output.finished.frames_out["360p"] == len(small.pictures)
    assert output.in_step()


def test_a_freeze_of_half_a_minute_does_not_part_picture_and_sound(folder: Path) -> None:
    source = source_of(pulses(folder / "minute.flv", seconds=32))
    frozen = without(source, 2.0, 28.0)
    output = run(orders(frozen, begin(frozen)))
    assert bounded(output)
    assert "clock jumped" not in output.troubles
    flashes = [time for file in output.files(output.names[0]) for time in onsets(file)[0]]
    beeps = onsets(output.files(AUDIO_RENDITION)[0])[1]
    late = [flash for flash in flashes if flash > 35]
    assert len(late) == 4
    assert all(min(abs(flash - beep) for beep in beeps) < 0.045 for flash in late)
