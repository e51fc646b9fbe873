"""The media ring of a relaying host: whole groups of pictures, bounded in time and size."""

import pytest

from ingest.relay.media_ring import (
    RING_BYTES,
    RING_SECONDS,
    Arrival,
    Jump,
    MediaRing,
    RingMemory,
)
from media.packet import MediaPacket
from tests.ingest.relay.test_messages import AUDIO, VIDEO


def picture(at: float, *, key: bool = False, size: int = 10) -> MediaPacket:
    ticks = round(at * 1000)
    return MediaPacket(track=VIDEO, dts=ticks, pts=ticks, key=key, data=bytes(size))


def sound(at: float) -> MediaPacket:
    ticks = round(at * 1000)
    return MediaPacket(track=AUDIO, dts=ticks, pts=ticks, key=True, data=b"s")


def ring_with(seconds: float, *, gop: float = 2.0, size: int = 10) -> MediaRing:
    """Return a ring with four pictures a second from 0 s on."""
    ring = MediaRing()
    ring.add_track(VIDEO, 0.0)
    ring.add_track(AUDIO, 0.0)
    for number in range(round(seconds * 4)):
        at = number / 4
        ring.add_packet(picture(at, key=at % gop == 0, size=size), at)
    return ring


def first_picture(arrivals: list[Arrival], *, size: int = 10) -> float:
    packets = [each for each in arrivals if isinstance(each.item, MediaPacket)]
    assert packets[0].item == picture(packets[0].at, key=True, size=size)
    return packets[0].at


def test_it_begins_with_the_tracks_and_a_keyframe() -> None:
    ring = MediaRing()
    assert not ring.has_media
    ring.add_track(VIDEO, 0.5)
    ring.add_packet(picture(1.0), 1.0)
    assert not ring.has_media
    assert ring.read_lacking(1.5)[0] == [Arrival(1.5, VIDEO)]
    ring.add_packet(picture(2.0, key=True), 2.0)
    ring.add_packet(sound(2.1), 2.1)
    assert ring.has_media
    assert ring.read_lacking(3.0)[0] == [
        Arrival(2.0, VIDEO),
        Arrival(2.0, picture(2.0, key=True)),
        Arrival(2.1, sound(2.1)),
    ]


def test_it_keeps_the_group_that_was_current_when_its_time_began() -> None:
    arrivals, _ = ring_with(30.0).read_lacking(30.0)
    assert first_picture(arrivals) == 12.0  # the newest group began at 28 s
    assert 28.0 - RING_SECONDS - 2.0 < 12.0 <= 28.0 - RING_SECONDS


def test_it_never_takes_more_than_its_bytes() -> None:
    ring = MediaRing()
    ring.add_track(VIDEO, 0.0)
    most = 0
    for number in range(400):
        ring.add_packet(picture(number / 40, key=number % 20 == 0, size=1 << 18), number / 40)
        most = max(most, ring.size_bytes)
    assert RING_BYTES - (6 << 20) < most <= RING_BYTES
    assert first_picture_size(ring) == 1 << 18


def first_picture_size(ring: MediaRing) -> int:
    first = ring.read_lacking(0.0)[0][1].item
    assert isinstance(first, MediaPacket)
    assert first.key
    return len(first.data)


def test_one_group_that_is_too_large_is_dropped_up_to_the_next_keyframe() -> None:
    ring = ring_with(1.0)
    for number in range(30):
        ring.add_packet(picture(1 + number / 30, size=1 << 20), 1 + number / 30)
    assert not ring.has_media
    assert ring.size_bytes == 0
    ring.add_packet(picture(2.0, key=True), 2.0)
    assert first_picture(ring.read_lacking(2.0)[0]) == 2.0


@pytest.mark.parametrize(
    ("stored", "expected"),
    [(4.0, 4.0), (3.96, 4.0), (3.9, 2.0), (5.1, 4.0), (5.9, 4.0), (11.0, 8.0), (-3.0, 0.0)],
)
def test_a_new_owner_gets_all_media_from_the_last_stored_keyframe_on(
    stored: float, expected: float
) -> None:
    ring = ring_with(10.0)
    assert first_picture(ring.read_lacking(10.0)[0]) == 0.0
    ring.set_stored(stored)
    assert first_picture(ring.read_lacking(10.0)[0]) == expected


def test_a_reconnected_owner_gets_the_media_that_it_has_not_received() -> None:
    ring = ring_with(10.0)
    ring.set_stored(2.0)
    assert first_picture(ring.read_lacking(10.0, 8.1)[0]) == 8.0
    assert first_picture(ring.read_lacking(10.0, 7.9)[0]) == 6.0


def test_stored_media_are_dropped_and_the_stored_time_never_decreases() -> None:
    ring = ring_with(10.0)
    before = ring.size_bytes
    ring.set_stored(6.5)
    assert ring.size_bytes < before / 2
    ring.set_stored(1.0)
    assert first_picture(ring.read_lacking(10.0)[0]) == 6.0


def test_tracks_that_change_come_before_the_media_that_need_them() -> None:
    ring = ring_with(4.0)
    other = type(VIDEO)(codec=VIDEO.codec, config=b"other", width=640, height=360)
    ring.add_track(other, 4.0)
    ring.add_packet(picture(4.0, key=True), 4.0)
    ring.clock_jumped(4.1)
    arrivals, _ = ring.read_lacking(4.2)
    changes = [each.item for each in arrivals if not isinstance(each.item, MediaPacket)]
    assert changes == [VIDEO, AUDIO, other, Jump.JUMP]
    ring.set_stored(4.0)
    arrivals, _ = ring.read_lacking(4.2)
    assert [each.item for each in arrivals] == [other, AUDIO, picture(4.0, key=True), Jump.JUMP]


def test_all_rings_of_a_host_share_a_bound_and_the_largest_makes_room() -> None:
    drops: list[int] = []
    memory = RingMemory(1 << 20, lambda: drops.append(memory.size_bytes))
    small, large = MediaRing(memory), MediaRing(memory)
    for ring in (small, large):
        ring.add_track(VIDEO, 0.0)
    for number in range(10):
        at = float(number)
        small.add_packet(picture(at, key=True, size=10_000), at)
        large.add_packet(picture(at, key=True, size=200_000), at)
        assert memory.size_bytes == small.size_bytes + large.size_bytes <= 1 << 20
    assert first_picture(small.read_lacking(10.0)[0], size=10_000) == 0.0
    assert first_picture(large.read_lacking(10.0)[0], size=200_000) == 6.0
    assert memory.dropped_groups == len(drops) == 6
    large.clear()
    assert memory.size_bytes == small.size_bytes
    small.clear()
    assert memory.size_bytes == 0


def test_a_group_that_is_larger_than_the_bound_of_all_rings_is_dropped() -> None:
    memory = RingMemory(1 << 20)
    ring = MediaRing(memory)
    ring.add_track(VIDEO, 0.0)
    ring.add_packet(picture(0.0, key=True, size=600_000), 0.0)
    ring.add_packet(picture(0.1, size=600_000), 0.1)
    assert not ring.has_media
    assert memory.size_bytes == 0
    ring.add_packet(picture(1.0, key=True, size=600_000), 1.0)
    assert first_picture(ring.read_lacking(1.0)[0], size=600_000) == 1.0


def test_sound_without_a_picture_is_cut_into_short_groups() -> None:
    ring = MediaRing()
    ring.add_track(AUDIO, 0.0)
    for number in range(100):
        ring.add_packet(sound(number / 10), number / 10)
    ring.set_stored(8.1)
    arrivals, _ = ring.read_lacking(10.0)
    assert [arrivals[0].item, arrivals[1].at] == [AUDIO, 8.0]


def test_a_second_read_continues_where_the_first_ended() -> None:
    ring = ring_with(4.0)
    _, position = ring.read_lacking(4.0)
    assert ring.read_from(position) == ([], position)
    ring.add_packet(picture(4.0, key=True), 4.0)
    ring.add_packet(sound(4.1), 4.1)
    arrivals, position = ring.read_from(position)
    assert arrivals == [Arrival(4.0, picture(4.0, key=True)), Arrival(4.1, sound(4.1))]
    assert ring.read_from(position)[0] == []


def test_a_reader_whose_position_was_dropped_begins_anew() -> None:
    ring = ring_with(4.0)
    _, position = ring.read_lacking(4.0)
    for number in range(16, 120):
        ring.add_packet(picture(number / 4, key=number % 8 == 0), number / 4)
    arrivals, _ = ring.read_from(position)
    assert [each.item for each in arrivals[:2]] == [VIDEO, AUDIO]
    assert first_picture(arrivals) > 4.0
