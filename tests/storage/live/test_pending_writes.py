"""The order of what a run stores."""

from media.hls.segment import InitSection
from storage.live.pending_writes import AT_ONCE, MOST_INITS, PendingWrites

INIT = InitSection(rendition="360p", number=0, codecs="avc1.64001E", data=b"")


def test_segments_that_follow_each_other_come_together_and_nothing_overtakes() -> None:
    writes = PendingWrites()
    for write in (INIT, (0, "720p"), (0, "360p"), None, (1, "720p")):
        writes.add(write)
    assert list(writes.take_all()) == [INIT, [(0, "720p"), (0, "360p")], None, [(1, "720p")]]
    assert list(writes.take_all()) == []


def test_some_segments_at_a_time_and_those_put_back_first() -> None:
    writes = PendingWrites()
    keys = [(number, "720p") for number in range(AT_ONCE + 1)]
    for key in keys:
        writes.add(key)
    taken = writes.take_all()
    assert next(taken) == keys[:AT_ONCE]
    writes.put_back(keys[2:4])
    assert list(taken) == [[*keys[2:4], keys[-1]]]


def test_init_sections_that_wait_are_bounded() -> None:
    writes = PendingWrites()
    for _ in range(MOST_INITS):
        assert writes.has_room_for_init
        writes.add(INIT)
    assert not writes.has_room_for_init
    next(writes.take_all())
    assert writes.has_room_for_init
