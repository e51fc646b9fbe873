"""When packets were due, from their timestamps and arrival times."""

import pytest

from ingest.stream.arrival_clock import ArrivalClock
from media.packet import MediaPacket
from media.track import Track
from tests.support.ingest.measured_encoders import AUDIO, VIDEO


def packet(seconds: float, track: Track = AUDIO) -> MediaPacket:
    ticks = round(seconds * track.scale)
    return MediaPacket(track=track, dts=ticks, pts=ticks, key=True, data=b"")


def fed(pace: ArrivalClock, came: list[tuple[float, float]]) -> list[float]:
    """Return the due times of packets, given their (media time, arrival time)."""
    dues: list[float] = []
    for media, now in came:
        dues += pace.record([packet(media)], now)
        assert pace.dues([packet(media)], now) == dues[-1:]
    return dues


def test_packets_that_arrive_steadily_are_due_on_arrival() -> None:
    assert fed(ArrivalClock(), [(media, 100 + media) for media in range(60)]) == [
        pytest.approx(100 + media) for media in range(60)
    ]


def test_packets_that_were_held_up_were_due_earlier() -> None:
    dues = fed(
        ArrivalClock(), [(0.0, 100.0), (1.0, 101.0), (2.0, 103.4), (2.5, 103.4), (4.0, 104.0)]
    )
    assert dues == pytest.approx([100, 101, 102, 102.5, 104])


def test_no_packet_is_due_after_its_arrival() -> None:
    dues = fed(ArrivalClock(), [(0.0, 100.0), (2.0, 101.0), (3.0, 102.0)])
    assert dues == pytest.approx([100, 101, 102])


def test_a_lasting_delay_is_accepted_as_normal_after_a_while() -> None:
    pace = ArrivalClock()
    fed(pace, [(media, 100.0 + media) for media in range(60)])
    late = fed(pace, [(media, 101.0 + media) for media in range(60, 110)])
    assert late[0] == pytest.approx(160)
    assert late[-1] == pytest.approx(210)


def test_packets_after_a_stall_of_seconds_were_due_earlier() -> None:
    pace = ArrivalClock()
    fed(pace, [(media, 100.0 + media) for media in range(60)])
    late = fed(pace, [(60.0, 166.0), (61.0, 166.2), (62.0, 166.4), (67.0, 167.0)])
    assert late == pytest.approx([160, 161, 162, 167])


def test_a_clock_that_steps_back_is_followed_at_once() -> None:
    pace = ArrivalClock()
    fed(pace, [(media, 100.0 + media) for media in range(60)])
    assert fed(pace, [(10.0, 165.0)]) == pytest.approx([165])


def test_a_restarted_clock_is_followed_at_once() -> None:
    pace = ArrivalClock()
    fed(pace, [(50.0, 100.0)])
    pace.reset()
    assert fed(pace, [(49.0, 101.0)]) == pytest.approx([101])


@pytest.mark.parametrize("ppm", [-1000, 1000])
def test_a_clock_with_a_wrong_rate_is_followed(ppm: int) -> None:
    rate = 1 + ppm / 1_000_000
    dues = fed(ArrivalClock(), [(media, 100 + media * rate) for media in range(4000)])
    assert all(abs(due - (100 + media * rate)) < 0.05 for media, due in enumerate(dues))


@pytest.mark.parametrize("offset", [-7_200, -60, -3, 3, 60, 7_200])
def test_each_track_has_its_own_clock(offset: float) -> None:
    """The sound's timestamps are ahead of the picture's, or behind, though both arrive together."""
    clock = ArrivalClock()
    for second in range(60):
        now = 100.0 + second
        for each in (packet(second, VIDEO), packet(second + offset)):
            assert clock.record([each], now) == pytest.approx([now])
