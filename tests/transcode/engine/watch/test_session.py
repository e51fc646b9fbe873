"""Two encoders of one programme, compared by their sound."""

import numpy as np
import pytest

from tests.support.engine.programmes import RATE, CodedSound, Wave, programme
from transcode.engine.watch.session import WatchSession
from transcode.protocol.watch_messages import Compare, Compared, Unwatch, Watch, WatchedSound

FULL = 26


def compared(
    reference: CodedSound, other: CodedSound, *, seconds: float = 5, near_us: int | None = None
) -> Compared:
    session = WatchSession()
    for number, sound in enumerate((reference, other)):
        session.handle(Watch(source=number, audio=sound.track))
        session.handle(WatchedSound(source=number, packets=sound.packets))
    answer = session.handle(Compare(reference=0, other=1, seconds=seconds, near_us=near_us))
    assert isinstance(answer, Compared)
    return answer


def part(wave: Wave, since: float, seconds: float) -> Wave:
    return wave[round(since * RATE) : round((since + seconds) * RATE)]


def worse(wave: Wave) -> CodedSound:
    """Half as loud, with noise, of another rate."""
    noise = np.random.default_rng(1).standard_normal(len(wave)) * 0.005
    return CodedSound((wave * 0.5 + noise).astype("f4"), kbit=64, rate=44_100)


@pytest.fixture(scope="module")
def long_programme() -> Wave:
    return programme(50, seed=3)


@pytest.fixture(scope="module")
def first(long_programme: Wave) -> CodedSound:
    """What the first encoder sends of it from the 12th second on, in stereo."""
    return CodedSound(part(long_programme, 12, FULL), start_ms=5_000_000, layout="stereo")


@pytest.mark.parametrize("behind_ms", [-9_500, -3_000, -300, 0, 33, 1_371, 3_000, 9_500])
def test_offset_is_found_wherever_it_is(
    first: CodedSound, long_programme: Wave, behind_ms: int
) -> None:
    found = compared(first, worse(part(long_programme, 12 - behind_ms / 1000, FULL)))
    # What the first shows at 5,000 s + t the other shows at t + `behind`.
    assert found.offset_us is not None
    assert found.exact
    assert abs(found.offset_us / 1000 + 5_000_000 - behind_ms) < 4
    assert found.ratio > 3


def test_near_an_assumed_offset_three_seconds_are_enough() -> None:
    whole = programme(12, seed=4)
    first, other = CodedSound(part(whole, 1.5, 8)), worse(part(whole, 0, 8))
    found = compared(first, other, seconds=3, near_us=1_400_000)
    assert found.offset_us is not None
    assert abs(found.offset_us / 1000 - 1500) < 4
    far = compared(first, other, seconds=3, near_us=900_000)
    assert far.offset_us is None


def coded(wave: Wave) -> CodedSound:
    return CodedSound(wave.astype("f4"))


TIMES = np.arange(FULL * RATE) / RATE
TONE = 0.3 * np.sin(2 * np.pi * 1000 * TIMES)
PIPS = TONE * ((TIMES % 5) < 0.1)


@pytest.mark.parametrize(
    ("first", "other", "reason"),
    [
        (np.zeros(FULL * RATE), np.zeros(FULL * RATE), "silent"),
        (programme(FULL, 1), np.zeros(FULL * RATE), "silent"),
        (TONE, TONE, "steady"),
        (PIPS, np.roll(PIPS, RATE), "ambiguous"),
        (np.tile(programme(2, 5), 13), np.tile(programme(2, 5), 13), "ambiguous"),
        (programme(FULL, 1), programme(FULL, 2), "different"),
        (programme(4, 1), programme(4, 1), "too short"),
    ],
    ids=["silence", "one is silent", "a tone", "pips", "a loop", "two programmes", "too little"],
)
def test_what_cannot_be_believed_has_a_reason(first: Wave, other: Wave, reason: str) -> None:
    found = compared(coded(first), coded(other))
    assert (found.offset_us, found.reason) == (None, reason)


def test_holes_and_damaged_packets_are_silence() -> None:
    whole = programme(FULL, seed=6)
    first, other = coded(whole), coded(whole)
    chance = np.random.default_rng(2).random(len(other.packets) // 5 + 1)
    # A tenth is lost and a tenth damaged, a tenth of a second at a time.
    other.packets = tuple(
        (pts, b"\x21\xff" * 40 if chance[number // 5] < 0.2 else data)
        for number, (pts, data) in enumerate(other.packets)
        if chance[number // 5] > 0.1
    )
    found = compared(first, other)
    assert found.offset_us is not None
    assert abs(found.offset_us) < 2_000


def test_a_source_without_sound_or_that_is_gone_has_none() -> None:
    session, sound = WatchSession(), coded(programme(6, 1))
    for number in (0, 1):
        session.handle(Watch(source=number, audio=sound.track))
        session.handle(WatchedSound(source=number, packets=sound.packets))
    order = Compare(reference=0, other=1, seconds=3, near_us=0)

    def reason() -> object:
        answer = session.handle(order)
        assert isinstance(answer, Compared)
        return answer.reason

    assert reason() is None
    session.handle(Unwatch(source=1))
    assert reason() == "no sound"
    session.handle(Watch(source=1, audio=None))
    session.handle(WatchedSound(source=1, packets=sound.packets))
    assert reason() == "no sound"
    session.handle(Watch(source=1, audio=sound.track))
    assert reason() == "no sound"
