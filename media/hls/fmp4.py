"""Writes CMAF: a track's initialisation section, and its media as chunks.

Each file has one track, number 1. A chunk (`fragment`) is exactly moof + mdat, so a segment is the
concatenation of its chunks. Times are ticks of the track's own scale; decode times cannot be
negative (see `media.ticks.ORIGIN_SECONDS`). There is no edit list: a sample is presented at its
`pts`, whatever the encoder's delay.
Sources: ISO/IEC 14496-12 (boxes), 14496-14 5.6 (esds), 14496-15 5.3.4 (avc1), 23000-19 7.3 (CMAF).
"""

import struct
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE

_TRACK: Final = 1
# sample_flags (14496-12, 8.8.3.1): "depends on no other", or "depends on others, no sync sample".
_SYNC: Final = 0x0200_0000
_NOT_SYNC: Final = 0x0101_0000

_BOX: Final = struct.Struct(">I4s")
_MOVIE_SCALE: Final = 1_000
_UNITY: Final = struct.pack(">9i", 0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000)
_UNDETERMINED: Final = 0x55C4  # the language "und", 5 bits a letter
# A rate of 65 536 Hz and more does not fit a sample entry's 16.16; 0 leaves it to the decoder
# configuration (14496-12, 12.2.3).
_LARGEST_RATE: Final = 0xFFFF


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One access unit. `key`: decoding can begin with it."""

    dts: int
    pts: int
    duration: int
    key: bool
    data: bytes


def video_init(
    *,
    config: bytes,
    width: int,
    height: int,
    scale: int = VIDEO_SCALE,
    aspect: Fraction = Fraction(1),
) -> bytes:
    """Return the initialisation section of an H.264 track.

    `config` is the avcC record, `aspect` the ratio of a pixel's width to its height.
    """
    resolution, depth = 72 << 16, 24
    fields = (1, width, height, resolution, resolution, 0, 1, depth, -1)
    entry = struct.pack(">6xH 16xHH IIIH 32xHh", *fields) + _box(b"avcC", config)
    if aspect != 1:
        entry += _box(b"pasp", struct.pack(">II", aspect.numerator, aspect.denominator))
    header = _full(b"vmhd", 0, 1, bytes(8))
    shown = (round(width * aspect * 0x1_0000), height << 16)
    return _init(b"vide", header, _box(b"avc1", entry), scale, shown)


def audio_init(*, config: bytes, rate: int, channels: int) -> bytes:
    """Return the initialisation section of an AAC track, whose scale is its rate in Hz.

    `config` is the AudioSpecificConfig.
    """
    entry = struct.pack(
        ">6xH8xHHIHH", 1, channels, 16, 0, rate if rate <= _LARGEST_RATE else 0, 0
    ) + _full(b"esds", 0, 0, _elementary(config))
    header = _full(b"smhd", 0, 0, bytes(4))
    return _init(b"soun", header, _box(b"mp4a", entry), rate, (0, 0))


def fragment(samples: Sequence[Sample], *, number: int) -> bytes:
    """Return samples as one chunk; `number` counts the chunks of a track (mfhd).

    Samples follow each other in decode order without a gap; gaps are possible between chunks only.
    A `pts` before its `dts` is written as it is, but FFmpeg's demuxer then delays the whole track
    (measured with 5.1 and 8.1): keep decode times at or before presentation.

    Raises:
        ValueError: there is no sample, a sample's decode time is not its predecessor's end, or the
            format cannot represent a time.
    """
    if not samples:
        raise ValueError("a chunk without samples")
    first = samples[0]
    duration, due, plain = first.duration, first.dts, True
    entries: list[int] = []
    for sample in samples:
        if sample.dts != due:
            raise ValueError(f"decode time {sample.dts} where {due} was due")
        due += sample.duration
        offset = sample.pts - sample.dts
        plain = plain and sample.key and not offset and sample.duration == duration
        flags = _SYNC if sample.key else _NOT_SYNC
        entries += (sample.duration, len(sample.data), flags, offset)
    try:
        # Audio: a run of equal sync samples needs 4 bytes a sample instead of 16, which would be
        # 4 % of a stream of 128 kbit/s.
        head = _plain_head(first, entries, number) if plain else _full_head(first, entries, number)
    except struct.error as error:
        raise ValueError(f"a chunk at {first.dts} that the format cannot hold: {error}") from error
    return b"".join((head, *[sample.data for sample in samples]))


def first_chunk_bytes(data: bytes) -> int:
    """Return the size of a segment's first chunk; `data` begins with its moof and mdat's header.

    Raises:
        ValueError: the data does not begin with a chunk.
    """
    try:
        size, kind = _BOX.unpack_from(data)
        next_size, next_kind = _BOX.unpack_from(data, size)
    except struct.error as error:
        raise ValueError("no chunk, or the beginning of one") from error
    if (kind, next_kind) != (b"moof", b"mdat") or min(size, next_size) < _BOX.size:
        raise ValueError(f"{kind!r} and {next_kind!r} instead of a chunk")
    return int(size + next_size)


# Sizes of the boxes within traf; trun has entries of variable number.
_TFHD, _TFHD_WITH_DEFAULTS, _TFDT, _TRUN = 16, 24, 20, 20
_DEFAULT_BASE_IS_MOOF: Final = 0x02_0000
_DEFAULT_DURATION_AND_FLAGS: Final = 0x28
# trun: version 1 (signed composition offsets) and its flags: a data offset and, for each sample,
# the duration, size, flags and composition offset; or only the size.
_ALL: Final = 1 << 24 | 0xF01
_SIZES: Final = 1 << 24 | 0x201


@lru_cache(maxsize=1024)
def _layout(count: int, *, plain: bool) -> struct.Struct:
    """Return the layout of all bytes before the samples: moof and the header of mdat."""
    moof, traf, tfdt, trun, mdat = "I4s I4sII", "I4s", "I4sIQ", "I4sIII", "I4s"
    tfhd = "I4sIIII" if plain else "I4sII"
    entries = f"{count}I" if plain else "IIIi" * count
    return struct.Struct(f">{moof} {traf} {tfhd} {tfdt} {trun} {entries} {mdat}")


def _full_head(first: Sample, entries: list[int], number: int) -> bytes:
    count = len(entries) // 4
    layout = _layout(count, plain=False)
    trun = _TRUN + 16 * count
    return layout.pack(
        layout.size - 8, b"moof", 16, b"mfhd", 0, number,
        8 + _TFHD + _TFDT + trun, b"traf",
        _TFHD, b"tfhd", _DEFAULT_BASE_IS_MOOF, _TRACK,
        _TFDT, b"tfdt", 1 << 24, first.dts,
        trun, b"trun", _ALL, count, layout.size, *entries,
        8 + sum(entries[1::4]), b"mdat",
    )  # fmt: skip


def _plain_head(first: Sample, entries: list[int], number: int) -> bytes:
    sizes = entries[1::4]
    layout = _layout(len(sizes), plain=True)
    trun = _TRUN + 4 * len(sizes)
    return layout.pack(
        layout.size - 8, b"moof", 16, b"mfhd", 0, number,
        8 + _TFHD_WITH_DEFAULTS + _TFDT + trun, b"traf",
        _TFHD_WITH_DEFAULTS, b"tfhd", _DEFAULT_BASE_IS_MOOF | _DEFAULT_DURATION_AND_FLAGS,
        _TRACK, first.duration, _SYNC,
        _TFDT, b"tfdt", 1 << 24, first.dts,
        trun, b"trun", _SIZES, len(sizes), layout.size, *sizes,
        8 + sum(sizes), b"mdat",
    )  # fmt: skip


def _box(kind: bytes, body: bytes) -> bytes:
    return _BOX.pack(8 + len(body), kind) + body


def _full(kind: bytes, version: int, flags: int, body: bytes) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags) + body)


def _descriptor(tag: int, body: bytes) -> bytes:
    """Return an expandable class (14496-1, 8.3.3) with a length of four bytes."""
    size = len(body)
    length = bytes(0x80 | size >> shift & 0x7F for shift in (21, 14, 7)) + bytes((size & 0x7F,))
    return bytes((tag,)) + length + body


def _elementary(config: bytes) -> bytes:
    """Return the ES_Descriptor of an AAC track: MPEG-4 audio (0x40) in an audio stream (0x15)."""
    decoder = struct.pack(">BB3xII", 0x40, 0x15, 0, 0) + _descriptor(5, config)
    body = struct.pack(">HB", 0, 0) + _descriptor(4, decoder) + _descriptor(6, b"\x02")
    return _descriptor(3, body)


def _init(
    handler: bytes, media_header: bytes, entry: bytes, scale: int, shown_size: tuple[int, int]
) -> bytes:
    """Return ftyp + moov of one track; `shown_size` is its presentation size in 16.16."""
    # `cmfc` declares CMAF's structure (23000-19, 7.2), `iso6` the boxes of chunks.
    brands = _box(b"ftyp", b"iso6" + bytes(4) + b"iso6" + b"cmfc" + b"mp41")
    volume = 0x0100 if handler == b"soun" else 0
    movie = _full(
        b"mvhd", 0, 0,
        struct.pack(">IIIIIH10x", 0, 0, _MOVIE_SCALE, 0, 0x1_0000, 0x0100)
        + _UNITY + struct.pack(">24xI", _TRACK + 1),
    )  # fmt: skip
    track = _full(
        b"tkhd", 0, 7,  # enabled, in the movie, in the preview
        struct.pack(">III4xI8xHHH2x", 0, 0, _TRACK, 0, 0, 0, volume)
        + _UNITY + struct.pack(">II", *shown_size),
    )  # fmt: skip
    name = b"VideoHandler\0" if handler == b"vide" else b"SoundHandler\0"
    media = _box(
        b"mdia",
        _full(b"mdhd", 0, 0, struct.pack(">IIIIH2x", 0, 0, scale, 0, _UNDETERMINED))
        + _full(b"hdlr", 0, 0, struct.pack(">4x4s12x", handler) + name)
        + _box(b"minf", media_header + _data_reference() + _tables(entry)),
    )
    extends = _box(b"mvex", _full(b"trex", 0, 0, struct.pack(">IIIII", _TRACK, 1, 0, 0, 0)))
    return brands + _box(b"moov", movie + _box(b"trak", track + media) + extends)


def _data_reference() -> bytes:
    """Return the data reference: the media is in this file."""
    return _box(b"dinf", _full(b"dref", 0, 0, struct.pack(">I", 1) + _full(b"url ", 0, 1, b"")))


def _tables(entry: bytes) -> bytes:
    """Return the sample table of a track with all samples in chunks: one entry, no sample."""
    none = struct.pack(">I", 0)
    return _box(
        b"stbl",
        _full(b"stsd", 0, 0, struct.pack(">I", 1) + entry)
        + _full(b"stts", 0, 0, none)
        + _full(b"stsc", 0, 0, none)
        + _full(b"stsz", 0, 0, none + none)
        + _full(b"stco", 0, 0, none),
    )
