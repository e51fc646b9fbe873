from collections.abc import Sequence

import pytest

from ingest.stream.failover import Policy
from ingest.stream.slot_session import CloseReason, SlotSession
from ingest.stream.track_finder import SourceBegun
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO, FakePublisher
from tests.support.ingest.virtual_clock import run

POLICY = Policy(detect_seconds=2.0)


class RecordingOwner:
    """A stream that records its media, and fills the session's buffer like a real one."""

    def __init__(self) -> None:
        self.found_at: list[tuple[str, float]] = []
        self.gone: list[CloseReason] = []
        self.unusable: list[tuple[str, bool]] = []

    def on_begun(self, session: SlotSession, begun: SourceBegun, now: float) -> None:
        session.buffer.begin(begun.tracks)
        self.found_at.append(("SourceBegun", now))
        self.on_packets(session, begun.held, (), now)

    def on_packets(
        self,
        session: SlotSession,
        packets: Sequence[MediaPacket],
        dues: Sequence[float],
        now: float,
    ) -> None:
        for packet in packets:
            session.buffer.append(packet, now)
            self.found_at.append(("MediaPacket", now))

    def on_unusable(self, session: SlotSession, cause: str, *, video: bool) -> None:
        self.unusable.append((cause, video))

    def on_closed(self, session: SlotSession, reason: CloseReason) -> None:
        self.gone.append(reason)


def session_of_a_new_publisher() -> tuple[RecordingOwner, SlotSession]:
    async def sit() -> tuple[RecordingOwner, SlotSession]:
        stream = RecordingOwner()
        return stream, SlotSession(stream, GRANT, FakePublisher(), 100.0)

    return run(sit())


def picture(*, key: bool = True) -> MediaPacket:
    return MediaPacket(track=VIDEO, dts=0, pts=0, key=key, data=b"x")


def test_a_source_is_healthy_since_its_media_arrive_without_a_break() -> None:
    _, session = session_of_a_new_publisher()
    assert (session.health(()).steady_since, session.last_media) == (None, None)
    session.receive_track(VIDEO, 101.0)
    session.receive_track(AUDIO, 101.1)
    for number in range(10):
        session.receive_packets([picture()], 101.1 + number)
        health = session.health(())
        assert (health.steady_since, health.last_media) == (101.0, 101.1 + number)
    session.receive_packets([picture()], 110.1 + POLICY.detect_seconds)
    assert session.health(()).steady_since == pytest.approx(112.1)


def test_a_packet_that_arrives_slowly_is_no_break() -> None:
    _, session = session_of_a_new_publisher()
    session.receive_packets([picture()], 101.0)
    for number in range(1, 6):
        session.receive_part(101.0 + number)
        assert session.is_sending(102.9 + number)
    session.receive_packets([picture()], 107.0)
    assert (session.health(()).steady_since, session.last_media) == (101.0, 107.0)


def test_media_that_cannot_be_used_are_told_once_if_none_can_for_a_second() -> None:
    stream, session = session_of_a_new_publisher()
    for tenth in range(10):
        session.receive_unusable("odd", 101.0 + tenth / 10, video=True)
        assert session.is_sending(102.9)
    assert stream.unusable == []
    for tenth in range(30):
        session.receive_unusable("odd", 102.0 + tenth / 10, video=True)
    assert stream.unusable == [("odd", True)]
    # For failover it is as good as silent.
    health = session.health(())
    assert (health.last_media, health.steady_since, health.playable) == (None, None, False)
    assert not session.is_sending(107.0)
    # A few packets before their configuration are nothing.
    for sound in range(5):
        session.receive_unusable("early", 110.0 + sound, video=False)
        session.receive_track(AUDIO, 110.1 + sound)
        packet = MediaPacket(track=AUDIO, dts=0, pts=0, key=True, data=b"x")
        session.receive_packets([packet], 110.2 + sound)
    assert stream.unusable == [("odd", True)]
    session.receive_packets([picture()], 120.0)
    session.receive_unusable("again", 121.0, video=True)
    session.receive_unusable("again", 122.0, video=True)
    assert stream.unusable == [("odd", True), ("again", True)]


def test_it_is_playable_from_a_keyframe_on() -> None:
    _, session = session_of_a_new_publisher()
    session.receive_track(VIDEO, 101.0)
    session.receive_track(AUDIO, 101.0)
    session.receive_packets([picture(key=False)], 101.1)
    assert not session.health(()).playable
    session.receive_packets([picture()], 101.2)
    assert session.health(()).playable


def test_a_changed_detection_time_applies_from_when_it_is_set() -> None:
    _, session = session_of_a_new_publisher()
    session.receive_track(VIDEO, 101.0)
    session.receive_track(AUDIO, 101.0)
    session.receive_packets([picture()], 101.0)
    session.set_policy(Policy(detect_seconds=5.0))
    session.receive_packets([picture(key=False)], 104.0)
    assert session.health(()).steady_since == 101.0
    assert session.health(()).playable
    session.set_policy(Policy(detect_seconds=1.0))
    session.receive_packets([picture(key=False)], 105.0)
    assert session.health(()).steady_since == 105.0
    assert not session.health(()).playable


def test_a_source_that_was_cut_off_is_healthy_from_its_return_on() -> None:
    _, session = session_of_a_new_publisher()
    session.receive_packets([picture()], 101.0)
    session.cut_off(102.0)
    session.receive_packets([picture()], 102.5)
    health = session.health(())
    assert (health.steady_since, health.last_media, health.cut_off_at) == (101.0, 102.5, 102.0)
    session.restore(104.0)
    health = session.health(())
    assert (health.steady_since, health.last_media, health.cut_off_at) == (104.0, 102.5, None)


def test_a_source_with_a_picture_continues_a_run_with_a_picture() -> None:
    _, session = session_of_a_new_publisher()
    session.receive_track(VIDEO, 101.0)
    session.receive_track(AUDIO, 101.0)
    for run_tracks, fits in (((), True), ((VIDEO,), True), ((AUDIO,), False)):
        health = session.health(run_tracks)
        assert (health.continues_run, health.has_picture) == (fits, True)


def test_items_without_a_time_get_the_newest_known_time() -> None:
    stream, session = session_of_a_new_publisher()
    session.receive_packets([picture()], 101.0)
    session.close(goodbye=True)
    assert stream.found_at == [("SourceBegun", 101.0), ("MediaPacket", 101.0)]
    assert stream.gone == [CloseReason.GOODBYE]
    stream, session = session_of_a_new_publisher()
    session.receive_track(VIDEO, 101.0)
    session.receive_track(AUDIO, 101.0)
    session.tick(103.0)
    session.clock_jumped()
    assert stream.found_at == [("SourceBegun", 101.0), ("SourceBegun", 103.0)]


@pytest.mark.parametrize("why", [None, *CloseReason])
def test_the_close_reason_is_the_given_one_or_lost(why: CloseReason | None) -> None:
    stream, session = session_of_a_new_publisher()
    session.close(goodbye=False, reason=why)
    assert stream.gone == [why or CloseReason.LOST]


def test_a_lag_of_the_loop_neither_interrupts_a_source_nor_makes_it_late() -> None:
    lag = LoopLag()
    lag.beat(101.0)
    stream = RecordingOwner()
    session = SlotSession(stream, GRANT, FakePublisher(), 101.0, lag)
    session.receive_track(VIDEO, 101.0)
    session.receive_track(AUDIO, 101.0)
    session.receive_packets([picture()], 101.0)
    lag.beat(104.0)
    for at in (1000, 2000, 3000):  # sent in time, and read all at once
        packet = MediaPacket(track=VIDEO, dts=at, pts=at, key=False, data=b"x")
        session.receive_packets([packet], 104.0)
    health = session.health(())
    assert (health.steady_since, health.last_late) == (101.0, None)
    assert health.playable
