"""The packets of an uploaded file, and their times in ticks of 90 000 a second."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator, Sequence
from fractions import Fraction

from av.error import FFmpegError
from av.packet import Packet
from av.stream import Stream

from media.ticks import VIDEO_SCALE
from transcode.engine.input.container import ENCRYPTED, BadUpload, Upload

__all__ = ["decode_times", "demux", "packet_times", "to_ticks"]


def demux(upload: Upload, streams: list[Stream]) -> Iterator["Packet[Stream]"]:
    """Yield the packets up to the end, or to where the file is broken off.

    Raises:
        BadUpload: one is encrypted (ISO/IEC 23001-7: cenc, cbcs and the like).
    """
    try:
        for packet in upload.demux(streams):
            if packet.has_sidedata("encryption_info"):
                raise BadUpload(ENCRYPTED)
            if packet.size:
                yield packet
    except (FFmpegError, IndexError):
        # The packets before are good. An IndexError comes at the end of a file in which another
        # track began after the header was read: the library flushes that too, and has no such
        # stream.
        return


def to_ticks(time: int, base: Fraction) -> int:
    """Return a time in ticks of 90 000 a second."""
    return (2 * time * base.numerator * VIDEO_SCALE + base.denominator) // (2 * base.denominator)


def packet_times(packet: "Packet[Stream]") -> tuple[int, int] | None:
    """Return a packet's decode and presentation time; None if it has neither."""
    dts, pts = packet.dts, packet.pts
    dts = pts if dts is None else dts
    pts = dts if pts is None else pts
    base = packet.stream.time_base
    if dts is None or pts is None or not base:
        return None
    return to_ticks(dts, base), to_ticks(pts, base)


def decode_times(shown: Sequence[int]) -> tuple[int, ...]:
    """Return decode times for packets in decode order, by the times at which they are shown.

    They are the presentation times sorted, shifted so that no packet is decoded after it is shown.
    """
    sorted_times = sorted(shown)
    pairs = zip(sorted_times, shown, strict=True)
    early = max((place - time for place, time in pairs), default=0)
    return tuple(time - early for time in sorted_times)
