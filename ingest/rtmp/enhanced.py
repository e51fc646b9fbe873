"""Parses Enhanced RTMP's tag headers: the part of a body that belongs to the first track.

A body is an audio or video tag whose first byte announces the extended header. Of several tracks
the one with the number 0 is read, as the specification recommends for receivers of a single track;
the others are skipped. Modifiers (ModEx) are skipped by their size: the only one defined adds
nanoseconds to times that are kept in milliseconds here.
Source: Enhanced RTMP v2, "Enhanced Audio" and "Enhanced Video".
"""

from typing import Final

import msgspec

# The packet types that are handled; others are skipped.
SEQUENCE_START, CODED, CODED_WITHOUT_OFFSET, TS_SEQUENCE_START = 0, 1, 3, 5
_METADATA: Final = 4  # of video: colours, which the bit stream has too
_MOD_EX: Final = 7  # ModEx
_VIDEO_MULTITRACK, _AUDIO_MULTITRACK = 6, 5
_ONE_TRACK, _MANY_TRACKS, _MANY_CODECS = 0, 1, 2
_COMMAND: Final = 5  # frame type
# Track numbers have 8 bits, and one modifier is defined. Without these bounds a hostile tag of
# 8 MiB could contain a million of either.
_MOST_TRACKS, _MOST_MODIFIERS = 256, 16
_WIDE: Final = 256  # a modifier's size that announces a size in the next two bytes


class EnhancedTag(msgspec.Struct, frozen=True, gc=False):
    """The first track's part of a tag: packet type, FourCC, and the body after these."""

    kind: int
    fourcc: bytes
    body: memoryview


def parse_video_tag(body: memoryview) -> EnhancedTag | None:
    """Return the first track's part of a video tag; None if it has none or is truncated."""
    place, kind = _skip_modifiers(body)
    if body[0] >> 4 & 7 == _COMMAND and kind != _METADATA:
        return None
    return _parse_first_track(body, place, kind, multitrack=kind == _VIDEO_MULTITRACK)


def parse_audio_tag(body: memoryview) -> EnhancedTag | None:
    """Return the first track's part of an audio tag; None if it has none or is truncated."""
    place, kind = _skip_modifiers(body)
    return _parse_first_track(body, place, kind, multitrack=kind == _AUDIO_MULTITRACK)


def _skip_modifiers(body: memoryview) -> tuple[int, int]:
    """Return the offset of the FourCC and the packet type; past the end if truncated."""
    place, kind = 1, body[0] & 15
    for _ in range(_MOST_MODIFIERS):
        if kind != _MOD_EX:
            break
        size = int(body[place]) + 1 if place < len(body) else 1
        place += 1
        if size == _WIDE:
            size = int.from_bytes(body[place : place + 2], "big") + 1
            place += 2
        place += size
        # The upper half is the modifier's own type.
        kind = body[place] & 15 if place < len(body) else 0
        place += 1
    return place, kind


def _parse_first_track(
    body: memoryview, place: int, kind: int, *, multitrack: bool
) -> EnhancedTag | None:
    if multitrack:
        return _parse_multitrack(body, place)
    if kind == _MOD_EX:
        return None
    end = place + 4
    return EnhancedTag(kind, bytes(body[place:end]), body[end:]) if end <= len(body) else None


def _parse_multitrack(body: memoryview, place: int) -> EnhancedTag | None:
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
            return EnhancedTag(kind, fourcc, body[start:end])
        place = end
    return None
