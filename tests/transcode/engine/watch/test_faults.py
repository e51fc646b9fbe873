"""What is a fault of one encoder, and what is the programme's, on signatures that are made up."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from media.ticks import VIDEO_SCALE
from tests.conftest import Proof
from tests.support.engine.made_signatures import PER_SECOND, Programme, encoded, programme, until
from transcode.engine.watch.faults import (
    LastingFaults,
    Shown,
    SourceFinding,
    judge,
    late_faults,
)

SECONDS = 20
BEGAN = 15
NOW = SECONDS * VIDEO_SCALE - VIDEO_SCALE // PER_SECOND
FIRST = BEGAN * PER_SECOND


def broken(shown: Programme, kind: str) -> Programme:
    """A copy of which the last 5 s are black, frozen or silent."""
    blocks, bright = shown.blocks.copy(), shown.bright.copy()
    decibels = shown.decibels.copy()
    match kind:
        case "black":
            blocks[FIRST:], bright[FIRST:] = 16, 18
        case "frozen":
            blocks[FIRST:], bright[FIRST:] = blocks[FIRST - 1], bright[FIRST - 1]
        case _:
            decibels[FIRST:] = -90
    return Programme(blocks, bright, decibels)


def moving(seed: int) -> Programme:
    """A programme that moves and sounds in its last seconds."""
    made = programme(SECONDS, seed)
    wave = np.sin(np.arange(5 * PER_SECOND) / 3)
    made.blocks[FIRST:, 40:60] += 20 * wave[:, None].astype("f4")
    return made


def found(
    own: Shown, other: Shown, shift: float | None = 0.0, now: int = NOW
) -> list[SourceFinding]:
    return judge(own, other, None if shift is None else round(shift * VIDEO_SCALE), now)


@pytest.mark.parametrize("kind", ["black", "frozen", "silent"])
def test_what_one_alone_shows_is_its_fault(kind: str) -> None:
    for seed in range(20):
        made = moving(seed)
        own = encoded(broken(made, kind), seed, quieter=6)
        other = encoded(made, seed + 1, gain=0.95, behind=1.3, sound_behind=0.1)
        (fault,) = found(own, other, 1.3)
        assert (fault.kind, fault.verdict) == (kind, "fault")
        # A still picture may be that of the programme for a while, and is judged second by second.
        apart = fault.since / VIDEO_SCALE - BEGAN
        assert abs(apart) <= (1 if kind == "frozen" else 0.1)
        assert fault.until == NOW
        assert fault.confidence > 0.6
        assert found(other, own, -1.3, NOW + round(1.3 * VIDEO_SCALE)) == []


@pytest.mark.parametrize("kind", ["black", "frozen", "silent"])
def test_what_both_show_is_the_programme(kind: str) -> None:
    made = broken(moving(3), kind)
    (both,) = found(encoded(made, 1), encoded(made, 2, quieter=6))
    assert (both.kind, both.verdict, both.confidence) == (kind, "both", 0)


@pytest.mark.parametrize("kind", ["black", "frozen", "silent"])
@pytest.mark.parametrize("why", ["no offset", "not seen", "another programme"])
def test_what_cannot_be_told_is_unknown(kind: str, why: str) -> None:
    made = moving(4)
    own = encoded(broken(made, kind), 1)
    other = encoded(moving(5) if why == "another programme" else made, 2)
    if why == "not seen":
        other = until(other, BEGAN * VIDEO_SCALE)
    (unknown,) = found(own, other, None if why == "no offset" else 0.0)
    assert (unknown.kind, unknown.verdict, unknown.confidence) == (kind, "unknown", 0)


def test_a_picture_that_the_other_one_never_showed_is_no_frozen_one() -> None:
    made = moving(6)
    slate = Programme(made.blocks.copy(), made.bright, made.decibels)
    slate.blocks[FIRST:] = np.linspace(30, 200, 144)
    (finding,) = found(encoded(slate, 1), encoded(made, 2))
    assert (finding.kind, finding.verdict) == ("frozen", "unknown")


def test_a_frozen_picture_is_found_where_pictures_come_late() -> None:
    """Nine seconds of it come at once: what both show by then says nothing of how it began."""
    for seed in range(20):
        made = programme(30, seed)
        made.blocks[FIRST:, 40:60] += 20 * np.sin(np.arange(150) / 3)[:, None].astype("f4")
        own, other = encoded(broken(made, "frozen"), 1), encoded(made, 2)
        now = int(own.pictures.times[-1])
        newest = judge(own, other, 0, now)
        assert [(each.kind, each.verdict) for each in newest] == [("frozen", "unknown")]
        late = late_faults(own, other, 0, now - 20 * VIDEO_SCALE, now)
        (fault,) = LastingFaults().update(newest, late)
        assert (fault.kind, fault.verdict, fault.until) == ("frozen", "fault", now)
        assert abs(fault.since / VIDEO_SCALE - BEGAN) <= 1
        assert LastingFaults().update([], late) == []


def test_what_was_long_ago_or_is_short_is_nothing() -> None:
    made = moving(7)
    own, other = encoded(broken(made, "black"), 1), encoded(made, 2)
    assert found(own, other, now=NOW + 2 * VIDEO_SCALE) == []
    early = until(own, (BEGAN * VIDEO_SCALE) + VIDEO_SCALE // 2)
    assert found(early, other, now=int(early.pictures.times[-1])) == []


@pytest.mark.parametrize(("gain", "lift"), [(219 / 255, 16 - 16 * 219 / 255), (255 / 219, -18.6)])
def test_black_is_black_in_a_wrong_range(gain: float, lift: float) -> None:
    """An encoder that takes 16 to 235 for 0 to 255 sends 30 where black is; or 0."""
    made = moving(8)
    own = encoded(broken(made, "black"), 1, gain=gain, lift=lift)
    (fault,) = found(own, encoded(made, 2))
    assert (fault.kind, fault.verdict) == ("black", "fault")


def test_titles_on_black_are_not_black() -> None:
    made = moving(9)
    titles = broken(made, "black")
    titles.bright[FIRST:] = 200  # two hundredths of the pixels
    assert [each.kind for each in found(encoded(titles, 1), encoded(made, 2))] == ["frozen"]


def test_a_fault_lasts_until_something_else_is_shown() -> None:
    faults = LastingFaults()
    finding = SourceFinding(kind="black", verdict="fault", since=0, until=300_000, confidence=0.9)
    assert faults.update([finding]) == [finding]
    assert faults.of_picture
    # What was before is forgotten, or the programme has become black as well.
    later = SourceFinding(
        kind="black", verdict="unknown", since=250_000, until=390_000, confidence=0
    )
    assert faults.update([later]) == [msgspec.structs.replace(finding, until=390_000)]
    assert faults.update([]) == []
    assert not faults.of_picture
    assert faults.update([later]) == [later]


# -- programmes in which nothing is wrong ---------------------------------------------------------


def fades(made: Programme, random: np.random.Generator) -> None:
    """Black and silence of 1 to 8 s, into which the picture fades."""
    for first in range(80, len(made) - 120, 150):
        length = int(random.uniform(10, 80))
        fade = np.concatenate([np.linspace(1, 0, 15), np.zeros(length), np.linspace(0, 1, 10)])
        part = slice(first, first + len(fade))
        made.blocks[part] = 16 + (made.blocks[part] - 16) * fade[:, None]
        made.bright[part] = 16 + (made.bright[part] - 16) * fade
        made.decibels[part] = np.where(fade > 0, made.decibels[part], -90)


def pauses(made: Programme, random: np.random.Generator) -> None:
    for first in range(50, len(made) - 100, 120):
        part = slice(first, first + int(random.uniform(5, 90)))
        made.decibels[part] = random.uniform(-95, -55)


def slides(made: Programme, random: np.random.Generator) -> None:
    """A picture for up to a minute, with a pointer on it now and then."""
    place = 0
    while place < len(made):
        part = slice(place, place + int(random.uniform(50, 600)))
        made.blocks[part] = made.blocks[place]
        made.bright[part] = 235
        if random.random() < 0.5:
            moving = slice(place + 20, place + 40)
            made.blocks[moving, 70] += np.float32(15) * (np.arange(len(made.blocks[moving])) % 5)
        place = part.stop


def with_adverts(made: Programme, seed: int) -> Programme:
    """Return what another way sends: adverts for 20 s of each minute."""
    others = programme(len(made) / PER_SECOND, seed)
    rows = np.arange(len(made)) % 600
    adverts = (rows >= 200) & (rows < 400)
    return Programme(
        np.where(adverts[:, None], others.blocks, made.blocks),
        np.where(adverts, others.bright, made.bright),
        np.where(adverts, others.decibels, made.decibels),
    )


def fades_and_pauses(made: Programme, random: np.random.Generator) -> None:
    fades(made, random)
    pauses(made, random)


def nothing_else(_: Programme, __: np.random.Generator) -> None:
    pass


Change = Callable[[Programme, np.random.Generator], None]
WELL: dict[str, tuple[float, Change]] = {
    "usual": (1.0, nothing_else),
    "dark scenes": (0.05, nothing_else),
    "very dark scenes": (0.02, nothing_else),
    "fades to black": (1.0, fades),
    "pauses": (1.0, pauses),
    "slides": (1.0, slides),
    "adverts in one, usual": (1.0, nothing_else),
    "adverts in one, slides": (1.0, slides),
    "adverts in one, fades and pauses": (1.0, fades_and_pauses),
}
OFFSET = 0.8
LATE_SECONDS = 5
ERRORS = [-0.3, -0.02, 0.0, 0.2]  # of lip sync, and of what is believed


def faults_found(name: str, minutes: int, seed: int, seconds: range | None = None) -> int:
    """Judge two encoders that are alike, every second; return how many faults were found.

    Now and then some seconds are judged once more, as where pictures are decoded late.
    """
    light, change = WELL[name]
    random = np.random.default_rng(seed)
    made = programme(60 * minutes, seed, light=light)
    change(made, random)
    other = with_adverts(made, seed + 50) if name.startswith("adverts") else made
    error = ERRORS[seed % len(ERRORS)]
    pair = (
        encoded(made, seed, noise=0.1),
        encoded(other, seed + 7, noise=0.3, gain=0.97, behind=OFFSET, sound_behind=0.2, quieter=4),
    )
    shift = round((OFFSET + error) * VIDEO_SCALE)
    faults = 0
    lasting = LastingFaults(), LastingFaults()
    for second in range(3, 60 * minutes) if seconds is None else seconds:
        now = second * VIDEO_SCALE
        kept = until(pair[0], now), until(pair[1], now)
        for number, by in ((0, shift), (1, -shift)):
            own, by_other = kept[number], kept[1 - number]
            found, late = judge(own, by_other, by, now), list[SourceFinding]()
            if second % LATE_SECONDS == 0:
                late = late_faults(own, by_other, by, now - LATE_SECONDS * VIDEO_SCALE, now)
            faults += sum(
                each.verdict == "fault" and each.until - each.since >= 3 * VIDEO_SCALE
                for each in lasting[number].update(found, late)
            )
    return faults


@pytest.mark.parametrize(
    ("name", "seed", "seconds"),
    [
        pytest.param("fades and pauses", 0, range(2714, 2725), id="the cut comes later"),
        pytest.param("fades and pauses", 4, range(2530, 2545), id="a pause before the adverts"),
        pytest.param("slides", 3, range(3495, 3507), id="adverts as loud as the programme"),
    ],
)
def test_adverts_in_place_of_what_stands_still_are_no_fault(
    name: str, seed: int, seconds: range
) -> None:
    assert faults_found(f"adverts in one, {name}", 60, seed, seconds) == 0


@pytest.mark.parametrize("name", WELL)
@pytest.mark.parametrize(
    "minutes", [pytest.param(60, marks=pytest.mark.prove, id="an hour"), pytest.param(1, id="one")]
)
def test_no_fault_is_found_while_both_are_alike(name: str, minutes: int, proof: Proof) -> None:
    hours = 4 if name.startswith("adverts") else 17  # of what is alike in both, 102 in all
    seeds = range(hours) if minutes > 1 else range(1)
    faults = [faults_found(name, minutes, seed) for seed in seeds]
    proof(f"{name}: {len(faults) * minutes} minutes of two encoders", f"{sum(faults)}", "0 faults")
    assert faults == [0] * len(faults)
