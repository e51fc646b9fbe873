"""A source that begins in the middle of a GOP: decoded from a keyframe on, shown from where it is.

Its pictures show their numbers, so what is missing or shown twice can be read from the output.
"""

import itertools
from pathlib import Path

import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import loudness, packets, warnings
from tests.support.engine.engine_process import ORIGIN, EngineOutput, begin, run
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import Source, source_of
from transcode.protocol.messages import (
    Begin,
    EngineOrder,
    ExtendSlate,
    Finish,
    Packet,
    Placed,
    Prepared,
    ShowSlate,
    Spliced,
)

SECOND = 90_000
RATE = 25
PICTURE = SECOND // RATE
TOP = "144p"
QUIET = 0.02
LATER = 5_000_000  # another clock, in ms


def film_of(folder: Path, gop: int, bframes: int) -> Source:
    path = folder / f"numbered-{gop}.flv"
    coding = ["-c:v", "libx264", "-preset", "superfast", "-bf", str(bframes), "-g", str(gop)]
    coding += ["-keyint_min", str(gop), "-sc_threshold", "0", "-c:a", "aac"]
    return source_of(numbered(path, *coding, seconds=gop / RATE + 1, size=(240, 136)))


@pytest.fixture(scope="module")
def short(folder: Path) -> Source:
    """3 s with a keyframe every 2 s and two B-frames between others."""
    return film_of(folder, 50, 2)


@pytest.fixture(scope="module")
def long(folder: Path) -> Source:
    """11 s with a keyframe every 10 s and no B-frames."""
    return film_of(folder, 250, 0)


def beginning(film: Source, picture: int) -> int:
    """Return how many packets come before the picture with that number in decode order."""
    return [index for index, packet in enumerate(film.packets) if packet.video][picture]


def number_of(film: Source, picture: Packet) -> int:
    """Return the number that a picture shows."""
    return round((picture.pts - min(each.pts for each in film.pictures)) * RATE / 1000)


def shown(output: EngineOutput, name: str) -> list[tuple[int, int]]:
    """Return time and number of a rendition's pictures."""
    return [each for file in output.files(name) for each in numbers(file)]


def levels(output: EngineOutput) -> list[float]:
    """Return the peak of each frame of sound."""
    (file,) = output.files(AUDIO_RENDITION)
    return [peak for _, peak in loudness(file)]


def moved(source: list[Packet] | tuple[Packet, ...], by: int) -> list[Packet]:
    return [msgspec.structs.replace(each, dts=each.dts + by, pts=each.pts + by) for each in source]


def is_well(output: EngineOutput) -> bool:
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert output.in_step()
    assert warnings(output) == {}
    return True


@pytest.mark.parametrize("picture", [9, 10, 11])
def test_all_pictures_from_the_beginning_on_are_shown_at_once(short: Source, picture: int) -> None:
    preroll = beginning(short, picture)
    order = msgspec.structs.replace(begin(short), preroll=preroll)
    output = run([order, *short.packets, Finish()])
    assert is_well(output)
    assert output.of(Prepared)[0].reused is None, "a copy cannot begin there"
    wanted = sorted(number_of(short, each) for each in short.packets[preroll:] if each.video)
    first = wanted[0]
    for name in output.names[:-1]:
        times = shown(output, name)
        assert [number for _, number in times] == wanted
        for at, number in times:
            assert 0 <= at - ORIGIN - (number - first) * PICTURE <= PICTURE / 4


@pytest.mark.parametrize("own_clock", [True, False])
def test_a_beginning_in_a_gop_of_ten_seconds_loses_nothing(long: Source, own_clock: bool) -> None:
    """Also if the clock has restarted since the preroll."""
    preroll = beginning(long, 200)
    rest = long.packets[preroll:]
    order = msgspec.structs.replace(begin(long), preroll=preroll)
    packets = [*long.packets[:preroll], *moved(rest, 0 if own_clock else LATER)]
    output = run([order, *packets, Finish()])
    assert is_well(output)
    (name,) = output.names[:-1]
    assert [number for _, number in shown(output, name)] == list(range(200, 275))
    (placed,) = output.of(Placed)
    first = next(each for each in packets[preroll:] if each.video)
    assert abs(90 * first.pts + placed.offset - ORIGIN) <= PICTURE / 4


def test_the_sound_is_heard_from_the_beginning_on(long: Source) -> None:
    preroll = beginning(long, 200)
    order = msgspec.structs.replace(begin(long), preroll=preroll)
    output = run([order, *long.packets, Finish()])
    assert min(levels(output)[1:30]) > QUIET, "no silence"
    (file,) = output.files(AUDIO_RENDITION)
    times = [pts for _, pts, _ in packets(file)]
    assert {after - before for before, after in itertools.pairwise(times)} == {1024}


def test_after_a_slate_the_encoders_go_on_with_the_next_picture(long: Source) -> None:
    cut, end = beginning(long, 60), beginning(long, 100)
    orders: list[EngineOrder] = [begin(long), *long.packets[:cut], ShowSlate()]
    orders += [ExtendSlate(elapsed=3 * SECOND)]
    again = msgspec.structs.replace(begin(long, epoch=1), splice=True, preroll=cut)
    output = run([*orders, again, *long.packets[:end], Finish()])
    assert is_well(output)
    assert {each.epoch for each in output.of(Segment)} == {0}
    assert [each.discontinuity for each in output.segments(TOP)].count(True) == 1, "the slate's"
    assert [each.reused for each in output.of(Spliced)] == [TOP], "from its next keyframe on"
    seen = shown(output, TOP)
    assert [number for _, number in seen[-40:]] == list(range(60, 100))
    assert abs(seen[-40][0] - ORIGIN - 60 * PICTURE - 3 * SECOND) <= PICTURE


def continued(film: Source, cut: int, order: Begin, rest: list[Packet]) -> list[EngineOrder]:
    """Return the orders of a source that goes on with another track or clock from a packet on."""
    first = msgspec.structs.replace(begin(film), audio=None if order.audio else film.audio)
    return [first, *film.packets[:cut], order, *rest, Finish()]


@pytest.mark.parametrize("late", [True, False], ids=["late", "lost"])
def test_a_changed_sound_leaves_the_picture_alone(short: Source, late: bool) -> None:
    cut = beginning(short, 30)
    order = msgspec.structs.replace(
        begin(short, epoch=1), audio=short.audio if late else None, continues=True
    )
    output = run(continued(short, cut, order, list(short.packets[cut:])))
    assert is_well(output)
    assert {(each.epoch, each.discontinuity) for each in output.of(Segment)} == {(0, False)}
    assert [each.reused for each in output.of(Spliced)] == [TOP]
    (file,) = output.files(TOP)
    assert [data for _, _, data in packets(file)] == short.published
    assert [number for _, number in shown(output, TOP)] == list(range(75))
    heard = [level > QUIET for level in levels(output)]
    changes = [index for index, (a, b) in enumerate(itertools.pairwise(heard)) if a is not b]
    assert len(changes) == 1
    assert heard[-5] is late


@pytest.mark.parametrize(("picture", "by"), [(28, LATER), (29, -LATER), (30, -400)])
def test_a_clock_that_restarts_moves_no_picture(short: Source, picture: int, by: int) -> None:
    cut = beginning(short, picture)
    order = msgspec.structs.replace(begin(short, epoch=1), continues=True, new_clock=True)
    rest = moved(short.packets[cut:], by)
    sound = next(each for each in rest if not each.video)  # it may come first
    rest.remove(sound)
    orders: list[EngineOrder] = [begin(short), *short.packets[:cut], order, sound, *rest, Finish()]
    output = run(orders)
    assert is_well(output)
    assert {(each.epoch, each.discontinuity) for each in output.of(Segment)} == {(0, False)}
    times = shown(output, TOP)
    assert [number for _, number in times] == list(range(75))
    assert all(abs(at - ORIGIN - number * PICTURE) <= 270 for at, number in times)
    assert len(output.of(Placed)) == 2
    assert min(levels(output)[1:-4]) > QUIET, "no silence"


def test_a_preroll_without_a_keyframe_is_as_good_as_none(short: Source) -> None:
    cut, end = beginning(short, 20), beginning(short, 40)
    order = msgspec.structs.replace(begin(short), preroll=end - cut)
    output = run([order, *short.packets[cut:], Finish()])
    assert (output.status, output.complaints) == (0, "")
    (name,) = output.names[:-1]
    assert [number for _, number in shown(output, name)] == list(range(50, 75))


@pytest.mark.parametrize("preroll", [1, 10_000])
def test_an_odd_preroll_ends_no_engine(short: Source, preroll: int) -> None:
    """Of damaged pictures with absurd times, and with more packets announced than come."""
    odd = [
        msgspec.structs.replace(each, pts=each.pts + (index % 3 - 1) * (1 << 40), data=b"\0\0\0\2e")
        for index, each in enumerate(short.packets[:8])
    ]
    order = msgspec.structs.replace(begin(short), preroll=preroll)
    output = run([order, *odd, *short.packets, Finish()])
    assert (output.status, output.complaints) == (0, "")
