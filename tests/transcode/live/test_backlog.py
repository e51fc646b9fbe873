import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.stream.gop_buffer import BUFFER_BYTES
from media.loop_lag import LoopLag
from media.packet import PACKET_OVERHEAD, MediaPacket
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.live.backlog import (
    QUEUE_BYTES,
    QUEUE_SECONDS,
    Backlog,
    Joint,
    NoSource,
    SourceStart,
)
from transcode.live.recent_packets import RECENT_BYTES
from transcode.protocol.messages import Finish, LeaveOut, Packet

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
MIB = 1 << 20


def packet(at: int, *, key: bool = False, video: bool = True, size: int = 1) -> MediaPacket:
    track = VIDEO if video else AUDIO
    return MediaPacket(track=track, dts=at, pts=at, key=key or not video, data=bytes(size))


def backlog() -> Backlog:
    return Backlog(lambda: 7)


def offer(queue: Backlog, offered: MediaPacket, now: float) -> bool:
    """Offer one packet; return whether it was queued."""
    return not queue.offer([offered], now)


def all_of(queue: Backlog) -> list[object]:
    events: list[object] = []
    while queue:
        events.append(queue.pop())
    return events


def kinds(queue: Backlog) -> list[str]:
    return [type(order).__name__ for order in all_of(queue)]


def test_orders_come_out_as_they_were_put() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    assert offer(queue, packet(0, key=True, size=3), 0.0)
    assert queue.bytes == 3 + PACKET_OVERHEAD
    queue.finish(0.0)
    assert all_of(queue) == [
        SourceStart(video=VIDEO, audio=AUDIO, wall_us=7),
        Packet(video=True, dts=0, pts=0, key=True, data=bytes(3), came_us=7),
        Finish(),
    ]
    assert queue.bytes == 0


def test_a_beginning_that_came_a_while_ago_is_dated_back() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0, late=2.5)
    assert all_of(queue) == [SourceStart(video=VIDEO, audio=AUDIO, wall_us=7 - 2_500_000)]


def came(queue: Backlog, epoch_us: int = 0) -> list[float]:
    """Return when each queued packet came, in seconds."""
    packets = [order for order in all_of(queue) if isinstance(order, Packet)]
    return [(each.came_us - epoch_us) / 1e6 for each in packets]


def test_packets_that_waited_together_came_one_after_the_other() -> None:
    """A source without sound is held back for a second, until that is certain."""
    wall = 50.0
    queue = Backlog(lambda: round(wall * 1e6))
    queue.begin((VIDEO, AUDIO), 50.0, late=1.0)
    for at in (7_000, 7_400, 8_000):
        offer(queue, packet(at, key=at == 7_000), 50.0)
        offer(queue, packet(at + 900_000, video=False), 50.0)  # by a clock of its own
    for wall in (50.3, 50.5):
        offer(queue, packet(8_200), wall)
    # An encoder may stop for a while, or send by a slower clock: what comes later waits no more.
    for wall in (57.0, 59.0):
        offer(queue, packet(8_300), wall)
    seconds = [49.0, 49.0, 49.4, 49.4, 50.0, 50.0, 50.2, 50.2, 57.0, 59.0]
    assert came(queue) == pytest.approx(seconds)


def test_no_packet_came_in_the_future_or_before_its_source() -> None:
    queue = Backlog(lambda: 50_000_000)
    queue.begin((VIDEO,), 50.0, late=1.0)
    for at in (7_000, 3_000, 90_000):
        offer(queue, packet(at), 50.0)
    assert came(queue) == [49.0, 49.0, 50.0]


def test_packets_after_a_new_beginning_come_when_they_are_offered() -> None:
    wall = 50.0
    queue = Backlog(lambda: round(wall * 1e6))
    queue.begin((VIDEO,), 50.0, late=1.0)
    queue.restart_source(50.0)
    offer(queue, packet(7_000, key=True), 50.0)
    queue.begin((VIDEO,), 52.0)
    for wall in (52.0, 52.1, 54.0):
        offer(queue, packet(7_000), wall)
    assert came(queue) == [50.0, 52.0, 52.1, 54.0]


def test_too_many_bytes_are_dropped_until_there_is_room_to_begin_anew() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    full = QUEUE_BYTES // MIB
    size = MIB - PACKET_OVERHEAD
    assert all(offer(queue, packet(at, key=at == 0, size=size), 0.0) for at in range(full))
    assert not offer(queue, packet(50, size=MIB), 0.0)
    assert not offer(queue, packet(51, key=True, size=MIB), 0.0), "there is no room yet"
    for _ in range(full // 2 + 2):
        queue.pop()
    assert not offer(queue, packet(52, video=False), 0.0), "a picture leads"
    assert offer(queue, packet(53), 0.0)
    assert offer(queue, packet(53, video=False), 0.0)
    *_, finish, start, picture, _ = all_of(queue)
    assert isinstance(finish, Finish)
    assert isinstance(start, SourceStart)
    assert isinstance(picture, Packet)
    assert [each.dts for each in start.preroll] == [51, 52]
    assert picture.dts == 53


def test_what_is_too_large_to_lead_up_to_a_beginning_is_dropped_up_to_a_keyframe() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    while offer(queue, packet(0, key=not queue.bytes, size=MIB), 0.0):
        pass
    assert len(all_of(queue)) * MIB > RECENT_BYTES
    assert not offer(queue, packet(52, size=MIB), 0.0), "decoding cannot begin here"
    assert not offer(queue, packet(52, video=False), 0.0)
    assert offer(queue, packet(53, key=True), 0.0)
    assert kinds(queue) == ["Finish", "SourceStart", "Packet"]


def test_what_waited_too_long_makes_it_drop() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    assert offer(queue, packet(0, key=True), 0.0)
    assert offer(queue, packet(1), QUEUE_SECONDS)
    assert not offer(queue, packet(2), QUEUE_SECONDS + 0.1)
    assert queue.age(QUEUE_SECONDS + 0.1) > QUEUE_SECONDS
    all_of(queue)
    assert offer(queue, packet(3, key=True), QUEUE_SECONDS + 0.2)


def test_a_burst_is_not_late() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    assert all(offer(queue, packet(at * 1000, key=True), 0.5) for at in range(3600))


def test_what_a_ring_holds_at_most_has_room() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0, splice=True)
    assert BUFFER_BYTES + 8 * MIB < QUEUE_BYTES
    assert all(offer(queue, packet(at, key=at == 0, size=MIB), 0.0) for at in range(24))


def test_sound_alone_resumes_wherever_there_is_room() -> None:
    queue = backlog()
    queue.begin((AUDIO,), 0.0)
    while offer(queue, packet(0, video=False, size=MIB), 0.0):
        pass
    all_of(queue)
    assert offer(queue, packet(1, video=False), 0.0)


def test_an_urgent_order_goes_first() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    queue.put_first(LeaveOut(off=("720p",)), 0.0)
    assert kinds(queue) == ["LeaveOut", "SourceStart"]


def test_an_order_that_goes_first_makes_the_queue_no_younger() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    queue.put_first(LeaveOut(off=("720p",)), QUEUE_SECONDS)
    assert queue.age(QUEUE_SECONDS + 0.1) > QUEUE_SECONDS
    assert kinds(queue) == ["LeaveOut", "SourceStart"]
    queue.put_first(LeaveOut(off=()), 20.0)
    assert queue.age(21.0) == 1.0


def test_a_new_engine_begins_at_the_next_keyframe_that_waits() -> None:
    queue = backlog()
    for at in range(5):
        offer(queue, packet(at, key=at == 3), 0.0)
    queue.resume_source(SourceStart(video=VIDEO, audio=None, wall_us=1), 1.0)
    assert all_of(queue) == [
        # The keyframe came a second ago.
        SourceStart(video=VIDEO, audio=None, wall_us=7 - 1_000_000, joint=Joint.ENGINE),
        Packet(video=True, dts=3, pts=3, key=True, data=b"\0", came_us=7),
        Packet(video=True, dts=4, pts=4, key=False, data=b"\0", came_us=7),
    ]


@pytest.mark.parametrize(("again", "expected"), [(True, [0, 1, 2, 3, 4]), (False, [3, 4])])
def test_a_new_engine_gets_the_packets_of_the_old_one_again_unless_they_are_to_blame(
    again: bool, expected: list[int]
) -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    for at in range(5):
        offer(queue, packet(at, key=at in (0, 3)), 0.0)
    for _ in range(3):  # the beginning, and two packets
        queue.pop()
    queue.resume_source(SourceStart(video=VIDEO, audio=None, wall_us=1), 1.0, again=again)
    assert [each.dts for each in all_of(queue) if isinstance(each, Packet)] == expected


def test_a_new_engine_does_not_begin_what_another_source_follows() -> None:
    queue = backlog()
    offer(queue, packet(0), 0.0)
    queue.begin((VIDEO,), 0.0)
    queue.resume_source(SourceStart(video=VIDEO, audio=None, wall_us=1), 1.0)
    assert kinds(queue) == ["SourceStart"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["offer", "key", "sound", "pop", "again", "late"]),
            st.integers(1, 3 * MIB),
        ),
        max_size=120,
    )
)
def test_it_never_holds_more_than_its_bound_and_begins_at_keyframes(
    doings: list[tuple[str, int]],
) -> None:
    queue, now, after_beginning = backlog(), 0.0, False
    queue.begin((VIDEO, AUDIO), now)
    for what, size in doings:
        match what:
            case "pop":
                if queue:
                    queue.pop()
            case "again":
                pass
            case "late":
                now += size / MIB
            case _:
                was_dropping = queue.dropping
                accepted = offer(
                    queue, packet(0, key=what == "key", video=what != "sound", size=size), now
                )
                after_beginning = after_beginning or accepted
                if was_dropping and accepted:
                    assert what != "sound"
        assert queue.bytes <= QUEUE_BYTES
    held = all_of(queue)
    for index, order in enumerate(held[:-1]):
        if isinstance(order, SourceStart) and index:
            following = held[index + 1]
            assert isinstance(following, Packet)
            lead = order.preroll[0] if order.preroll else following
            assert lead.key or order.joint is Joint.GROUP, "it waits for a keyframe at worst"
            assert sum(len(each.data) for each in order.preroll) <= RECENT_BYTES


# -- splices and nobody ---------------------------------------------------------------------------


def test_a_splice_is_a_beginning_without_an_end_before_it() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    offer(queue, packet(0, key=True), 0.0)
    queue.begin((VIDEO,), 1.0, splice=True)
    first, _, second = all_of(queue)
    assert isinstance(first, SourceStart)
    assert isinstance(second, SourceStart)
    assert (first.splice, second.splice) == (False, True)


def test_what_begins_anew_after_media_were_dropped_is_no_splice() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0, splice=True)
    queue.restart_source(1.0)
    assert [order.splice for order in all_of(queue) if isinstance(order, SourceStart)] == [
        True,
        False,
    ]


def test_a_slate_is_queued_once_from_when_the_source_left() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    queue.begin_slate(5.0, late=2.0)
    queue.begin_slate(6.0)
    queue.begin((VIDEO, AUDIO), 7.0)
    queue.finish(8.0)
    queue.begin((VIDEO, AUDIO), 9.0)
    beginning = SourceStart(video=VIDEO, audio=AUDIO, wall_us=7)
    spliced = SourceStart(video=VIDEO, audio=AUDIO, wall_us=7, splice=True)
    assert all_of(queue) == [beginning, NoSource(since=3.0), spliced, Finish(), beginning]


def test_a_new_engine_repeats_the_slate_of_the_old_one() -> None:
    queue = backlog()
    source = SourceStart(video=VIDEO, audio=AUDIO, wall_us=3)
    queue.resume_slate(source, 4.0)
    again = SourceStart(video=VIDEO, audio=AUDIO, wall_us=7, joint=Joint.ENGINE)
    assert all_of(queue) == [again, NoSource(since=4.0)]


@pytest.mark.parametrize("ends", [True, False])
def test_a_new_engine_needs_no_slate_that_is_over(ends: bool) -> None:
    queue = backlog()
    if ends:
        queue.finish(4.0)
    else:
        queue.begin((VIDEO,), 4.0)
    queue.resume_slate(SourceStart(video=VIDEO, audio=AUDIO, wall_us=3), 4.0)
    assert len(all_of(queue)) == 1


def test_a_source_that_begins_again_in_a_new_engine_stops_before_the_slate() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    source = queue.pop()
    assert isinstance(source, SourceStart)
    offer(queue, packet(1), 0.0)
    queue.begin_slate(1.0)
    queue.resume_source(source, 2.0)
    assert kinds(queue) == ["SourceStart", "NoSource"]


def started(queue: Backlog) -> SourceStart:
    start = queue.pop()
    assert isinstance(start, SourceStart)
    return start


@pytest.mark.parametrize("gop", [2, 10])
def test_a_new_engine_gets_what_the_old_one_had_not_published(gop: int) -> None:
    """A picture a second; the engine dies when it has got 8 of 12 and published 5."""
    queue = Backlog(lambda: 100_000_000)
    queue.begin((VIDEO, AUDIO), 0.0)
    for at in range(12):
        offer(queue, packet(1000 * at, key=at % gop == 0), float(at) / 10)
    source = started(queue)
    for _ in range(8):
        queue.pop()
    queue.resume_source(source, 2.0, published=5 * 90_000)
    again = started(queue)
    assert [each.dts for each in again.preroll] == [1000 * at for at in range(5 // gop * gop, 5)]
    assert again.wall_us == 100_000_000 - 1_500_000, "when the first picture that is shown came"
    sent = all_of(queue)
    assert [each.dts for each in sent if isinstance(each, Packet)] == [
        1000 * at for at in range(5, 12)
    ]
    assert queue.bytes == 0


def test_a_new_engine_needs_no_preroll_if_the_old_one_had_published_nothing() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    for at in range(4):
        offer(queue, packet(at, key=at == 0), 0.0)
    source = started(queue)
    all_of(queue)
    queue.resume_source(source, 0.0)
    assert kinds(queue) == ["SourceStart", "Packet", "Packet", "Packet", "Packet"]


def test_what_is_too_old_is_not_shown_by_a_new_engine() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    for at in range(12):
        offer(queue, packet(1000 * at, key=at == 0), float(at))
        all_of(queue)
    queue.resume_source(SourceStart(video=VIDEO, audio=None, wall_us=0), 15.0)
    again = started(queue)
    assert len(again.preroll) == 5
    assert [each.dts for each in all_of(queue) if isinstance(each, Packet)] == [
        1000 * at for at in range(5, 12)
    ]


def test_sound_alone_goes_on_in_a_new_engine_where_it_was() -> None:
    queue = backlog()
    queue.begin((AUDIO,), 0.0)
    for at in range(10):
        offer(queue, packet(1000 * at, video=False), float(at) / 10)
    source = started(queue)
    all_of(queue)
    queue.resume_source(source, 1.0, published=4 * 90_000)
    assert started(queue).preroll == ()
    sent = [each.dts for each in all_of(queue) if isinstance(each, Packet)]
    assert sent == [1000 * at for at in range(4, 10)]


def test_other_sound_and_another_clock_need_no_preroll() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    offer(queue, packet(0, key=True), 0.0)
    queue.begin((VIDEO, AUDIO), 1.0, joint=Joint.SOUND)
    offer(queue, packet(1), 1.0)
    queue.begin((VIDEO, AUDIO), 2.0, joint=Joint.CLOCK)
    offer(queue, packet(500), 2.0)
    starts = [each for each in all_of(queue) if isinstance(each, SourceStart)]
    assert [(each.joint, each.preroll) for each in starts] == [
        (Joint.NEW, ()),
        (Joint.SOUND, ()),
        (Joint.CLOCK, ()),
    ]
    queue.resume_source(starts[-1], 2.0)
    again = started(queue)
    assert [each.dts for each in again.preroll] == [0, 1], "by another clock: not shown again"
    assert [each.dts for each in all_of(queue) if isinstance(each, Packet)] == [500]


def test_after_a_slate_the_present_group_of_pictures_leads_up_to_the_next_one() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    for at in range(6):
        offer(queue, packet(at, key=at in (0, 2)), 0.0)
    queue.begin_slate(3.0)
    queue.begin((VIDEO, AUDIO), 5.0, joint=Joint.SOUND)
    offer(queue, packet(6), 5.0)
    again = [each for each in all_of(queue) if isinstance(each, SourceStart)][1]
    assert (again.splice, again.joint) == (True, Joint.GROUP)
    assert [each.dts for each in again.preroll] == [2, 3, 4, 5]


def test_a_keyframe_after_a_slate_needs_nothing_before_it() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    offer(queue, packet(0, key=True), 0.0)
    queue.begin_slate(3.0)
    queue.begin((VIDEO, AUDIO), 5.0, joint=Joint.SOUND)
    offer(queue, packet(6, key=True), 5.0)
    again = [each for each in all_of(queue) if isinstance(each, SourceStart)][1]
    assert again.preroll == ()


def test_what_waits_for_a_loop_that_is_held_up_is_not_too_old() -> None:
    lag = LoopLag()
    lag.beat(0.0)
    queue = Backlog(lambda: 7, lag)
    queue.begin((VIDEO, AUDIO), 0.0)
    assert offer(queue, packet(0, key=True), 0.0)
    held_up = QUEUE_SECONDS + 5
    assert offer(queue, packet(1), held_up)
    lag.beat(held_up)
    assert offer(queue, packet(2), held_up)
    assert not queue.dropping


def cut_to(
    show_from: int,
    *packets: MediaPacket,
    track: VideoTrack = VIDEO,
    show_until: int | None = 700,
) -> SourceStart:
    """Return the start of a source that is to be shown from a picture of it on."""
    queue = backlog()
    queue.begin((track,), 0.0, splice=True, show_from=show_from, show_until=show_until)
    for each in packets:
        offer(queue, each, 0.0)
    start = all_of(queue)[0]
    assert isinstance(start, SourceStart)
    return start


def test_a_source_is_shown_from_a_picture_that_its_keyframe_leads_up_to() -> None:
    start = cut_to(80, packet(0, key=True), packet(40), packet(80))
    assert (start.splice, start.show_from, start.show_until) == (True, 80, 700)


def test_a_source_that_is_shown_from_its_keyframe_on_needs_nothing_before_it() -> None:
    assert cut_to(0, packet(0, key=True), packet(40), show_until=None).show_from is None


def test_a_source_whose_keyframe_is_held_back_is_shown_from_that_picture_too() -> None:
    start = cut_to(80, show_until=None)
    assert (start.splice, start.show_from, start.show_until) == (True, 80, None)


def test_a_keyframe_after_pictures_that_are_not_shown_is_a_cut_too() -> None:
    """They may be in the top rendition already, in which packets could not follow them."""
    start = cut_to(0, packet(0, key=True), packet(40))
    assert (start.show_from, start.show_until) == (0, 700)


def test_a_source_that_would_take_long_to_decode_is_shown_from_its_keyframe_on() -> None:
    large = msgspec.structs.replace(VIDEO, width=3840, height=2160)
    pictures = [packet(at, key=at == 0) for at in range(80)]
    assert cut_to(60, *pictures, track=large).show_from == 60
    start = cut_to(70, *pictures, track=large)
    assert (start.show_from, start.show_until) == (None, None)


def test_a_source_without_a_keyframe_leads_up_to_nothing() -> None:
    assert cut_to(80, packet(0), packet(40), packet(80)).show_from is None


def test_what_begins_anew_after_a_cut_is_no_cut() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0, show_from=40)
    queue.restart_source(1.0)
    offer(queue, packet(0, key=True), 1.0)
    offer(queue, packet(40), 1.0)
    starts = [each for each in all_of(queue) if isinstance(each, SourceStart)]
    assert [each.show_from for each in starts] == [40, None]


def test_a_cut_is_dated_by_the_first_picture_that_is_shown() -> None:
    wall = 50.0
    queue = Backlog(lambda: round(wall * 1e6))
    queue.begin((VIDEO,), 50.0, late=1.0, show_from=400)
    for at in (0, 400, 1_000):
        offer(queue, packet(at, key=at == 0), 50.0)
    start = queue.pop()
    assert isinstance(start, SourceStart)
    assert start.wall_us == 49_400_000


@pytest.mark.parametrize(("published", "show_from"), [(None, 80), (90 * 80, None)])
def test_a_new_engine_cuts_if_the_old_one_had_not(
    published: int | None, show_from: int | None
) -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0, show_from=80)
    for at in (0, 40, 80, 120):
        offer(queue, packet(at, key=at == 0), 0.0)
    source = queue.pop()
    assert isinstance(source, SourceStart)
    queue.pop_packets()
    queue.resume_source(source, 1.0, published)
    start, *packets = all_of(queue)
    assert isinstance(start, SourceStart)
    assert start.show_from == show_from
    assert len(start.preroll) + len(packets) == 4


def test_after_a_slate_a_source_is_shown_from_its_keyframe_on() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    queue.begin_slate(1.0)
    queue.begin((VIDEO,), 2.0, show_from=40)
    offer(queue, packet(0, key=True), 2.0)
    offer(queue, packet(40), 2.0)
    starts = [each for each in all_of(queue) if isinstance(each, SourceStart)]
    assert [each.show_from for each in starts] == [None, None]
