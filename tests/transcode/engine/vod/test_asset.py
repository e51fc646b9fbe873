"""Whole files, made by real engines: their own media first, or the way of a live stream."""

from pathlib import Path

import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import onsets, packets
from tests.support.engine.engine_process import ORIGIN
from tests.support.engine.made_assets import (
    OWN,
    SECOND,
    SIZE,
    SMALL,
    X264,
    film_for,
    is_whole,
    joined,
    made_of,
    sound_is_continuous,
    surveyed,
)
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import ffmpeg, source_of
from tests.support.engine.upload_files import read
from transcode.protocol.file_messages import Ready, Surveyed
from transcode.protocol.messages import EpochFinished, Refused

BEEPS = "aevalsrc='0.8*sin(2*PI*1000*t)*lt(mod(t,1),0.1)':s=48000:d={},aformat=channel_layouts=mono"


def test_the_films_own_packets_and_sound_come_first_and_as_they_are(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=9, size=SIZE)
    output = made_of(path)
    survey = surveyed(output)
    assert (survey.reused, survey.kept, len(survey.spans)) == ("480p", True, 1)
    order = [
        each.rendition if isinstance(each, Segment) else type(each).__name__
        for each in output.reports
        if isinstance(each, Segment | Ready | EpochFinished)
    ]
    offset = order.index("Ready")
    assert set(order[:offset]) == {"480p", AUDIO_RENDITION}
    assert set(order[offset + 1 : -1]) == {"360p"}
    assert is_whole(output, 225)
    own = source_of(path)
    assert [data for _, _, data in packets(joined(output, "480p"))] == own.published
    assert len(own.published) == 225
    sound = {packet.data for packet in own.packets if not packet.video}
    assert {data for _, _, data in packets(joined(output, AUDIO_RENDITION))} <= sound
    assert sound_is_continuous(output, 9)


def test_without_encoders_the_same_is_copied_and_the_one_span_left(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=3, size=SIZE)
    order = msgspec.structs.replace(film_for(path), encode=False)
    copied = read("asset", path, order)
    assert copied.names == ["480p", AUDIO_RENDITION]
    assert copied.of(Ready) == [Ready(names=("480p", AUDIO_RENDITION))]
    assert len(copied.of(EpochFinished)) == 1
    (span,) = surveyed(copied).spans
    assert span.alone
    apart = read("span", path, span)
    whole = made_of(path)
    for output, names in ((copied, copied.names), (apart, ["360p"])):
        for name in names:
            assert packets(joined(output, name)) == packets(joined(whole, name))


@pytest.mark.parametrize(("alone", "refusals"), [(True, 1), (False, 0)])
def test_a_film_of_one_span_without_a_picture_is_refused(
    tmp_path: Path, alone: bool, refusals: int
) -> None:
    """The file is damaged, and so might be one span of several."""
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=2, size=SIZE)
    order = msgspec.structs.replace(film_for(path), encode=False)
    (span,) = surveyed(read("asset", path, order)).spans
    data = path.read_bytes()
    begins, ends = data.index(b"mdat") + 4, data.index(b"moov") - 4
    path.write_bytes(data[:begins] + bytes(ends - begins) + data[ends:])
    output = read("span", path, msgspec.structs.replace(span, alone=alone))
    assert len(output.of(Refused)) == refusals


def test_times_that_jump_go_through_the_live_ladder(tmp_path: Path) -> None:
    first = numbered(tmp_path / "a.ts", *OWN, "-c:a", "aac", seconds=4, size=SMALL)
    later = tmp_path / "b.ts"
    ffmpeg("-i", first, "-c", "copy", "-output_ts_offset", "100", "-y", later)
    path = tmp_path / "c.ts"
    path.write_bytes(first.read_bytes() + later.read_bytes())
    copied = read("asset", path, msgspec.structs.replace(film_for(path), encode=False))
    assert (copied.status, copied.of(Segment), len(copied.of(Surveyed))) == (0, [], 1)
    output = made_of(path)
    survey = surveyed(output)
    assert (survey.spans, survey.reason) == ((), "the times jump")
    assert output.in_step()
    lengths = sum(segment.duration for segment in output.segments("240p"))
    assert abs(lengths / SECOND - 8) < 0.5


@pytest.mark.parametrize(
    ("makes", "shown", "heard"),
    [
        pytest.param(
            (("1/10", 30, True, "0"), ("25", 2, True, "0")),
            [(number, 10.0 * number) for number in range(3)]
            + [(number, 30 + number / 25) for number in range(50)],
            range(32),
            id="slides, then a film",
        ),
        pytest.param(
            (("25", 2, False, "0"), ("25", 2, True, "0")),
            [(number, start + number / 25) for start in (0, 2) for number in range(50)],
            range(2, 4),
            id="a silent one, then one with sound",
        ),
        pytest.param(
            (("25", 2, True, "0"), ("25", 2, True, "1.92")),
            [(number, start + number / 25) for start in (0, 2) for number in range(50)],
            range(4),
            id="one that begins two pictures before the end of the other",
        ),
    ],
)
def test_parts_with_clocks_of_their_own_follow_each_other_whole(
    tmp_path: Path,
    makes: tuple[tuple[str, float, bool, str], ...],
    shown: list[tuple[int, float]],
    heard: range,
) -> None:
    parts = b""
    for number, (rate, seconds, audible, begin) in enumerate(makes):
        part = numbered(
            tmp_path / f"{number}.ts",
            *(*X264, "-g", "25", "-bf", "2", "-c:a", "aac", "-output_ts_offset", begin),
            seconds=seconds,
            size=SMALL,
            rate=rate,
            sound=BEEPS.format(seconds) if audible else None,
        )
        parts += part.read_bytes()
    (tmp_path / "joined.ts").write_bytes(parts)
    output = made_of(tmp_path / "joined.ts")
    assert output.in_step()
    assert output.troubles.keys() <= {"times leap", "picture missing"}
    pictures: list[tuple[int, float]] = []
    for time, number in numbers(joined(output, "240p")):
        if not pictures or pictures[-1][0] != number:
            pictures.append((number, (time - ORIGIN) / SECOND))
    assert [number for number, _ in pictures] == [number for number, _ in shown]
    assert [time for _, time in pictures] == pytest.approx([time for _, time in shown], abs=0.12)
    _, times = onsets(joined(output, AUDIO_RENDITION))
    assert times == pytest.approx([10 + second for second in heard], abs=0.12)


def test_a_number_that_a_picture_had_before_is_no_sound(tmp_path: Path) -> None:
    """The second part has sound alone, under the number of the first part's picture."""
    coding = (*X264, "-bf", "2", "-c:a", "aac")
    numbered(tmp_path / "a.ts", *coding, seconds=2, size=SMALL, sound=BEEPS.format(2))
    ffmpeg("-i", tmp_path / "a.ts", "-vn", "-c", "copy", "-y", tmp_path / "b.ts")
    both = (tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes()
    (tmp_path / "c.ts").write_bytes(both)
    output = made_of(tmp_path / "c.ts")
    assert [number for _, number in numbers(joined(output, "240p"))][:40] == list(range(40))


def test_another_engine_joins_the_parts_alike(tmp_path: Path) -> None:
    part = numbered(tmp_path / "a.ts", *X264, seconds=2, size=SMALL, sound=None).read_bytes()
    (tmp_path / "b.ts").write_bytes(part + part)
    whole = read("asset", tmp_path / "b.ts", film_for(tmp_path / "b.ts"))
    (span,) = surveyed(whole).spans
    output = read("span", tmp_path / "b.ts", span)
    assert (output.status, output.complaints) == (0, "")
    assert packets(joined(output, "240p")) == packets(joined(whole, "240p"))
    assert [number for _, number in numbers(joined(output, "240p"))] == 2 * list(range(50))
