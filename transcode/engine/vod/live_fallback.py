"""Encodes an uploaded file with the live engine, as the source of one epoch.

The file is read twice: first for the times of its packets, which decide whether its own picture can
make the top rung, then for its media, as fast as the encoders take them. Its own decoders are used,
since files contain what no live encoder sends.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from av.audio.stream import AudioStream
from av.packet import Packet as AvPacket
from av.stream import Stream
from av.video.stream import VideoStream

from media.ladder import MOST_SOURCE_RATE
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from media.track import VideoCodec, VideoTrack
from transcode.engine.codec.decode import TIME_BASE, PacketData
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.container import (
    BadUpload,
    Upload,
    audio_streams,
    open_upload,
    used_streams,
    video_stream,
)
from transcode.engine.input.demux import (
    ConfigWatch,
    KeyOrder,
    PacketTimes,
    decode_times,
    has_shown_times,
    packet_length,
    timed_packets,
)
from transcode.engine.input.file_decoder import FileDecoders, sound_track
from transcode.engine.input.joined_clock import find_joins, joined_times
from transcode.engine.live.session import LiveSession
from transcode.protocol.messages import Begin, FileOrder, Packet

# An epoch parses only packets of H.264 and HEVC with length prefixes. This codec represents all
# that it does not parse, whose keyframes are those that the file declares.
_UNPARSED_CODEC: Final = VideoCodec.VP9
_PARSED_CODECS: Final = {"h264": VideoCodec.AVC, "hevc": VideoCodec.HEVC}
_LENGTHS_FOLLOW: Final = b"\x01"  # the first octet of avcC and hvcC; Annex B begins with a 0
# How far the tracks of a file may be apart before their packets are used in the file's order.
_MOST_HIDDEN: Final = 600  # 10 s of pictures that an edit list leaves out: some megabytes
_Timed: TypeAlias = "tuple[AvPacket[Stream], int, int]"  # with decode and presentation time
_HELD_BYTES: Final = 32 << 20


class PacketScan(msgspec.Struct, frozen=True, kw_only=True):
    """The times of all packets of the leading track, in ticks of 90 000 a second.

    `first` is the earliest presentation time and `end` where the last packet ends; `keys` are the
    keyframes' times, and `shown` counts the packets that are shown. `timed` is True if every packet
    has a presentation time, and `plain` if every packet is shown, at a time of its own and with the
    first configuration. `decoded` are the packets' decode times if the file leaves some out, as
    Matroska does, or else None.
    """

    first: int
    end: int
    size: int
    keys: tuple[int, ...]
    timed: bool
    shown: int = 0
    plain: bool = True
    decoded: tuple[int, ...] | None = None


def convert(
    descriptor: int, order: FileOrder, reports: ReportWriter, *, audible: bool = True
) -> None:
    """Make the renditions of the file behind a descriptor; the audio one only if it is `audible`.

    Raises:
        BadUpload: it cannot be used.
    """
    with open_upload(descriptor, reports) as upload:
        joins = find_joins(upload, used_streams(upload))
    with open_upload(descriptor, reports) as upload:
        scan = _scan(upload, joined_times(joins))
    with open_upload(descriptor, reports) as upload:
        picture = video_stream(upload) if order.ladder is not None else None
        sounds = audio_streams(upload)
        decoders = FileDecoders(picture, sounds, timed=scan.timed)
        live = LiveSession(reports, decoders, audible=audible)
        live.handle(_begin(order, scan, picture, sounds))
        tracks = len(sounds) + (picture is not None)
        packets = _packets(upload, picture, sounds, scan, joined_times(joins))
        for packet in interleave(packets, tracks):
            live.handle(packet)
        live.close()
        if decoders.video_decoder is not None and decoders.video_decoder.all_failed:
            raise BadUpload("No picture of the file can be decoded: it is damaged or protected.")


def has_short_segments(scan: PacketScan, *, cut: int, longest: int) -> bool:
    """Return whether cutting at the keyframes never makes a segment longer than `longest`."""
    last = scan.first
    if not scan.keys or scan.keys[0] > last:
        return False
    for key in (*scan.keys, scan.end):
        if key - last > longest:
            return False
        if key - last >= cut:
            last = key
    return True


def interleave(packets: Iterable[Packet], tracks: int = 2) -> Iterator[Packet]:
    """Yield the packets of all tracks by their decode times, as far as `_HELD_BYTES` allow."""
    queues: defaultdict[int, deque[Packet]] = defaultdict(deque)
    size = 0
    for packet in packets:
        queues[_track_index(packet)].append(packet)
        size += len(packet.data)
        while (len(queues) == tracks and all(queues.values())) or size > _HELD_BYTES:
            earliest = _earliest(queues)
            size -= len(earliest.data)
            yield earliest
    while any(queues.values()):
        yield _earliest(queues)


def _track_index(packet: Packet) -> int:
    data = packet.data
    return data.packet.stream_index if isinstance(data, PacketData) else int(packet.video)


def _earliest(queues: dict[int, deque[Packet]]) -> Packet:
    waiting = [queue for queue in queues.values() if queue]
    return min(waiting, key=lambda queue: queue[0].dts).popleft()


def _begin(
    make: FileOrder,
    scan: PacketScan,
    picture: VideoStream | None,
    sounds: tuple[AudioStream, ...],
) -> Begin:
    order = Begin(
        epoch=0,
        video=_video_track(picture, parsed=scan.plain) if picture is not None else None,
        audio=sound_track(sounds[0]) if sounds else None,
        ladder=make.ladder,
        start=ORIGIN_SECONDS * VIDEO_SCALE,
        sequence=0,
        inits={},
        discontinuity=False,
    )
    reuse = make.reuse and scan.timed and scan.plain and _is_lean(make, scan)
    reuse = reuse and has_short_segments(scan, cut=order.cut, longest=order.longest)
    return msgspec.structs.replace(order, reuse=reuse)


def _is_lean(make: FileOrder, scan: PacketScan) -> bool:
    if make.ladder is None or scan.end <= scan.first:
        return False
    rate = scan.size * 8 * VIDEO_SCALE // (scan.end - scan.first)
    return rate <= MOST_SOURCE_RATE * make.ladder.renditions[0].rate


def _video_track(picture: VideoStream, *, parsed: bool) -> VideoTrack:
    config = picture.codec_context.extradata or b""
    parsed = parsed and config[:1] == _LENGTHS_FOLLOW
    codec = _PARSED_CODECS.get(picture.codec_context.name) if parsed else None
    return VideoTrack(
        codec=codec or _UNPARSED_CODEC,
        config=config if codec else b"",
        width=picture.width,
        height=picture.height,
        scale=VIDEO_SCALE,
    )


# -- packets --------------------------------------------------------------------------------------


def _packets(
    upload: Upload,
    picture: VideoStream | None,
    sounds: tuple[AudioStream, ...],
    scan: PacketScan,
    times_of: PacketTimes,
) -> Iterator[Packet]:
    streams: list[Stream] = [*sounds] if picture is None else [picture, *sounds]
    leading = streams[0] if streams else None
    decoded = iter(scan.decoded or ())
    left, keyless, has_begun = scan.shown, not scan.keys, False
    before: dict[int, list[_Timed]] = {}  # by track, what its next packet brings along
    for packet, own_dts, pts in timed_packets(upload, streams, times_of):
        earlier = before.setdefault(packet.stream_index, [])
        if packet.is_discard:
            _hide((packet, own_dts, pts), earlier)
            continue
        dts, key, leads = own_dts, packet.is_keyframe, packet.stream is leading
        if leads:
            dts = next(decoded, dts)
            left -= 1
            if earlier and not has_begun and pts > scan.first:
                # An edit list begins with a picture that is decoded after this one.
                earlier.append((packet, dts, pts))
                continue
            has_begun = True
            # Decoding must begin somewhere in a file that flags no keyframe.
            key, keyless = key or keyless, False
        yield Packet(
            video=packet.stream is picture,
            dts=dts - scan.first,
            pts=pts - scan.first,
            key=key or any(each.is_keyframe for each, _, _ in earlier),
            data=PacketData(packet, _placed(earlier, dts, pts), is_last=leads and not left),
        )
        earlier.clear()


def _hide(packet: _Timed, hidden: list[_Timed]) -> None:
    """Add a packet that an edit list leaves out to those that the next one shown may refer to."""
    if packet[0].is_keyframe or len(hidden) >= _MOST_HIDDEN:
        hidden.clear()
    hidden.append(packet)


def _placed(earlier: Sequence[_Timed], dts: int, pts: int) -> list["AvPacket[Stream]"]:
    """Return packets with their times relative to those of the packet that follows them."""
    for packet, own_dts, own_pts in earlier:
        packet.time_base, packet.dts, packet.pts = TIME_BASE, own_dts - dts, own_pts - pts
    return [packet for packet, _, _ in earlier]


def _scan(upload: Upload, times_of: PacketTimes) -> PacketScan:
    leading, *others = used_streams(upload)
    first: int | None = None
    end, size, timed, ordered, plain = 0, 0, True, True, True
    watch, order = ConfigWatch(leading), KeyOrder()
    keys: list[int] = []
    shown = array("q")
    for packet, _, pts in timed_packets(upload, [leading, *others], times_of):
        plain = plain and not (packet.stream is leading and packet.is_discard)
        if packet.stream is not leading or packet.is_discard:
            continue
        timed = timed and packet.pts is not None and has_shown_times(upload)
        plain = plain and not watch.is_other(packet)
        plain = plain and not order.is_broken_by(pts, key=packet.is_keyframe)
        ordered = ordered and packet.dts is not None
        shown.append(pts)
        first = pts if first is None else min(first, pts)
        end = max(end, pts + packet_length(packet))
        size += packet.size
        if packet.is_keyframe:
            keys.append(pts)
    if first is None:
        raise BadUpload("The file holds no media: it is cut off or damaged.")
    plain = plain and len(set(shown)) == len(shown)
    return PacketScan(
        first=first,
        end=max(first, end),
        size=size,
        keys=tuple(keys),
        timed=timed,
        shown=len(shown),
        plain=plain,
        decoded=decode_times(shown) if timed and not ordered else None,
    )
