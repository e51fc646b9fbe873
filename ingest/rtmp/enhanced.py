"""Enhanced RTMP's tag headers: which part of a body is the first track's, and what it is.

A body is a sound or picture tag whose first byte says that it has the extended header. Of several
tracks the one with the number 0 is taken, which by the specification is the one to take where one
must do; the others are passed over. Modifiers (ModEx) are passed over by their size: the only one
that is defined adds nanoseconds to a time that is kept in milliseconds here.
Source: Enhanced RTMP v2, "Enhanced Audio" and "Enhanced Video".
"""

from typing import Final

import msgspec

__all__ = [
    "CODED",
    "CODED_AT_ONCE",
    "SEQUENCE_START",
    "TS_SEQUENCE_START",
    "Part",
    "audio_part",
    "video_part",
]

# Packet types that say something here; those that are not named are passed over.
SEQUENCE_START, CODED, CODED_AT_ONCE, TS_SEQUENCE_START = 0, 1, 3, 5
_METADATA: Final = 4  # of pictures: colours, which the bit stream has too
_MODIFIED: Final = 7  # ModEx
_VIDEO_MULTITRACK, _AUDIO_MULTITRACK = 6, 5
_ONE_TRACK, _MANY_TRACKS, _MANY_CODECS = 0, 1, 2
_COMMAND: Final = 5  # frame type
# More cannot be told apart (8 bits), and one modifier is defined. A stranger's tag of 8 MiB could
# else be a million of either.
_MOST_TRACKS, _MOST_MODIFIERS = 256, 16
_WIDE: Final = 256  # a modifier's size that says: the size is in the next two bytes


class Part(msgspec.Struct, frozen=True, gc=False):
    """What a tag says of the first track: packet type, FourCC, and the body behind these."""

    kind: int
    fourcc: bytes
    body: memoryview


def video_part(body: memoryview) -> Part | None:
    """Return the first track's part of a picture tag; None where it has none, or is cut off."""
    place, kind = _behind_modifiers(body)
    if body[0] >> 4 & 7 == _COMMAND and kind != _METADATA:
        return None
    return _part(body, place, kind, multitrack=kind == _VIDEO_MULTITRACK)


def audio_part(body: memoryview) -> Part | None:
    """Return the first track's part of a sound tag; None where it has none, or is cut off."""
    place, kind = _behind_modifiers(body)
    return _part(body, place, kind, multitrack=kind == _AUDIO_MULTITRACK)


def _behind_modifiers(body: memoryview) -> tuple[int, int]:
    """Return where the FourCC stands and the packet type; past the end where it is cut off."""
    place, kind = 1, body[0] & 15
    for _ in range(_MOST_MODIFIERS):
        if kind != _MODIFIED:
            break
        size = int(body[place]) + 1 if place < len(body) else 1
        place += 1
        if size == _WIDE:
            size = int.from_bytes(body[place : place + 2], "big") + 1
            place += 2
        place += size
        # The modifier's own type is in the upper half.
        kind = body[place] & 15 if place < len(body) else 0
        place += 1
    return place, kind


def _part(body: memoryview, place: int, kind: int, *, multitrack: bool) -> Part | None:
    if multitrack:
        return _first_of_many(body, place)
    if kind == _MODIFIED:
        return None
    end = place + 4
    return Part(kind, bytes(body[place:end]), body[end:]) if end <= len(body) else None


def _first_of_many(body: memoryview, place: int) -> Part | None:
    if place >= len(body):
        return None
    form, kind = body[place] >> 4, body[place] & 15
    place += 1
    fourcc = b""
    if form in (_ONE_TRACK, _MANY_TRACKS):
        fourcc = bytes(body[place : place + 4])
        place += 4
    elif form != _MANY_CODECS:
        return None
    for _ in range(_MOST_TRACKS):
        if form == _MANY_CODECS:
            fourcc = bytes(body[place : place + 4])
            place += 4
        start, end = place + 1, len(body)
        if form != _ONE_TRACK:
            start += 3
            end = start + int.from_bytes(body[place + 1 : start], "big")
        if start > len(body) or end > len(body):
            return None
        if body[place] == 0:
            return Part(kind, fourcc, body[start:end])
        place = end
    return None
