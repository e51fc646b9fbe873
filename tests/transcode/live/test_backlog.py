import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.stream.gop_buffer import BUFFER_BYTES
from media.loop_lag import LoopLag
from media.packet import PACKET_OVERHEAD, MediaPacket
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.live.backlog import QUEUE_BYTES, QUEUE_SECONDS, Backlog, NoSource, SourceStart
from transcode.protocol.messages import Finish, LeaveOut, Packet

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
MIB = 1 << 20


def packet(at: int, *, key: bool = False, video: bool = True, size: int = 1) -> MediaPacket:
    track = VIDEO if video else AUDIO
    return MediaPacket(track=track, dts=at, pts=at, key=key or not video, data=bytes(size))


def backlog() -> Backlog:
    return Backlog(lambda: 7)


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
    assert queue.offer(packet(0, key=True, size=3), 0.0)
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
        queue.offer(packet(at, key=at == 7_000), 50.0)
        queue.offer(packet(at + 900_000, video=False), 50.0)  # by a clock of its own
    for wall in (50.3, 50.5):
        queue.offer(packet(8_200), wall)
    # An encoder may stop for a while, or send by a slower clock: what comes later waits no more.
    for wall in (57.0, 59.0):
        queue.offer(packet(8_300), wall)
    seconds = [49.0, 49.0, 49.4, 49.4, 50.0, 50.0, 50.2, 50.2, 57.0, 59.0]
    assert came(queue) == pytest.approx(seconds)


def test_no_packet_came_in_the_future_or_before_its_source() -> None:
    queue = Backlog(lambda: 50_000_000)
    queue.begin((VIDEO,), 50.0, late=1.0)
    for at in (7_000, 3_000, 90_000):
        queue.offer(packet(at), 50.0)
    assert came(queue) == [49.0, 49.0, 50.0]


def test_packets_after_a_new_beginning_come_when_they_are_offered() -> None:
    wall = 50.0
    queue = Backlog(lambda: round(wall * 1e6))
    queue.begin((VIDEO,), 50.0, late=1.0)
    queue.restart_source(50.0)
    queue.offer(packet(7_000, key=True), 50.0)
    queue.begin((VIDEO,), 52.0)
    for wall in (52.0, 52.1, 54.0):
        queue.offer(packet(7_000), wall)
    assert came(queue) == [50.0, 52.0, 52.1, 54.0]


def test_too_many_bytes_are_dropped_up_to_a_keyframe_that_begins_anew() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    full = QUEUE_BYTES // MIB
    size = MIB - PACKET_OVERHEAD
    assert all(queue.offer(packet(at, key=at == 0, size=size), 0.0) for at in range(full))
    assert not queue.offer(packet(50, size=MIB), 0.0)
    assert not queue.offer(packet(51, key=True, size=MIB), 0.0), "there is no room yet"
    for _ in range(full // 2 + 2):
        queue.pop()
    assert not queue.offer(packet(52, size=MIB), 0.0), "decoding cannot begin here"
    assert not queue.offer(packet(52, video=False), 0.0)
    assert queue.offer(packet(53, key=True), 0.0)
    assert queue.offer(packet(53, video=False), 0.0)
    assert kinds(queue)[-4:] == ["Finish", "SourceStart", "Packet", "Packet"]


def test_what_waited_too_long_makes_it_drop() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    assert queue.offer(packet(0, key=True), 0.0)
    assert queue.offer(packet(1), QUEUE_SECONDS)
    assert not queue.offer(packet(2), QUEUE_SECONDS + 0.1)
    assert queue.age(QUEUE_SECONDS + 0.1) > QUEUE_SECONDS
    all_of(queue)
    assert queue.offer(packet(3, key=True), QUEUE_SECONDS + 0.2)


def test_a_burst_is_not_late() -> None:
    queue = backlog()
    queue.begin((VIDEO,), 0.0)
    assert all(queue.offer(packet(at * 1000, key=True), 0.5) for at in range(3600))


def test_what_a_ring_holds_at_most_has_room() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0, splice=True)
    assert BUFFER_BYTES + 8 * MIB < QUEUE_BYTES
    assert all(queue.offer(packet(at, key=at == 0, size=MIB), 0.0) for at in range(24))


def test_sound_alone_resumes_wherever_there_is_room() -> None:
    queue = backlog()
    queue.begin((AUDIO,), 0.0)
    while queue.offer(packet(0, video=False, size=MIB), 0.0):
        pass
    all_of(queue)
    assert queue.offer(packet(1, video=False), 0.0)


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
        queue.offer(packet(at, key=at == 3), 0.0)
    queue.resume_source(SourceStart(video=VIDEO, audio=None, wall_us=1), 1.0)
    assert all_of(queue) == [
        # The keyframe came a second ago.
        SourceStart(video=VIDEO, audio=None, wall_us=7 - 1_000_000),
        Packet(video=True, dts=3, pts=3, key=True, data=b"\0", came_us=7),
        Packet(video=True, dts=4, pts=4, key=False, data=b"\0", came_us=7),
    ]


def test_a_new_engine_does_not_begin_what_another_source_follows() -> None:
    queue = backlog()
    queue.offer(packet(0), 0.0)
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
                accepted = queue.offer(
                    packet(0, key=what == "key", video=what != "sound", size=size), now
                )
                after_beginning = after_beginning or accepted
                if was_dropping and accepted:
                    assert what == "key"
        assert queue.bytes <= QUEUE_BYTES
    held = all_of(queue)
    for index, order in enumerate(held[:-1]):
        if isinstance(order, SourceStart) and index:
            following = held[index + 1]
            assert isinstance(following, Packet)
            assert following.key


# -- splices and nobody ---------------------------------------------------------------------------


def test_a_splice_is_a_beginning_without_an_end_before_it() -> None:
    queue = backlog()
    queue.begin((VIDEO, AUDIO), 0.0)
    queue.offer(packet(0, key=True), 0.0)
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
    assert all_of(queue) == [SourceStart(video=VIDEO, audio=AUDIO, wall_us=7), NoSource(since=4.0)]


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
    queue.offer(packet(1), 0.0)
    queue.begin_slate(1.0)
    queue.resume_source(source, 2.0)
    assert kinds(queue) == ["SourceStart", "NoSource"]


def test_a_new_engine_dates_its_source_by_when_its_keyframe_came() -> None:
    queue = Backlog(lambda: 100_000_000)
    queue.begin((VIDEO, AUDIO), 0.0)
    for at in range(0, 10):
        queue.offer(packet(1000 * at, key=at in (0, 6)), float(at))
    started = queue.pop()
    assert isinstance(started, SourceStart)
    queue.pop()  # the engine dies with it
    queue.resume_source(started, 9.5)
    again = queue.pop()
    assert isinstance(again, SourceStart)
    assert again.wall_us == 100_000_000 - 3_500_000


def test_what_waits_for_a_loop_that_is_held_up_is_not_too_old() -> None:
    lag = LoopLag()
    lag.beat(0.0)
    queue = Backlog(lambda: 7, lag)
    queue.begin((VIDEO, AUDIO), 0.0)
    assert queue.offer(packet(0, key=True), 0.0)
    held_up = QUEUE_SECONDS + 5
    assert queue.offer(packet(1), held_up)
    lag.beat(held_up)
    assert queue.offer(packet(2), held_up)
    assert not queue.dropping
