"""MP4 files to which other ones were appended, byte by byte, as by a recorder that starts again.

The library reads the first header (`moov`) only. Of whole films it finds the first one: what
follows cannot be shown. Of films in fragments it finds all fragments, whose clock begins again with
each film; but it takes the first fragment of a later film for a repetition, and flags its packets
as not to be shown.

Source: ISO/IEC 14496-12, 4.2 (boxes) and 8.8 (fragments).
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import io
import os
import struct
from functools import cached_property
from typing import Final

from av.container import Container
from av.packet import Packet
from av.stream import Stream

_HEADER: Final = 16  # bytes of a box's header, at most
_MOST_BOXES: Final = 200_000  # two of each fragment: a day in fragments of a second


def has_appended_movie(container: Container) -> bool:
    """Return whether whole films follow the first one of an MP4 file."""
    return _is_indexed(container) and _has_several(container)


def has_appended_fragments(container: Container) -> bool:
    """Return whether the fragments in an MP4 file are those of several films."""
    return not _is_indexed(container) and _has_several(container)


def shown(packet: "Packet[Stream]") -> "Packet[Stream]":
    """Return a packet without the flag that it is not to be shown, which cannot be reset."""
    copy: Packet[Stream] = Packet(packet.size)
    copy.update(bytes(packet))
    copy.time_base, copy.dts, copy.pts = packet.time_base, packet.dts, packet.pts
    copy.duration, copy.is_keyframe, copy.stream = (
        packet.duration,
        packet.is_keyframe,
        packet.stream,
    )
    if packet.has_sidedata("new_extradata"):
        copy.set_sidedata(packet.get_sidedata("new_extradata"))
    return copy


def _is_indexed(container: Container) -> bool:
    """Return whether a header lists samples; those in fragments are not in it."""
    return any(stream.frames for stream in container.streams)


def _has_several(container: Container) -> bool:
    file: object = getattr(container.file, "file", None)
    is_mov = "mov" in container.format.name.split(",")
    return is_mov and isinstance(file, MediaFile) and file.is_appended


class MediaFile(io.FileIO):
    """A file of media, whose boxes are walked once."""

    @cached_property
    def is_appended(self) -> bool:
        """True if it has the headers of several films, if its format is MP4."""
        descriptor, at, movies = self.fileno(), 0, 0
        end = os.fstat(descriptor).st_size
        for _ in range(_MOST_BOXES):
            header = _read(descriptor, at) if at < end else b""
            if len(header) < _HEADER or movies > 1:
                break
            size, kind, large = struct.unpack(">I4sQ", header)
            movies += kind == b"moov"
            size = large if size == 1 else size
            if size < _HEADER // 2:  # 0: up to the end of the file
                break
            at += size
        return movies > 1


def _read(descriptor: int, at: int) -> bytes:
    try:
        return os.pread(descriptor, _HEADER, at)
    except OSError:
        return b""  # reading the media fails there, too, and is reported
