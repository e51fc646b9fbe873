"""Two encoders, one of which fails to show the programme: real media, second by second."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
import pytest

from tests.conftest import Proof
from tests.support.engine.programmes import RATE, CodedSound, Wave, programme
from tests.support.engine.shown_pictures import FPS, CodedPictures, Luma, scenes
from tests.support.engine.watched_sources import Encoder, WatchedSources
from transcode.engine.watch.quality import QualityWatch
from transcode.protocol.watch_messages import AlignedSource, Found, Judge

SECONDS = 17
NEEDED = 3.0
KINDS = ["black", "frozen", "silent"]


class Try(msgspec.Struct, kw_only=True):
    """An encoder that fails at a moment, and another one that does not."""

    failing: Encoder
    well: Encoder
    began: float
    behind_ms: int
    phase_ms: int


def broken(
    pictures: Sequence[Luma], sound: Wave, kind: str, began: float
) -> tuple[list[Luma], Wave]:
    place, heard = int(began * FPS), sound.copy()
    shown = list(pictures[:place])
    match kind:
        case "black":
            shown += [np.full_like(pictures[0], 16)] * (len(pictures) - place)
        case "frozen":
            shown += [pictures[place - 1]] * (len(pictures) - place)
        case _:
            shown = list(pictures)
            heard[round(began * RATE) :] = 0
    return shown, heard


@lru_cache(3)
def failing(kind: str, seed: int, *, kbit: int = 600, gop: int = 2 * FPS) -> Try:
    random = np.random.default_rng(seed)
    seconds = SECONDS + gop / FPS
    began = random.uniform(9.5, 11.5)
    pictures, sound = list(scenes(seconds, seed)), programme(seconds, seed)
    shown, heard = broken(pictures, sound, kind, began)
    behind = int(random.uniform(-1000, 1000))
    return Try(
        failing=Encoder(pictures=CodedPictures(shown, kbit=kbit, gop=gop), sound=CodedSound(heard)),
        well=Encoder(
            pictures=CodedPictures(
                pictures, kbit=2 * kbit, gop=gop, bframes=0, start_ms=5_000 + behind
            ),
            sound=CodedSound(sound, kbit=64, rate=44_100, layout="mono", start_ms=5_000 + behind),
            start_ms=5_000 + behind,
        ),
        began=began,
        behind_ms=5_000 + behind,
        phase_ms=int(random.uniform(0, 1000)),
    )


def found_after(of: Try, kind: str, gop_seconds: float = 2, *, late_ms: int = 0) -> float:
    """Return after how many seconds the fault was found; there may be no other.

    What the other encoder sends comes `late_ms` later.
    """
    sources = WatchedSources([of.failing, msgspec.structs.replace(of.well, late_ms=late_ms)])
    for now_ms in range(of.phase_ms, round(1000 * (SECONDS + gop_seconds)), 1000):
        sources.send(now_ms)
        faults = [each for each in sources.judge([0, of.behind_ms]) if each.verdict == "fault"]
        for each in faults:
            assert (each.source, each.kind) == (0, kind), each
            if each.seconds >= NEEDED:
                return now_ms / 1000 - of.began
    return 1000.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "tries", [pytest.param(34, marks=pytest.mark.prove, id="many"), pytest.param(1, id="one")]
)
def test_a_fault_of_three_seconds_is_found_within_five(kind: str, tries: int, proof: Proof) -> None:
    longest = max(found_after(failing(kind, seed), kind) for seed in range(tries))
    proof(f"{kind} of one of two, {tries} tries: found after", f"{longest:.1f} s", "5 s")
    assert longest <= 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "late_ms",
    [
        pytest.param(1000, marks=pytest.mark.prove),
        2000,
        pytest.param(3000, marks=pytest.mark.prove),
    ],
)
def test_a_fault_is_found_by_an_encoder_that_comes_late(kind: str, late_ms: int) -> None:
    """A fault counts after 3 s, and takes 2 s of what the other one shows meanwhile."""
    found = found_after(failing(kind, 0), kind, late_ms=late_ms)
    assert found <= max(5, late_ms / 1000 + 2 + 1)


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["black", "frozen"])
def test_a_fault_in_long_gops_is_found_within_five_seconds_and_one_of_them(
    kind: str, proof: Proof
) -> None:
    gop = round(8.3 * FPS)
    longest = max(found_after(failing(kind, seed, gop=gop), kind, 8.3) for seed in range(10))
    proof(f"{kind} with a keyframe every 8.3 s: found after", f"{longest:.1f} s", "5 or 13.3 s")
    assert longest <= (5 if kind == "black" else 13.3)


@pytest.mark.prove
def test_an_encoder_that_refines_what_has_frozen_is_found_out(proof: Proof) -> None:
    longest = max(found_after(failing("frozen", seed, kbit=200), "frozen") for seed in range(10))
    proof("frozen, with too few bits: found after", f"{longest:.1f} s", "7 s")
    assert longest <= 7


def judged(sources: WatchedSources, until: int, offsets: Sequence[int | None]) -> set[Found]:
    found: set[Found] = set()
    for second in range(1, until):
        sources.send(1000 * second)
        found |= set(sources.judge(offsets))
    return found


def test_nothing_is_decoded_and_nothing_known_without_an_offset() -> None:
    of = failing("silent", 0)
    found = judged(WatchedSources([of.failing, of.well]), 16, [0, None])
    assert {(each.source, each.kind, each.verdict) for each in found} == {(0, "silent", "unknown")}


def test_sound_alone_is_judged_as_well() -> None:
    of = failing("silent", 0)
    pair = [msgspec.structs.replace(each, pictures=None) for each in (of.failing, of.well)]
    found = judged(WatchedSources(pair), 16, [0, of.behind_ms])
    assert {(each.source, each.kind) for each in found if each.verdict == "fault"} == {
        (0, "silent")
    }


def test_silence_beside_another_programme_is_no_fault() -> None:
    """One way has its break in silence, the other one has adverts."""
    of, adverts = failing("silent", 0), list(scenes(SECONDS + 2, 77))
    place = int(of.began * FPS)
    shown = [*list(scenes(SECONDS + 2, 0))[:place], *adverts[place:]]
    pictures = CodedPictures(shown, start_ms=of.well.start_ms)
    other = msgspec.structs.replace(of.well, pictures=pictures)
    found = judged(WatchedSources([of.failing, other]), 16, [0, of.behind_ms])
    assert "fault" not in {each.verdict for each in found}


def test_what_is_gone_or_unknown_is_not_judged() -> None:
    quality = QualityWatch()
    quality.begin(0, None, None)
    order = Judge(sources=tuple(AlignedSource(source=number, offset_us=0) for number in (0, 1, 2)))
    assert quality.judge(order).found == ()
    quality.remove(0)
    quality.add_sound(0, ((0, b""),))
    quality.add_pictures(0, ())
    assert quality.judge(order).found == ()
