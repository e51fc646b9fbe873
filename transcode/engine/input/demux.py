"""The packets of an uploaded file, and their times in ticks of 90 000 a second."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Final

from av.container import Container
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Stream

from media.ticks import VIDEO_SCALE
from transcode.engine.input.appended_movies import has_appended_fragments, shown
from transcode.engine.input.container import ENCRYPTED, BadUpload, Upload

_MOST_UNTIMED: Final = 3_000  # a minute of sound: some megabytes, or 100 s of pictures
_USUAL_STEP: Final = VIDEO_SCALE // 30

PacketTimes = Callable[["Packet[Stream]"], tuple[int, int] | None]
"""Returns a packet's decode and presentation time, as `packet_times` does."""


class Reach:
    """How far the times of a file's packets go, in all of its tracks."""

    def __init__(self) -> None:
        self._bounds: dict[int, tuple[Fraction, int, int]] = {}  # base, first and last by track

    def add(self, packet: "Packet[Stream]") -> None:
        """Add a packet of any track."""
        begin, base = packet.dts if packet.pts is None else packet.pts, packet.time_base
        if begin is None or not base:
            return
        # In MP4 a duration is the time up to the next packet, whenever that is shown.
        decoded = begin if packet.dts is None else packet.dts
        end = max(begin, decoded + (packet.duration or 0))
        _, first, last = self._bounds.get(packet.stream_index, (base, begin, end))
        self._bounds[packet.stream_index] = base, min(first, begin), max(last, end)

    @property
    def ticks(self) -> int:
        """The latest time in the file, or the longest time in it: containers count either."""
        firsts = [to_ticks(first, base) for base, first, _ in self._bounds.values()]
        latest = max((to_ticks(last, base) for base, _, last in self._bounds.values()), default=0)
        return latest - min(0, *firsts) if firsts else 0


def demux(
    upload: Upload, streams: list[Stream], reach: Reach | None = None
) -> Iterator["Packet[Stream]"]:
    """Yield the packets up to the end, or to where the file is broken off.

    `reach` gets the packets of all tracks.

    Raises:
        BadUpload: one is encrypted (ISO/IEC 23001-7: cenc, cbcs and the like).
    """
    is_appended: bool | None = None  # unknown before a packet is not to be shown
    try:
        for packet in upload.demux(streams) if reach is None else upload.demux():
            if reach is not None:
                reach.add(packet)
                if packet.stream not in streams:
                    continue
            if packet.has_sidedata("encryption_info"):
                raise BadUpload(ENCRYPTED)
            if packet.is_discard and is_appended is None:
                is_appended = has_appended_fragments(upload)
            if packet.size:
                yield shown(packet) if packet.is_discard and is_appended else packet
    except (FFmpegError, IndexError):
        # The packets before are good. An IndexError comes at the end of a file in which another
        # track began after the header was read: the library flushes that too, and has no such
        # stream.
        return


def has_shown_times(container: Container) -> bool:
    """Return False for AVI, which has no times but the order of decoding.

    The library guesses when its pictures are shown, and B-frames deceive it.
    """
    return container.format.name != "avi"


def has_one_clock(container: Container) -> bool:
    """Return False for MPEG-TS and MPEG-PS, whose clock may begin anew anywhere.

    So it may where films in fragments were put together. Packets say when they are decoded.
    """
    is_stream = container.format.name in ("mpegts", "mpeg")
    return not is_stream and not has_appended_fragments(container)


class ConfigWatch:
    """Watches a track for packets that need another configuration than the track's first."""

    def __init__(self, stream: Stream) -> None:
        self._first = stream.codec_context.extradata or b""

    def is_other(self, packet: "Packet[Stream]") -> bool:
        """Return whether a packet brings another one; encoders also repeat the first."""
        return (
            packet.has_sidedata("new_extradata")
            and bytes(packet.get_sidedata("new_extradata")) != self._first
        )


class KeyOrder:
    """Watches a track for a keyframe that is to be shown before a picture decoded earlier.

    No codec has that: two films overlap where they were put together.
    """

    def __init__(self) -> None:
        self._latest: int | None = None

    def is_broken_by(self, pts: int, *, key: bool) -> bool:
        """Return whether the next picture, in decode order, is such a keyframe."""
        latest = pts if self._latest is None else self._latest
        self._latest = max(latest, pts)
        return key and pts < latest


def to_ticks(time: int, base: Fraction) -> int:
    """Return a time in ticks of 90 000 a second."""
    return (2 * time * base.numerator * VIDEO_SCALE + base.denominator) // (2 * base.denominator)


def packet_times(packet: "Packet[Stream]") -> tuple[int, int] | None:
    """Return a packet's decode and presentation time; None if it has neither."""
    dts, pts = packet.dts, packet.pts
    dts = pts if dts is None else dts
    pts = dts if pts is None or not has_shown_times(packet.stream.container) else pts
    base = packet.stream.time_base
    if dts is None or pts is None or not base:
        return None
    return to_ticks(dts, base), to_ticks(pts, base)


def packet_length(packet: "Packet[Stream]") -> int:
    """Return how long a packet lasts; 0 if that is unknown."""
    base = packet.stream.time_base
    return to_ticks(packet.duration, base) if packet.duration and base else 0


def timed_packets(
    upload: Upload, streams: list[Stream], times_of: PacketTimes = packet_times
) -> Iterator[tuple["Packet[Stream]", int, int]]:
    """Yield the packets as `demux` does, each with its decode and presentation time.

    Matroska cannot hold times below zero, so the first packets of a file that begins there have no
    times: they are placed before the first one that has. Others without times are left out.
    """
    waiting: dict[int, list[Packet[Stream]]] = {stream.index: [] for stream in streams}
    for packet in demux(upload, streams):
        times = times_of(packet)
        untimed = waiting.get(packet.stream.index)
        if times is None:
            if untimed is not None and len(untimed) < _MOST_UNTIMED:
                untimed.append(packet)
            continue
        for steps, earlier in enumerate(untimed or (), -len(untimed or ())):
            at = times[0] + steps * (packet_length(earlier) or _USUAL_STEP)
            yield earlier, at, at
        waiting.pop(packet.stream.index, None)
        yield packet, *times


def decode_times(shown: Sequence[int]) -> tuple[int, ...]:
    """Return decode times for packets in decode order, by the times at which they are shown.

    They are the presentation times sorted, shifted so that no packet is decoded after it is shown.
    """
    sorted_times = sorted(shown)
    pairs = zip(sorted_times, shown, strict=True)
    shift = max((sorted_time - time for sorted_time, time in pairs), default=0)
    return tuple(time - shift for time in sorted_times)
