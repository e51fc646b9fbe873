import pytest

from ingest.stream.failover import Policy
from ingest.stream.slot_session import Leaving, Seat
from ingest.stream.track_finder import Begun, Found
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO, Encoder
from tests.support.ingest.virtual_clock import run

POLICY = Policy(detect_seconds=2.0)


class Stream:
    """A stream that writes down what it is told, and fills the seat's ring as a real one does."""

    def __init__(self) -> None:
        self.found_at: list[tuple[str, float]] = []
        self.gone: list[Leaving] = []

    def found(self, seat: Seat, found: list[Found], now: float) -> None:
        for value in found:
            if isinstance(value, Begun):
                seat.ring.begin(value.tracks)
            else:
                seat.ring.put(value, now)
            self.found_at.append((type(value).__name__, now))

    def left(self, seat: Seat, why: Leaving) -> None:
        self.gone.append(why)


def seated() -> tuple[Stream, Seat]:
    async def sit() -> tuple[Stream, Seat]:
        stream = Stream()
        return stream, Seat(stream, GRANT, Encoder(), 100.0)

    return run(sit())


def picture(*, key: bool = True) -> MediaPacket:
    return MediaPacket(track=VIDEO, dts=0, pts=0, key=key, data=b"x")


def test_a_source_is_well_since_its_media_comes_without_a_break() -> None:
    _, seat = seated()
    assert (seat.health(()).since, seat.last) == (None, None)
    seat.track(VIDEO, 101.0)
    seat.track(AUDIO, 101.1)
    for number in range(10):
        seat.packet(picture(), 101.1 + number)
        health = seat.health(())
        assert (health.since, health.last) == (101.0, 101.1 + number)
    seat.packet(picture(), 110.1 + POLICY.detect_seconds)
    assert seat.health(()).since == pytest.approx(112.1)


def test_it_is_playable_from_a_keyframe_on() -> None:
    _, seat = seated()
    seat.track(VIDEO, 101.0)
    seat.track(AUDIO, 101.0)
    seat.packet(picture(key=False), 101.1)
    assert not seat.health(()).playable
    seat.packet(picture(), 101.2)
    assert seat.health(()).playable


def test_a_longer_time_of_detection_holds_from_when_it_is_said() -> None:
    _, seat = seated()
    seat.track(VIDEO, 101.0)
    seat.track(AUDIO, 101.0)
    seat.packet(picture(), 101.0)
    seat.detect(5.0)
    seat.packet(picture(key=False), 104.0)
    assert seat.health(()).since == 101.0
    assert seat.health(()).playable
    seat.detect(1.0)
    seat.packet(picture(key=False), 105.0)
    assert seat.health(()).since == 105.0
    assert not seat.health(()).playable


def test_who_was_cut_off_is_well_from_its_return_on() -> None:
    _, seat = seated()
    seat.packet(picture(), 101.0)
    seat.cut_off(102.0)
    seat.packet(picture(), 102.5)
    health = seat.health(())
    assert (health.since, health.last, health.cut) == (101.0, 102.5, 102.0)
    seat.join_again(104.0)
    health = seat.health(())
    assert (health.since, health.last, health.cut) == (104.0, 102.5, None)


def test_it_fits_into_a_run_that_has_a_picture_too() -> None:
    _, seat = seated()
    seat.track(VIDEO, 101.0)
    seat.track(AUDIO, 101.0)
    for run_tracks, fits in (((), True), ((VIDEO,), True), ((AUDIO,), False)):
        health = seat.health(run_tracks)
        assert (health.fits, health.picture) == (fits, True)


def test_what_has_no_time_of_its_own_happens_at_the_newest_that_is_known() -> None:
    stream, seat = seated()
    seat.packet(picture(), 101.0)
    seat.leave(goodbye=True)
    assert stream.found_at == [("Begun", 101.0), ("MediaPacket", 101.0)]
    assert stream.gone == [Leaving.GOODBYE]
    stream, seat = seated()
    seat.track(VIDEO, 101.0)
    seat.track(AUDIO, 101.0)
    seat.tick(103.0)
    seat.clock_jumped()
    assert stream.found_at == [("Begun", 101.0), ("Begun", 103.0)]


@pytest.mark.parametrize("why", [None, *Leaving])
def test_why_it_is_empty_is_what_is_said_or_else_that_it_was_lost(why: Leaving | None) -> None:
    stream, seat = seated()
    seat.leave(goodbye=False, why=why)
    assert stream.gone == [why or Leaving.LOST]
