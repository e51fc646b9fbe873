import tracemalloc

import msgspec
import pytest

from ingest.stream.gop_buffer import BUFFER_BYTES, GopBuffer
from media.loop_lag import LoopLag
from media.packet import PACKET_OVERHEAD, MediaPacket
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
SECONDS = 2.0


def picture(at: float, *, key: bool, size: int = 10) -> MediaPacket:
    return MediaPacket(
        track=VIDEO, dts=round(at * 1000), pts=round(at * 1000), key=key, data=bytes(size)
    )


def sound(at: float) -> MediaPacket:
    return MediaPacket(
        track=AUDIO, dts=round(at * 1000), pts=round(at * 1000), key=True, data=bytes(5)
    )


def begun(*tracks: VideoTrack | AudioTrack) -> GopBuffer:
    ring = GopBuffer(SECONDS)
    ring.begin(tracks or (VIDEO, AUDIO))
    return ring


def fill(ring: GopBuffer, seconds: float, *, every: float = 2.0, start: float = 100.0) -> float:
    """Append ten pictures a second, an audio packet after each, and a keyframe every `every` s."""
    count = round(seconds * 10)
    for number in range(count):
        now = start + number / 10
        ring.append(picture(now, key=number % round(every * 10) == 0), now)
        ring.append(sound(now + 0.05), now + 0.05)
    return start + (count - 1) / 10


def test_it_begins_with_a_keyframe_and_sound_is_none() -> None:
    ring = begun()
    assert not ring.append(sound(100), 100.0)
    assert not ring.append(picture(100, key=False), 100.0)
    assert not ring.has_keyframe
    assert ring.append(picture(100.1, key=True), 100.1)
    assert not ring.append(sound(100.1), 100.1)
    _, since, _, packets, *_ = ring.enter_near(0.0)
    assert since == 100.1
    assert [packet.track for packet in packets] == [VIDEO, AUDIO]


def test_reading_begins_at_the_keyframe_nearest_to_a_time() -> None:
    ring = begun()
    fill(ring, 5.0)
    for moment, expected in ((0.0, 100.0), (100.9, 100.0), (101.1, 102.0), (102.9, 102.0),
                             (103.1, 104.0), (999.0, 104.0)):  # fmt: skip
        _, since, _, packets, *_ = ring.enter_near(moment)
        assert since == expected
        assert packets[0].key
        assert packets[0].dts == round(expected * 1000)
        # All packets, in their order of arrival.
        assert [packet.dts for packet in packets] == sorted(packet.dts for packet in packets)
        assert len(packets) == 2 * round((105.0 - expected) * 10)


@pytest.mark.parametrize("every", [0.5, 1.0, 2.0, 4.0])
def test_it_reaches_back_for_its_seconds_and_no_more_than_two_groups_further(every: float) -> None:
    ring = begun()
    for seconds in (3, 7, 11, 30, 31, 33):
        ring = begun()
        now = fill(ring, seconds, every=every)
        since = ring.enter_near(0.0).due
        assert since <= max(100.0, now - SECONDS)
        assert since >= now - SECONDS - 1.0 - 2 * every


def test_it_is_bounded_in_bytes_too() -> None:
    ring = begun()
    for number in range(8):
        size = BUFFER_BYTES // 4 - PACKET_OVERHEAD
        ring.append(picture(100 + number / 10, key=True, size=size), 100 + number / 10)
        assert ring.size_bytes <= BUFFER_BYTES
    _, since, _, packets, *_ = ring.enter_near(0.0)
    assert len(packets) == 4
    assert since == pytest.approx(100.4)


def test_tiny_packets_count_with_their_size_in_memory() -> None:
    ring = begun()
    tracemalloc.start()
    try:
        for number in range(110_000):  # a keyframe in a hundred, all within a second
            key = number % 100 == 0
            packet = MediaPacket(track=VIDEO, dts=number + 1000, pts=number, key=key, data=b"xy"[:])
            ring.append(packet, 100.0 + number / 110_000)
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert allocated <= ring.size_bytes <= BUFFER_BYTES
    assert ring.size_bytes > BUFFER_BYTES - 200 * PACKET_OVERHEAD


def test_a_group_that_is_too_large_is_dropped_up_to_the_next_keyframe() -> None:
    ring = begun()
    assert not ring.append(picture(100, key=True, size=BUFFER_BYTES + 1), 100.0)
    assert not ring.has_keyframe
    assert ring.size_bytes == 0
    ring.append(picture(100.1, key=False), 100.1)
    assert not ring.has_keyframe
    assert ring.append(picture(100.2, key=True), 100.2)


def test_a_new_source_drops_the_packets_of_other_tracks() -> None:
    ring = begun()
    fill(ring, 3.0)
    ring.begin((AUDIO,))
    assert ring.tracks == (AUDIO,)
    assert (ring.has_keyframe, ring.size_bytes, ring.has_picture) == (False, 0, False)


def test_packets_from_before_a_stall_are_dropped() -> None:
    ring = begun()
    now = fill(ring, 3.0)
    ring.append(picture(now, key=False), now + SECONDS + 1)
    assert not ring.has_keyframe
    assert ring.append(picture(now, key=True), now + SECONDS + 1.1)


def test_sound_alone_can_be_cut_anywhere() -> None:
    ring = begun(AUDIO)
    for number in range(300):
        now = 100 + number / 50
        ring.append(sound(now), now)
    now = 100 + 299 / 50
    for back in (0.2, 1.0, 2.0):
        _, since, _, packets, *_ = ring.enter_near(now - back)
        assert abs(since - (now - back)) <= 0.5
        assert packets[0].dts == round(since * 1000)
    assert ring.enter_near(0.0).due >= now - SECONDS - 1.5


def test_an_empty_buffer_returns_nothing() -> None:
    with pytest.raises(LookupError):
        begun().enter_near(1.0)


def test_a_changed_duration_applies_to_later_packets() -> None:
    ring = begun()
    ring.set_duration(10.0)
    last = fill(ring, 20.0)
    since = ring.enter_near(0.0).due
    assert 10.0 <= last - since <= 14.0
    ring.set_duration(SECONDS)
    last = fill(ring, 3.0, start=last + 0.1)
    since = ring.enter_near(0.0).due
    assert last - since <= 6.5


def test_delayed_packets_are_kept_by_their_due_time() -> None:
    ring = begun()
    for number in range(4):
        ring.append(picture(number, key=True), 10.0 + number, 10.0 + number)
    ring.append(picture(4, key=True), 14.8, 14.0)
    assert ring.newest_due == 14.0
    _, due, came, packets, *_ = ring.enter_near(14.4)
    assert (due, len(packets), came) == (14.0, 1, 14.8)
    assert ring.next_keyframe_due == 15.0


def test_the_next_keyframes_due_time_is_known_without_buffered_packets() -> None:
    ring = begun()
    for number in range(3):
        ring.observe([picture(2.0 * number, key=True)], 10.0 + 2 * number, [10.0 + 2 * number])
        ring.observe([picture(2.0 * number + 1, key=False)], 11.0 + 2 * number, [11.0 + 2 * number])
    assert (ring.has_keyframe, ring.next_keyframe_due) == (False, 16.0)
    ring.append(picture(6.0, key=True), 16.0)
    ring.clear()
    assert ring.next_keyframe_due == 18.0
    ring.append(picture(10.0, key=True), 20.0)  # after a stall it is unknown
    assert ring.next_keyframe_due is None


def test_a_lag_of_the_loop_is_no_stall() -> None:
    lag = LoopLag()
    lag.beat(100.0)
    ring = GopBuffer(SECONDS, lag)
    ring.begin((VIDEO, AUDIO))
    ring.append(picture(100, key=True), 100.0)
    ring.append(picture(102, key=True), 100.1)
    lag.beat(103.0)
    ring.append(picture(103, key=False), 103.0)
    assert ring.has_keyframe
    assert ring.next_keyframe_due == pytest.approx(100.2)
    for turn in range(1, 21):
        lag.beat(103 + turn / 10)
    # A stall of the source itself counts.
    ring.append(picture(105, key=False), 105.0)
    assert not ring.has_keyframe


def test_other_sound_leaves_the_pictures_in_the_buffer() -> None:
    ring = begun(VIDEO)
    now = fill(ring, 1.0)
    other = AudioTrack(codec=AudioCodec.AAC, config=b"e", rate=44_100, channels=2)
    ring.change_sound((VIDEO, other))
    assert ring.tracks == (VIDEO, other)
    packets = ring.enter_near(now).packets
    assert [packet.track for packet in packets] == [VIDEO] * 10
    assert ring.size_bytes == sum(packet.memory_bytes for packet in packets)
    ring.append(picture(now + 0.1, key=False), now + 0.1)
    assert ring.has_keyframe


# Decoded at, shown at: two pictures in between refer to the next one.
REORDERED = [(0, 0), (40, 160), (80, 80), (120, 120), (160, 280), (200, 200), (240, 240)]


def reordered(times: list[tuple[int, int]]) -> GopBuffer:
    ring = begun()
    for dts, pts in times:
        packet = MediaPacket(track=VIDEO, dts=dts, pts=pts, key=dts == 0, data=b"x")
        ring.append(packet, 100 + dts / 1000)
    return ring


@pytest.mark.parametrize(
    ("moment", "shown"), [(0.0, None), (0.08, 80), (0.15, 160), (0.21, 200), (0.27, 280)]
)
def test_a_source_is_entered_at_the_picture_of_a_moment(moment: float, shown: int | None) -> None:
    entry = reordered(REORDERED).enter_at(moment, 0.02)
    assert entry is not None
    assert entry.show_from == shown
    assert entry.moment == pytest.approx((shown or 0) / 1000)
    assert entry.due == entry.arrived == pytest.approx(100 + (shown or 0) / 1000)
    assert entry.packets[0].key
    assert len(entry.packets) == len(REORDERED)


# An intra refresh: a message says that three pictures are wrong, and no slice is that of an IDR.
REFRESH = b"".join(
    len(unit).to_bytes(4, "big") + unit for unit in (b"\x06\x06\x01\x24\x80", b"\x41\x9a")
)


@pytest.mark.parametrize(("moment", "begins"), [(0.32, 0), (0.4, 0), (0.48, 0), (0.52, 400)])
def test_an_intra_refresh_is_entered_once_its_pictures_are_right(
    moment: float, begins: int
) -> None:
    ring = begun()
    for at in range(0, 800, 40):
        key = at % 400 == 0
        packet = MediaPacket(track=VIDEO, dts=at, pts=at, key=key, data=REFRESH if key else b"x")
        ring.append(packet, 100 + at / 1000)
    entry = ring.enter_at(moment, 0.02)
    assert entry is not None
    assert entry.moment == pytest.approx(moment)
    assert entry.packets[0].pts == begins
    assert entry.show_from == round(moment * 1000)
    assert ring.enter_at(0.08, 0.02) is None


def test_what_has_not_come_cannot_be_entered() -> None:
    assert reordered(REORDERED).enter_at(0.31, 0.02) is None
    assert reordered(REORDERED).enter_at(-0.1, 0.02) is None
    assert begun().enter_at(0.0, 0.02) is None


@pytest.mark.parametrize(
    ("count", "moment", "has_come"),
    [(2, 0.16, True), (2, 0.08, False), (3, 0.08, True), (7, 0.24, True), (7, 0.32, False)],
)
def test_a_moment_has_come_with_its_picture_or_once_no_earlier_one_can_follow(
    count: int, moment: float, *, has_come: bool
) -> None:
    assert reordered(REORDERED[:count]).reaches(moment, 0.02) is has_come


def test_a_picture_that_too_many_lead_up_to_cannot_be_entered() -> None:
    large = msgspec.structs.replace(VIDEO, width=3840, height=2160)
    ring = begun(large)
    for number in range(100):
        at = number * 40
        packet = MediaPacket(track=large, dts=at, pts=at, key=number == 0, data=b"x")
        ring.append(packet, 100 + at / 1000)
    assert ring.enter_at(1.0, 0.02) is not None
    assert ring.enter_at(3.9, 0.02) is None


def test_sound_of_a_keyframe_that_came_before_it_is_read_after_it() -> None:
    ring = begun()
    ring.append(picture(100.0, key=True), 100.0)
    for at in (101.9, 102.0, 102.02):
        ring.append(sound(at), at)
    ring.append(picture(102.0, key=True), 102.03)
    ring.append(sound(102.04), 102.04)
    packets = ring.enter_near(102.03).packets
    assert [packet.dts for packet in packets] == [102_000, 102_000, 102_020, 102_040]


def test_sound_alone_is_entered_at_any_moment() -> None:
    ring = begun(AUDIO)
    for number in range(40):
        ring.append(sound(number * 0.02), 100 + number * 0.02)
    entry = ring.enter_at(0.3, 0.01)
    assert entry is not None
    assert entry.packets[0].dts == 300
    assert entry.show_from is None
