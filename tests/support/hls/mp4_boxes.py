"""Parses CMAF init sections and fragments, as far as a playlist can be checked against them.

Sources: ISO/IEC 14496-12 (boxes), 14496-14 (esds), 14496-15 (avcC). It shares no code with
`media.hls`.
"""

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

_NOT_SYNC: Final = 0x1_0000  # sample_is_non_sync_sample
_BESIDE_MEDIA: Final = frozenset({b"styp", b"prft", b"emsg", b"sidx"})


class BoxError(ValueError):
    """The bytes are not an init section or fragments."""


class Init(msgspec.Struct, frozen=True, kw_only=True):
    """An init section: its codec as in RFC 6381, its timescale, and the picture's size.

    `defaults` are the duration, size and flags of a sample in its `trex`.
    """

    codec: str
    scale: int
    is_video: bool
    size: tuple[int, int]
    defaults: tuple[int, int, int]


class Fragment(msgspec.Struct, frozen=True, kw_only=True):
    """A moof with its mdat, in ticks; `last` is the duration of its last sample.

    `start` and `duration` are decode times. Its pictures are presented from `shown` to
    `shown_end`, within one sample.
    """

    start: int
    duration: int
    shown: int
    shown_end: int
    last: int
    samples: int
    begins_with_sync: bool

    @property
    def end(self) -> int:
        """The decode time of its end."""
        return self.start + self.duration


class _Sample(msgspec.Struct, frozen=True):
    duration: int
    size: int
    flags: int
    offset: int


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 0
    while place < len(data):
        if place + 8 > len(data):
            raise BoxError(f"{len(data) - place} bytes after the last box")
        size, kind = struct.unpack_from(">I4s", data, place)
        if size < 8 or place + size > len(data):
            raise BoxError(f"a box {kind!r} of {size} bytes where {len(data) - place} are left")
        yield kind, data[place + 8 : place + size]
        place += size


def _only(data: bytes, *path: bytes) -> bytes:
    """Return the body of the box at a path, all of whose boxes must be unique."""
    for kind in path:
        bodies = [body for name, body in _boxes(data) if name == kind]
        if len(bodies) != 1:
            raise BoxError(f"{len(bodies)} boxes {kind.decode()} in {b'/'.join(path).decode()}")
        data = bodies[0]
    return data


def read_init(data: bytes) -> Init:
    """Parse an init section of one track.

    Raises:
        BoxError: it is invalid.
    """
    try:
        if not data or next(_boxes(data))[0] != b"ftyp":
            raise BoxError("no ftyp at the begin")
        media = _only(data, b"moov", b"trak", b"mdia")
        header = _only(media, b"mdhd")
        (scale,) = struct.unpack_from(">I", header, 20 if header[0] else 12)
        is_video = _only(media, b"hdlr")[8:12] == b"vide"
        entries = list(_boxes(_only(media, b"minf", b"stbl", b"stsd")[8:]))
        if len(entries) != 1 or not scale:
            raise BoxError(f"{len(entries)} sample entries, {scale} ticks a second")
        kind, entry = entries[0]
        extends = _only(data, b"moov", b"mvex", b"trex")
        return Init(
            codec=_codec(kind, entry),
            scale=scale,
            is_video=is_video,
            size=struct.unpack_from(">HH", entry, 24) if is_video else (0, 0),
            defaults=struct.unpack_from(">III", extends, 12),
        )
    except (struct.error, IndexError) as error:
        raise BoxError(f"a box is too short: {error}") from error


def _codec(kind: bytes, entry: bytes) -> str:
    """Return a sample entry's codec as in RFC 6381; only its first part for unknown ones."""
    if kind == b"avc1":
        config = _only(entry[78:], b"avcC")
        return f"avc1.{config[1:4].hex()}"
    if kind == b"mp4a":
        descriptor = _only(entry[28:], b"esds")[4:]
        return f"mp4a.{_audio_object(descriptor)}"
    return kind.decode("latin-1")


def _audio_object(data: bytes) -> str:
    """Return the object types of an ES_Descriptor (14496-1, 7.2.6.5): `40.2` for AAC-LC."""
    body = _descriptor(data, 3)[3:]
    config = _descriptor(body, 4)
    kind, inner = config[0], _descriptor(config[13:], 5)
    number = inner[0] >> 3
    if number == 31:  # an escape
        number = 32 + ((inner[0] & 7) << 3 | inner[1] >> 5)
    return f"{kind:x}.{number}"


def _descriptor(data: bytes, tag: int) -> bytes:
    if not data or data[0] != tag:
        raise BoxError(f"no descriptor {tag}")
    size, offset = 0, 1
    while True:
        size = size << 7 | data[offset] & 0x7F
        offset += 1
        if not data[offset - 1] & 0x80:
            return data[offset : offset + size]


def read_fragments(data: bytes, init: Init) -> list[Fragment]:
    """Parse the fragments of a part or segment: each moof is followed by its mdat.

    Raises:
        BoxError: the bytes are invalid.
    """
    fragments: list[Fragment] = []
    pending: tuple[Fragment, int] | None = None
    try:
        for kind, body in _boxes(data):
            if kind == b"moof" and pending is None:
                pending = _fragment(body, init)
            elif kind == b"mdat" and pending is not None:
                fragment, size = pending
                if size != len(body):
                    raise BoxError(f"samples of {size} bytes in an mdat of {len(body)}")
                fragments.append(fragment)
                pending = None
            elif kind not in _BESIDE_MEDIA:
                raise BoxError(f"a box {kind!r} that is not due")
    except (struct.error, IndexError) as error:
        raise BoxError(f"a box is too short: {error}") from error
    if pending is not None or not fragments:
        raise BoxError("no moof with its mdat")
    return fragments


def _fragment(moof: bytes, init: Init) -> tuple[Fragment, int]:
    """Return a fragment and the size of its samples."""
    traf = _only(moof, b"traf")
    time = _only(traf, b"tfdt")
    (start,) = struct.unpack_from(">Q" if time[0] else ">I", time, 4)
    defaults = _track_defaults(_only(traf, b"tfhd"), init)
    samples = [
        one for name, body in _boxes(traf) if name == b"trun" for one in _run(body, defaults)
    ]
    if not samples:
        raise BoxError("a fragment without samples")
    due, shown = start, list[int]()
    for sample in samples:
        shown.append(due + sample.offset)
        due += sample.duration
    fragment = Fragment(
        start=start,
        duration=due - start,
        shown=min(shown),
        shown_end=max(shown) + samples[-1].duration,
        last=samples[-1].duration,
        samples=len(samples),
        begins_with_sync=not samples[0].flags & _NOT_SYNC,
    )
    return fragment, sum(sample.size for sample in samples)


def _track_defaults(header: bytes, init: Init) -> tuple[int, int, int]:
    """Return the default duration, size and flags of a sample."""
    flags = int.from_bytes(header[1:4], "big")
    offset = 8 + 8 * bool(flags & 1) + 4 * bool(flags & 2)
    values = list(init.defaults)
    for index, bit in enumerate((8, 16, 32)):
        if flags & bit:
            (values[index],) = struct.unpack_from(">I", header, offset)
            offset += 4
    return values[0], values[1], values[2]


def _run(trun: bytes, defaults: tuple[int, int, int]) -> Iterator[_Sample]:
    flags, (count,) = int.from_bytes(trun[1:4], "big"), struct.unpack_from(">I", trun, 4)
    offset = 8 + 4 * bool(flags & 1)
    first = None
    if flags & 4:
        (first,) = struct.unpack_from(">I", trun, offset)
        offset += 4
    for number in range(count):
        values = [*defaults, 0]
        if number == 0 and first is not None:
            values[2] = first
        for index, bit in enumerate((0x100, 0x200, 0x400, 0x800)):
            if flags & bit:
                signed = bit == 0x800 and trun[0]
                (values[index],) = struct.unpack_from(">i" if signed else ">I", trun, offset)
                offset += 4
        yield _Sample(*values)
