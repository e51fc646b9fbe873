"""Edits bytes of MKV, FLV and MPEG-TS files to get files that ffmpeg does not write.

Sources: RFC 8794 (EBML) and RFC 9559 (Matroska), Adobe's FLV 10.1, ISO/IEC 13818-1 (2.4.3.2).
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.support.transcode.corpus_clips import Maker

_SEGMENT, _CLUSTER, _GROUP = 0x18538067, 0x1F43B675, 0xA0
_MASTERS: Final = frozenset((_SEGMENT, _CLUSTER, _GROUP, 0x1549A966, 0x1654AE6B, 0xAE))
_UNKNOWN: Final = (1 << 56) - 1  # a size of eight bytes, all ones
_TIMESTAMP, _SIMPLE_BLOCK = 0xE7, 0xA3
_KEYFRAME: Final = 0x80
_FLV_HEAD: Final = b"FLV\x01\x05\0\0\0\x09\0\0\0\0"
_TS_PACKET: Final = 188


class Element(msgspec.Struct, frozen=True):
    """An EBML element: its ID, and the offsets of the element, its content and its end."""

    id: int
    at: int
    content: int
    end: int


def changed(source: Maker, change: Callable[[bytes], bytes]) -> Maker:
    """Return a maker that edits the bytes of another maker's file."""

    def make(path: Path) -> None:
        source(path)
        path.write_bytes(change(path.read_bytes()))

    return make


# -- Matroska -------------------------------------------------------------------------------------


def elements(data: bytes, at: int = 0, end: int | None = None) -> Iterator[Element]:
    """Yield the elements of a Matroska file, parents first."""
    end = len(data) if end is None else end
    while at < end:
        wide = _width(data[at])
        content = at + wide + _width(data[at + wide])
        number = int.from_bytes(data[at : at + wide], "big")
        size = _size(data[at + wide : content])
        stop = end if size == _UNKNOWN else content + size
        yield Element(number, at, content, stop)
        if number in _MASTERS:
            yield from elements(data, content, stop)
        at = stop


def element(number: int, content: bytes) -> bytes:
    """Return an element with a size of eight bytes."""
    wide = (number.bit_length() + 7) // 8
    return number.to_bytes(wide, "big") + _eight_bytes(len(content)) + content


def inserted(data: bytes, parent: int, child: bytes) -> bytes:
    """Append an element to the first element with the ID `parent` of a Matroska file.

    This invalidates indexes, so the file should have none.
    """
    inner = next(each for each in elements(data) if each.id == parent)
    grown = data[: inner.end] + child + data[inner.end :]
    more = len(child)
    around = [
        each
        for each in elements(data)
        if each.id in _MASTERS and each.at <= inner.at and each.end >= inner.end
    ]
    for each in reversed(around):
        place = each.at + _width(data[each.at])
        size = _size(data[place : each.content])
        if size != _UNKNOWN:
            grown = grown[:place] + _eight_bytes(size + more) + grown[each.content :]
            more += 8 - (each.content - place)
    return grown


def moved_cluster(data: bytes, number: int, by: int) -> bytes:
    """Return a Matroska file with the timestamp of one cluster increased by `by` ms."""
    timestamp = [each for each in elements(data) if each.id == _TIMESTAMP][number]
    time = int.from_bytes(data[timestamp.content : timestamp.end], "big") + by
    return (
        data[: timestamp.content]
        + time.to_bytes(timestamp.end - timestamp.content, "big")
        + data[timestamp.end :]
    )


def moved_block(data: bytes, track: int, number: int, by: int) -> bytes:
    """Return a Matroska file with the timestamp of one block of a track increased by `by` ms."""
    blocks = [
        each
        for each in elements(data)
        if each.id == _SIMPLE_BLOCK and data[each.content] == 0x80 | track
    ]
    place = blocks[number].content + 1
    time = int.from_bytes(data[place : place + 2], "big", signed=True)
    return data[:place] + (time + by).to_bytes(2, "big", signed=True) + data[place + 2 :]


def without_keyframes(data: bytes) -> bytes:
    """Return a Matroska file without keyframe flags."""
    edited = bytearray(data)
    for each in elements(data):
        if each.id == _SIMPLE_BLOCK and data[each.content] == 0x81:
            edited[each.content + 3] &= ~_KEYFRAME & 0xFF
    return bytes(edited)


def _eight_bytes(size: int) -> bytes:
    return (1 << 56 | size).to_bytes(8, "big")


def _width(first: int) -> int:
    return 9 - first.bit_length()


def _size(coded: bytes) -> int:
    return int.from_bytes(coded, "big") & (1 << 7 * len(coded)) - 1


# -- FLV and MPEG-TS ------------------------------------------------------------------------------


def flv_of_noise(seed: int) -> bytes:
    """Return an FLV of 60 video and audio tags of noise."""
    noise = random.Random(seed)  # no secret
    tags = [_tag(noise.choice((8, 9)), 40 * index, noise.randbytes(300)) for index in range(60)]
    return _FLV_HEAD + b"".join(tags)


def _tag(kind: int, time: int, body: bytes) -> bytes:
    head = bytes((kind,)) + len(body).to_bytes(3, "big") + time.to_bytes(3, "big") + bytes(4)
    return head + body + (len(head) + len(body)).to_bytes(4, "big")


def scrambled(data: bytes) -> bytes:
    """Return ffmpeg's transport stream with scrambled video and audio."""
    noise = random.Random(3)  # no secret
    edited = bytearray(data)
    for index in range(0, len(data) - _TS_PACKET + 1, _TS_PACKET):
        number = int.from_bytes(data[index + 1 : index + 3], "big") & 0x1FFF
        has_field, has_payload = data[index + 3] & 0x20, data[index + 3] & 0x10
        if number not in (0x100, 0x101) or not has_payload:
            continue
        begin = index + 4 + (1 + data[index + 4] if has_field else 0)
        end = index + _TS_PACKET
        edited[begin:end] = noise.randbytes(end - begin)
        edited[index + 3] |= 0x80
    return bytes(edited)


def later_fragments(mp4: bytes, seconds: int) -> bytes:
    """Return fragments of MP4 whose decode times (tfdt, 64 bits) begin `seconds` later."""
    data = bytearray(mp4)
    scales: list[int] = []
    at = data.find(b"mdhd")
    while at >= 0:
        scales.append(int.from_bytes(data[at + 16 : at + 20], "big"))
        at = data.find(b"mdhd", at + 4)
    at = data.find(b"tfhd")
    while at >= 0:
        scale = scales[int.from_bytes(data[at + 8 : at + 12], "big") - 1]
        time = data.index(b"tfdt", at) + 8
        moved = int.from_bytes(data[time : time + 8], "big") + seconds * scale
        data[time : time + 8] = moved.to_bytes(8, "big")
        at = data.find(b"tfhd", time)
    return bytes(data)
