"""What is passed on of the session on air, and what is held back of it."""

from collections.abc import Sequence

import msgspec
import pytest

from ingest.stream.airing import Airing
from ingest.stream.run_feed import RunFeed
from ingest.stream.slot_session import SlotSession
from media.packet import MediaPacket
from media.stream_keys import Slot
from media.track import AudioTrack, VideoTrack
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO, FakePublisher, Sink
from tests.ingest.stream.test_slot_session import RecordingOwner

MOST = 3.0


class Apart:
    """Slots of which each is 200 ms behind the one before it."""

    def offset(self, slot: Slot, other: Slot) -> float | None:
        return (other.number - slot.number) / 5

    def is_awaited(self, slot: Slot, other: Slot) -> bool:
        return False


def session_in(slot: int) -> SlotSession:
    grant = msgspec.structs.replace(GRANT, slot=Slot(slot))
    session = SlotSession(RecordingOwner(), grant, FakePublisher(), 0.0)
    session.buffer.begin((VIDEO, AUDIO))
    session.arrival_clock.record([packet(0)], 0.0)
    return session


def packet(at: int, track: VideoTrack | AudioTrack = VIDEO, *, key: bool = True) -> MediaPacket:
    return MediaPacket(track=track, dts=at, pts=at, key=key, data=b"x")


class Shown:
    """A run that is open, and the airing into it of the session in slot 0."""

    def __init__(self) -> None:
        self.session = session_in(0)
        self._sink = Sink(lambda: None)
        feed = RunFeed("Ab3", lambda: 0.0, lambda: None)
        feed.open(self._sink)
        feed.begin((VIDEO, AUDIO), 0.0)
        self.airing = Airing(feed, Apart())
        self.airing.begin(self.session, 0.0, moment=0.0)

    def send(self, *packets: MediaPacket, now: float) -> bool:
        return self.airing.show(packets, [each.dts / 1000 for each in packets], now)

    @property
    def times(self) -> Sequence[int]:
        return [packet.dts for packet in self._sink.packets]


def test_a_session_that_is_not_held_back_is_passed_on_as_it_comes() -> None:
    shown = Shown()
    assert not shown.send(packet(0), packet(40), now=0.04)
    assert shown.times == [0, 40]
    assert (shown.airing.shown_until, shown.airing.due) == (0.04, 0.04)
    assert shown.airing.moment_of(shown.session) == pytest.approx(0.08)


def test_what_is_held_back_is_passed_on_as_its_time_comes() -> None:
    shown = Shown()
    assert shown.airing.hold_back(0.1, MOST)
    shown.send(packet(0), packet(40), packet(80), now=0.1)
    assert shown.times == [0]
    assert shown.airing.due == pytest.approx(0.1)
    assert not shown.airing.release(0.15)
    assert shown.times == [0, 40]
    shown.send(packet(120), now=0.15)
    shown.airing.flush()
    assert shown.times == [0, 40, 80, 120]


def test_it_is_held_back_for_a_bounded_time() -> None:
    airing = Shown().airing
    assert airing.hold_back(2.0, MOST)
    assert airing.hold_back(2.0, MOST)
    assert airing.due == MOST
    assert not airing.hold_back(0.1, MOST)


def test_nothing_is_passed_on_from_the_limit_on_but_sound_before_it() -> None:
    shown = Shown()
    shown.airing.limit = 0.08
    assert not shown.send(packet(0), packet(40), now=0.04)
    assert shown.send(packet(80), packet(120), packet(60, AUDIO), packet(90, AUDIO), now=0.12)
    assert shown.times == [0, 40, 60]
    assert shown.airing.release(0.13)
    assert shown.times == [0, 40, 60]


def test_the_next_session_drops_what_was_held_back_and_the_end_passes_it_on() -> None:
    shown = Shown()
    shown.airing.hold_back(1.0, MOST)
    shown.send(packet(0), now=0.0)
    other = session_in(1)
    shown.airing.begin(other, 0.5, moment=0.5, delay=1.0)
    assert shown.times == []
    assert shown.airing.moment_of(other) == 0.5
    shown.send(packet(540), now=0.54)
    shown.airing.end()
    assert shown.times == [540]
    assert shown.airing.session is None
    assert shown.airing.moment_of(other) is None


def test_a_moment_of_one_session_is_one_of_another() -> None:
    shown = Shown()
    shown.send(packet(0), packet(40), now=0.04)
    second = session_in(1)
    assert shown.airing.moment_of(second) == pytest.approx(0.28)
    assert shown.airing.lead(shown.session, second) == pytest.approx(0.2)
    assert shown.airing.lead(second, shown.session) == 0.0
    assert shown.airing.leads_by(second) == pytest.approx(-0.2)
    assert shown.airing.leads_by(shown.session) == 0.0


def test_once_the_session_on_air_has_ended_only_those_that_were_there_are_known() -> None:
    shown = Shown()
    shown.send(packet(0), packet(40), now=0.04)
    second = session_in(1)
    shown.airing.lose({second.slot: second})
    assert shown.airing.offset_of(second) == pytest.approx(0.2)
    assert shown.airing.offset_of(session_in(1)) is None


def test_a_clock_that_restarts_has_no_moment_yet() -> None:
    shown = Shown()
    shown.airing.hold_back(1.0, MOST)
    shown.send(packet(0), packet(40), now=0.04)
    shown.airing.restart()
    assert shown.times == [0, 40]
    assert shown.airing.moment_of(shown.session) is None
