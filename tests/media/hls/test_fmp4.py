"""Init sections and chunks, read back by a small box reader, by PyAV and by FFmpeg."""

import io
import shutil
import struct
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.aac import build
from media.codecs.avc import AvcConfig
from media.hls.fmp4 import Sample, audio_init, first_chunk_bytes, fragment, video_init

Coded = tuple[bytes, list[Sample]]

GOLDEN = Path(__file__).parent / "golden"
FFMPEG = shutil.which("ffmpeg") or "ffmpeg"
CONFIG = bytes.fromhex(
    "0164001fffe1001c6764001facd9405005bb016a02020280000003008000001e478c18cb01000668ebe3cb22c0"
    "fdf8f800"
)
CONTAINERS = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"dinf", b"mvex", b"moof", b"traf"}
# What comes before the boxes within these: the fixed fields of a box that holds boxes.
HEADS = {b"stsd": 8, b"dref": 8, b"avc1": 78, b"mp4a": 28}


class ParsedBox(msgspec.Struct, frozen=True):
    path: str
    body: bytes


def boxes(data: bytes, path: str = "") -> Iterator[ParsedBox]:
    """Walk all boxes in the order of the file; a size that does not fit fails the test."""
    place = 0
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        assert 8 <= size <= len(data) - place, (path, kind)
        body = data[place + 8 : place + size]
        name = f"{path}/{kind.decode()}"
        yield ParsedBox(name, body)
        if kind in CONTAINERS:
            yield from boxes(body, name)
        elif kind in HEADS:
            yield from boxes(body[HEADS[kind] :], name)
        place += size


class ParsedChunk(msgspec.Struct, frozen=True):
    number: int
    samples: list[Sample]


def read(chunk: bytes) -> ParsedChunk:
    """Read one chunk as 14496-12 says, defaults and all."""
    bodies = {box.path: box.body for box in boxes(chunk)}
    assert list(bodies) == [
        "/moof", "/moof/mfhd", "/moof/traf", "/moof/traf/tfhd", "/moof/traf/tfdt",
        "/moof/traf/trun", "/mdat",
    ]  # fmt: skip
    _, number = struct.unpack(">II", bodies["/moof/mfhd"])
    tfhd, tfdt, trun = (bodies[f"/moof/traf/{kind}"] for kind in ("tfhd", "tfdt", "trun"))
    (flags, track), position = struct.unpack_from(">II", tfhd), 8
    assert track == 1
    assert flags & 0x020000, "default-base-is-moof"
    defaults: dict[int, int] = {}
    for bit in (0x01, 0x02, 0x08, 0x10, 0x20):
        if flags & bit:
            (defaults[bit],) = struct.unpack_from(">I", tfhd, position)
            position += 4
    assert position == len(tfhd)
    assert tfdt[0] == 1
    (dts,) = struct.unpack_from(">Q", tfdt, 4)
    (flags, count, offset), position = struct.unpack_from(">IIi", trun), 12
    assert flags >> 24 == 1
    assert flags & 0x205 == 0x201, "a data offset, sizes, no first sample's flags"
    samples: list[Sample] = []
    for _ in range(count):
        fields = {0x100: defaults.get(0x08, 0), 0x200: 0, 0x400: defaults.get(0x20, 0), 0x800: 0}
        for bit in fields:
            if flags & bit:
                (fields[bit],) = struct.unpack_from(">i", trun, position)
                position += 4
        duration, size, about, shift = fields.values()
        assert about in (0x02000000, 0x01010000)
        data = chunk[offset : offset + size]
        samples.append(Sample(dts, dts + shift, duration, about == 0x02000000, data))
        dts, offset = dts + duration, offset + size
    assert position == len(trun)
    assert offset == len(chunk), "mdat ends with its last sample"
    return ParsedChunk(number, samples)


def chunked(samples: list[Sample], size: int) -> list[bytes]:
    return [
        fragment(samples[index : index + size], number=1 + index // size)
        for index in range(0, len(samples), size)
    ]


def moved(samples: list[Sample], ticks: int) -> list[Sample]:
    """Return samples later, so that no decode time is negative."""
    return [Sample(s.dts + ticks, s.pts + ticks, s.duration, s.key, s.data) for s in samples]


def picture_init(coded: Coded, **more: Any) -> bytes:  # Any: passed on as they are
    config = AvcConfig.parse(coded[0])
    return video_init(config=coded[0], width=config.width, height=config.height, **more)


Facts = list[tuple[int, int, bool, bytes]]  # duration, composition offset, key, data
facts: st.SearchStrategy[Facts] = st.lists(
    st.tuples(
        st.integers(0, 1 << 20),
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.booleans(),
        st.binary(max_size=20),
    ),
    min_size=1,
    max_size=30,
)


def one_after_another(dts: int, facts: Facts) -> list[Sample]:
    samples: list[Sample] = []
    for duration, shift, key, data in facts:
        samples.append(Sample(dts, dts + shift, duration, key, data))
        dts += duration
    return samples


@given(st.integers(0, 1 << 40), facts, st.integers(0, (1 << 32) - 1))
def test_what_is_written_is_read_back(start: int, facts: Facts, number: int) -> None:
    samples = one_after_another(start, facts)
    assert read(fragment(samples, number=number)) == ParsedChunk(number, samples)


@given(st.integers(0, 1 << 60), st.integers(1, 4096), st.lists(st.binary(max_size=9), min_size=1))
def test_sound_is_read_back_from_its_short_form(start: int, step: int, data: list[bytes]) -> None:
    samples = [
        Sample(start + step * index, start + step * index, step, True, sound)
        for index, sound in enumerate(data)
    ]
    chunk = fragment(samples, number=7)
    assert read(chunk) == ParsedChunk(7, samples)
    assert len(chunk) == 104 + sum(4 + len(sound) for sound in data)


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        pytest.param([], "without samples", id="none"),
        pytest.param([Sample(-1, 0, 1, True, b"")], "cannot hold", id="before zero"),
        pytest.param([Sample(0, 1 << 31, 1, True, b"")], "cannot hold", id="shown too late"),
        pytest.param([Sample(0, 0, -1, True, b"")], "cannot hold", id="negative length"),
        pytest.param(
            [Sample(0, 0, 3, True, b""), Sample(4, 4, 3, False, b"")], "4 where 3", id="gap"
        ),
        pytest.param(
            [Sample(9, 9, 3, True, b""), Sample(9, 9, 3, False, b"")], "9 where 12", id="twice"
        ),
    ],
)
def test_what_the_format_cannot_hold_is_refused(samples: list[Sample], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        fragment(samples, number=1)


def test_a_picture_tracks_boxes() -> None:
    parsed_boxes = list(boxes(video_init(config=CONFIG, width=1280, height=720)))
    by_path = {box.path: box.body for box in parsed_boxes}
    assert [box.path for box in parsed_boxes][:3] == ["/ftyp", "/moov", "/moov/mvhd"]
    assert b"cmfc" in by_path["/ftyp"]
    assert by_path["/moov/trak/mdia/mdhd"][12:16] == (90_000).to_bytes(4, "big")
    table = "/moov/trak/mdia/minf/stbl"
    assert by_path[f"{table}/stsd/avc1/avcC"] == CONFIG
    assert struct.unpack_from(">HH", by_path[f"{table}/stsd/avc1"], 24) == (1280, 720)
    assert f"{table}/stsd/avc1/pasp" not in by_path
    for kind in ("stts", "stsc", "stco"):
        assert by_path[f"{table}/{kind}"] == bytes(8)
    assert "/moov/mvex/trex" in by_path
    assert struct.unpack(">II", by_path["/moov/trak/tkhd"][-8:]) == (1280 << 16, 720 << 16)


def test_pixels_that_are_not_square_are_declared_and_displayed() -> None:
    init = video_init(config=CONFIG, width=704, height=576, aspect=Fraction(16, 11))
    by_path = {box.path: box.body for box in boxes(init)}
    assert by_path["/moov/trak/mdia/minf/stbl/stsd/avc1/pasp"] == struct.pack(">II", 16, 11)
    assert struct.unpack(">II", by_path["/moov/trak/tkhd"][-8:]) == (1024 << 16, 576 << 16)


@pytest.mark.parametrize(("rate", "announced"), [(48_000, 48_000 << 16), (96_000, 0)])
def test_a_sound_tracks_boxes(rate: int, announced: int) -> None:
    config = build(rate, 2)
    init = audio_init(config=config, rate=rate, channels=2)
    by_path = {box.path: box.body for box in boxes(init)}
    entry = by_path["/moov/trak/mdia/minf/stbl/stsd/mp4a"]
    assert struct.unpack_from(">HHIIH2x", entry, 16)[0] == 2
    assert struct.unpack_from(">I", entry, 24) == (announced,)
    esds = by_path["/moov/trak/mdia/minf/stbl/stsd/mp4a/esds"]
    assert config in esds
    assert by_path["/moov/trak/mdia/mdhd"][12:16] == rate.to_bytes(4, "big")
    assert by_path["/moov/trak/mdia/hdlr"][8:12] == b"soun"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("picture.mp4", video_init(config=CONFIG, width=1280, height=720)),
        ("sound.mp4", audio_init(config=build(48_000, 2), rate=48_000, channels=2)),
    ],
)
def test_init_sections_stay_what_players_have_been_tried_with(name: str, made: bytes) -> None:
    assert made == (GOLDEN / name).read_bytes()


def demuxed(data: bytes) -> list[tuple[int | None, int | None, bool, bytes]]:
    with av.open(io.BytesIO(data), "r") as container:
        return [
            (packet.dts, packet.pts, packet.is_keyframe, bytes(packet))
            for packet in container.demux(container.streams[0])  # pyright: ignore[reportUnknownMemberType]  # the stubs' overloads
            if packet.size
        ]


@pytest.mark.parametrize("size", [1, 7, 20, 60])
def test_ffmpegs_demuxer_finds_the_same_pictures(picture: Coded, size: int) -> None:
    samples = moved(picture[1], 900_000)
    assert any(sample.pts != sample.dts for sample in samples)
    assert demuxed(picture_init(picture) + b"".join(chunked(samples, size))) == [
        (sample.dts, sample.pts, sample.key, sample.data) for sample in samples
    ]


@pytest.mark.parametrize("size", [1, 23, 60])
def test_ffmpegs_demuxer_finds_the_same_sound(sound: Coded, size: int) -> None:
    samples = moved(sound[1], 480_000)
    init = audio_init(config=sound[0], rate=48_000, channels=2)
    assert demuxed(init + b"".join(chunked(samples, size))) == [
        (sample.dts, sample.pts, sample.key, sample.data) for sample in samples
    ]


def ffmpeg(path: Path) -> tuple[str, int]:
    """Decode all of a file with FFmpeg; return what it complains of, and its frames."""
    completed = subprocess.run(
        [FFMPEG, "-v", "warning", "-i", path, "-f", "framecrc", "-"],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return completed.stderr, sum(not line.startswith("#") for line in completed.stdout.splitlines())


@pytest.mark.real
def test_ffmpeg_decodes_pictures_without_a_word(picture: Coded, tmp_path: Path) -> None:
    path = tmp_path / "picture.mp4"
    path.write_bytes(picture_init(picture) + b"".join(chunked(moved(picture[1], 900_000), 6)))
    assert ffmpeg(path) == ("", 40)


@pytest.mark.real
def test_ffmpeg_decodes_sound_without_a_word(sound: Coded, tmp_path: Path) -> None:
    path = tmp_path / "sound.mp4"
    init = audio_init(config=sound[0], rate=48_000, channels=2)
    path.write_bytes(init + b"".join(chunked(moved(sound[1], 480_000), 23)))
    assert ffmpeg(path) == ("", len(sound[1]))


@pytest.mark.real
def test_a_decoder_can_begin_at_any_segment(picture: Coded, tmp_path: Path) -> None:
    chunks = chunked(moved(picture[1], 900_000), 10)
    path = tmp_path / "second.mp4"
    path.write_bytes(picture_init(picture) + b"".join(chunks[2:]))
    assert ffmpeg(path) == ("", 20)


@pytest.mark.parametrize("key", [True, False])
def test_the_first_chunk_of_a_segment_ends_where_the_next_begins(key: bool) -> None:
    first, second = (
        fragment(
            [Sample(dts=at + n, pts=at + n, duration=1, key=key, data=b"x" * 70) for n in range(9)],
            number=at,
        )
        for at in (0, 9)
    )
    assert first_chunk_bytes(first + second) == len(first)
    assert first_chunk_bytes(first[: first.index(b"mdat") + 4]) == len(first)


@given(st.binary(max_size=64))
def test_what_is_no_chunk_has_no_size(data: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        first_chunk_bytes(data)


@pytest.mark.parametrize("data", [b"\0\0\0\x04moof\0\0\0\x08mdat", b"\0\0\0\x08moof\0\0\0\x01mdat"])
def test_a_box_shorter_than_its_header_is_no_chunk(data: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        first_chunk_bytes(data)
