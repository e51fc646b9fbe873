"""Unusual and broken sources, through a real engine process."""

import itertools
import random
from pathlib import Path

import msgspec
import pytest

from media.hls.segment import EpochStart, Part, SegmentStart
from media.ladder import AUDIO_RENDITION, Ladder, Rendition
from tests.support.engine.decoded_output import frames, loudness, onsets, packets, shape, warnings
from tests.support.engine.engine_process import (
    AAC_FRAME,
    FRAME,
    ORIGIN,
    EngineOutput,
    begin,
    orders,
    run,
)
from tests.support.engine.sources import LOW_360P, Source, ffmpeg, scenes, source_of
from transcode.protocol.messages import Begin, Finish, Packet, Prepared, Spliced, TakenOver

SECOND = 90_000


@pytest.fixture(scope="module")
def encoded(small: Source) -> EngineOutput:
    return run(orders(small, begin(small, reuse=False)))


@pytest.mark.parametrize("reuse", [True, False])
def test_picture_and_sound_stay_together(pulsing: Source, folder: Path, reuse: bool) -> None:
    flashes, beeps = onsets((folder / "pulses.flv").read_bytes())
    output = run(orders(pulsing, begin(pulsing, reuse=reuse)))
    seen, _ = onsets(output.files(output.names[0])[0])
    _, heard = onsets(output.files(AUDIO_RENDITION)[0])
    assert len(seen) == len(heard) == len(flashes) == len(beeps) == 5
    for flash, beep, shown, sounded in zip(flashes, beeps, seen, heard, strict=True):
        assert abs((sounded - shown) - (beep - flash)) < 0.005


def test_without_reuse_all_rungs_are_encoded_on_the_grid(
    encoded: EngineOutput, small: Source
) -> None:
    assert (encoded.status, encoded.troubles, warnings(encoded)) == (0, {}, {})
    (prepared,) = encoded.of(Prepared)
    assert prepared.reused is None
    assert encoded.in_step()
    assert encoded.starts("360p") == [ORIGIN, ORIGIN + 2 * SECOND]
    (file,) = encoded.files("360p")
    assert {(width, height) for _, width, height in frames(file)} == {LOW_360P}
    assert encoded.finished.frames_out["360p"] == len(small.pictures)


@pytest.mark.parametrize(
    ("gop", "expected"),
    [
        pytest.param(1.0, [2.0, 2.0, 2.0], id="every second: every other one"),
        pytest.param(2.5, [2.5, 2.5, 1.0], id="a longer one", marks=pytest.mark.prove),
        pytest.param(4.0, [4.0, 2.0], id="exactly as long as it may be"),
    ],
)
def test_cuts_fall_on_the_sources_keyframes(
    folder: Path, gop: float, expected: list[float]
) -> None:
    source = source_of(scenes(folder / f"gop{gop}.flv", seconds=6, gop=gop))
    output = run(orders(source, begin(source)))
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert output.in_step()
    lengths = [segment.duration for segment in output.segments("360p")]
    assert lengths == pytest.approx([length * SECOND for length in expected], abs=FRAME)
    assert [data for _, _, data in packets(output.files("360p")[0])] == source.published


@pytest.fixture(scope="module")
def taken_over(rare: Source) -> tuple[Source, EngineOutput]:
    return rare, run(orders(rare, begin(rare)))


def test_no_keyframe_in_time_and_the_encoder_takes_over(
    taken_over: tuple[Source, EngineOutput],
) -> None:
    source, output = taken_over
    assert (output.status, output.troubles) == (0, {})
    assert output.in_step()
    top = output.segments("480p")
    assert [segment.init for segment in top] == [0, 1, 1, 1]
    assert not any(segment.discontinuity for segment in top)
    lengths = [segment.duration for segment in top]
    assert lengths == pytest.approx([4 * SECOND, 2 * SECOND, 2 * SECOND, SECOND], abs=2 * FRAME)
    assert [init.number for init in output.inits("480p")] == [0, 1]
    assert len(output.inits("360p")) == 1
    assert output.finished.frames_out["480p"] == len(source.pictures)
    assert output.of(TakenOver) == [TakenOver(epoch=0)]


def test_after_a_takeover_no_frame_is_lost_or_shown_twice(
    taken_over: tuple[Source, EngineOutput],
) -> None:
    source, output = taken_over
    first = source.pictures[0].pts
    wanted = sorted(ORIGIN + 90 * (packet.pts - first) for packet in source.pictures)
    times = [pts for file in output.files("480p") for pts, _, _ in frames(file)]
    assert times == wanted
    stamps = [dts for file in output.files("480p") for dts, _, _ in packets(file)]
    assert all(a < b for a, b in itertools.pairwise(stamps))
    assert warnings(output) == {}


def test_a_lone_rung_is_decoded_only_when_the_encoder_takes_over(
    taken_over: tuple[Source, EngineOutput],
) -> None:
    source, both = taken_over
    order = begin(source)
    assert order.ladder
    alone = msgspec.structs.replace(order, ladder=Ladder(order.ladder.renditions[:1]))
    output = run(orders(source, alone))
    assert (output.status, output.troubles, output.names) == (0, {}, ["480p", AUDIO_RENDITION])
    assert output.in_step()
    assert output.files("480p") == both.files("480p")


def test_a_picture_with_an_absurd_time_is_left_out(small: Source) -> None:
    bad = [
        msgspec.structs.replace(packet, pts=packet.dts + 8_000_000)
        if packet is small.pictures[20]
        else packet
        for packet in small.packets
    ]
    output = run([begin(small), *bad, Finish()])
    assert (output.status, output.troubles) == (0, {"picture with an absurd time": 1})
    assert output.finished.frames_in == len(small.pictures) - 1
    assert output.in_step()


def test_open_groups_are_no_place_to_cut(folder: Path) -> None:
    path = scenes(
        folder / "open.flv", seconds=6, gop=2, extra=("-x264-params", "open-gop=1:keyint=60")
    )
    source = source_of(path)
    output = run(orders(source, begin(source)))
    assert sum(packet.key for packet in source.pictures) > 1, "the container calls them keyframes"
    assert [segment.init for segment in output.segments("360p")] == [0, 1]
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert output.in_step()


def test_a_source_without_sound_gets_silence(folder: Path) -> None:
    source = source_of(scenes(folder / "mute.flv", seconds=4, gop=2, sound=None))
    assert source.audio is None
    output = run(orders(source, begin(source)))
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert output.in_step()
    levels = loudness(output.files(AUDIO_RENDITION)[0])
    assert max(level for _, level in levels) == 0
    assert levels[0][0] == pytest.approx(10, abs=0.001)
    assert len(levels) == pytest.approx(4 * 48_000 / 1024, abs=2)


def test_sound_that_stops_does_not_hold_up_the_picture(small: Source) -> None:
    packets_ = [packet for packet in small.packets if packet.video or packet.dts < 1_000]
    output = run([begin(small), *packets_])
    assert output.status == 0
    assert output.in_step()
    levels = loudness(output.files(AUDIO_RENDITION)[0])
    assert min(level for time, level in levels if 10.1 < time < 10.9) > 0.05
    assert max(level for time, level in levels if time > 11.2) < 0.001
    assert output.troubles == {"sound missing": 1}


def test_a_source_of_sound_alone_is_cut_by_the_clock(small: Source) -> None:
    source = Source(
        video=None,
        audio=small.audio,
        packets=tuple(packet for packet in small.packets if not packet.video),
    )
    output = run(orders(source, begin(source)))
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert output.names == [AUDIO_RENDITION]
    lengths = [segment.duration for segment in output.segments(AUDIO_RENDITION)]
    assert lengths[0] == pytest.approx(2 * SECOND, abs=AAC_FRAME)
    span = source.packets[-1].pts - source.packets[0].pts + 1024 * 1000 // 44_100
    assert 0 <= sum(lengths) - 90 * span <= 2 * AAC_FRAME


def test_what_comes_before_the_first_keyframe_is_left_out(small: Source) -> None:
    places = [index for index, packet in enumerate(small.packets) if packet.video and packet.key]
    late = small.packets[places[0] + 7 :]
    output = run([begin(small), *late, Finish()])
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert output.starts("360p") == [ORIGIN]
    assert output.finished.frames_in == len(small.pictures) // 2
    assert abs(output.starts(AUDIO_RENDITION)[0] - ORIGIN) <= 2
    levels = loudness(output.files(AUDIO_RENDITION)[0])
    assert min(level for _, level in levels[2:-2]) > 0.05, "the sound was there all along"


def test_more_than_60_frames_a_second_are_halved(folder: Path) -> None:
    source = source_of(scenes(folder / "fast.flv", seconds=2, gop=2, rate=120, sound=None))
    output = run(orders(source, begin(source)))
    (prepared,) = output.of(Prepared)
    assert prepared.reused is None
    assert output.finished.frames_out["360p"] == pytest.approx(len(source.pictures) / 2, abs=2)
    assert warnings(output) == {}


# -- sources that are broken ----------------------------------------------------------------------


def broken(source: Source, every: int, data: bytes) -> list[Begin | Packet | Finish]:
    """Replace the bytes of every n-th packet but the first keyframe."""
    bad = [
        msgspec.structs.replace(packet, data=data) if index % every == every - 1 else packet
        for index, packet in enumerate(source.packets)
    ]
    return [begin(source), *bad, Finish()]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 700, id="lengths past the end"),
        pytest.param(b"\0\0\0\x20\x41" + bytes(range(31)), id="a slice of garbage"),
        pytest.param(b"\0\0\0\x05\x65\x88\x84\0\x10", id="an IDR picture of garbage"),
    ],
)
def test_garbage_is_counted_and_kills_nothing(small: Source, data: bytes) -> None:
    output = run(broken(small, 9, data))
    assert (output.status, output.complaints) == (0, "")
    assert output.in_step()
    assert output.troubles or not data
    assert len(output.segments("360p")) == 2


def test_a_decoder_that_gives_nothing_leaves_every_rendition_whole(small: Source) -> None:
    assert small.video
    rungs = (
        Rendition(name="360p", width=480, height=48, rate=800_000, source_size=True),
        Rendition(name="240p", width=320, height=32, rate=400_000),
    )
    first = small.pictures[0].data
    junk = [
        msgspec.structs.replace(packet, data=b"\0\0\0\x10\x65" + bytes(15))
        if packet.key
        else msgspec.structs.replace(packet, data=b"\0\0\0\x10\x41" + bytes(15))
        for packet in small.pictures
    ]
    assert first != junk[0].data
    output = run([begin(small, ladder=Ladder(rungs)), *junk, Finish()])
    assert output.status == 0
    assert output.in_step()
    assert output.names == ["240p", "360p", AUDIO_RENDITION]
    assert output.troubles["picture not decoded"] > 0
    assert len(frames(output.files("240p")[0])) == 2, "one picture stands in for each segment"


def test_a_clock_that_jumps_is_spliced(small: Source) -> None:
    half = small.pictures[len(small.pictures) // 2].dts
    jumped = [
        msgspec.structs.replace(packet, dts=packet.dts + 10**7, pts=packet.pts + 10**7)
        if packet.dts >= half
        else packet
        for packet in small.packets
    ]
    output = run([begin(small), *jumped, Finish()])
    assert output.status == 0
    assert output.troubles["clock jumped"] == 1
    assert output.in_step()
    assert output.finished.end == pytest.approx(ORIGIN + 4 * SECOND, abs=6 * FRAME)


@pytest.mark.parametrize(
    "seed", [0, 2, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (1, 3))]
)
def test_flipped_bits_kill_nothing(small: Source, seed: int) -> None:
    chance = random.Random(seed)
    bad: list[Packet] = []
    for packet in small.packets:
        data = bytearray(packet.data)
        if chance.random() < 0.2:
            for _ in range(1 + len(data) // 500):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        bad.append(msgspec.structs.replace(packet, data=bytes(data)))
    output = run([begin(small, reuse=seed % 2 == 0), *bad, Finish()])
    assert (output.status, output.complaints) == (0, "")
    assert output.in_step()
    assert output.troubles


def test_a_configuration_that_is_none_leaves_every_rendition_whole(small: Source) -> None:
    assert small.video
    order = begin(small)
    bad = msgspec.structs.replace(
        order, video=msgspec.structs.replace(small.video, config=b"\x01\x64\x00")
    )
    output = run(orders(small, bad))
    assert output.status == 0
    assert output.in_step()
    assert output.troubles["decoder configuration not parsed"] == 1
    assert len(output.segments("360p")) == 2


def test_wide_pixels_become_square_ones(folder: Path) -> None:
    path = folder / "wide.flv"
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=s=480x360:r=30:d=1,setsar=4/3", "-c:v", "libx264"),
        *("-preset", "ultrafast", "-f", "flv", "-y", path),
    )
    source = source_of(path)
    rungs = (
        Rendition(name="360p", width=480, height=360, rate=800_000, source_size=True),
        Rendition(name="240p", width=426, height=240, rate=400_000),
    )
    output = run(orders(source, begin(source, ladder=Ladder(rungs))))
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert source.published == [data for _, _, data in packets(output.files("360p")[0])]
    for name in ("360p", "240p"):
        assert shape(output.files(name)[0]) == pytest.approx(16 / 9, rel=0.01)


def test_an_epoch_is_dated_by_the_first_packet_that_viewers_get(small: Source) -> None:
    """Here from the second keyframe on, since the source begins within a GOP."""
    packets = [
        msgspec.structs.replace(packet, came_us=10**15 + 1_000 * packet.dts)
        for packet in small.packets
    ]
    _, keyframe = (packet for packet in packets if packet.video and packet.key)
    pictured = run([begin(small), *packets[40:], Finish()])
    assert pictured.of(EpochStart) == [EpochStart(epoch=0, start=ORIGIN, came_us=keyframe.came_us)]
    kinds = [type(report) for report in pictured.reports]
    assert kinds.index(EpochStart) < min(kinds.index(SegmentStart), kinds.index(Part))

    heard = [packet for packet in packets if not packet.video][3:]
    alone = msgspec.structs.replace(begin(small), video=None, ladder=None)
    sound = run([alone, *heard, Finish()])
    assert sound.of(EpochStart) == [EpochStart(epoch=0, start=ORIGIN, came_us=heard[0].came_us)]


def test_a_source_that_follows_seamlessly_keeps_the_dates(small: Source) -> None:
    packets = [msgspec.structs.replace(packet, came_us=10**15) for packet in small.packets]
    again = [msgspec.structs.replace(packet, came_us=10**15 + 10**10) for packet in packets]
    first = begin(small, reuse=False)
    spliced = msgspec.structs.replace(first, epoch=1, splice=True)
    output = run([first, *packets, spliced, *again, Finish()])
    assert len(output.of(Spliced)) == 1
    assert [start.came_us for start in output.of(EpochStart)] == [10**15]
