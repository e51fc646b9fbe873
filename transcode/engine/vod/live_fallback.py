"""An uploaded file through the live engine's ladder: the file is the source of one epoch.

The file is read twice: first for the times of its packets, which say whether its own picture can
make the top rung in one piece, then for its media, which go as fast as the rungs take them. Its own
decoders are used, since files hold what no live encoder sends.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from av.audio.stream import AudioStream
from av.stream import Stream
from av.video.stream import VideoStream

from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.engine.core.reports import Outlet
from transcode.engine.input.container import (
    BadUpload,
    Upload,
    opened,
    picture_of,
    sound_of,
)
from transcode.engine.input.demux import decode_times, demuxed, ticks_of, times_of
from transcode.engine.input.file_decoder import Decoders
from transcode.engine.live.session import Live
from transcode.protocol.messages import Begin, Make, Packet

__all__ = ["Scan", "convert", "decode_times", "in_order", "one_piece"]

# An epoch reads the packets of H.264 and HEVC alone, and those with length prefixes only. This
# codec stands for all that it does not read: keyframes are what the file calls so.
_UNREAD: Final = VideoCodec.VP9
_READ: Final = {"h264": VideoCodec.AVC, "hevc": VideoCodec.HEVC}
# The sound's codec is of no use where the file has its own decoder.
_SOUND: Final = AudioCodec.AAC
_LENGTHS_FOLLOW: Final = 1  # the first octet of avcC and hvcC; Annex B begins with a 0
# How far apart the tracks of a file may lie before they go on as they come.
_HELD_BYTES: Final = 32 << 20
# A source with more than this times its rung's ceiling costs viewers more than it shows them.
_MOST_RATE: Final = 2


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at all packets of the leading track says; times in ticks of 90 000 a second.

    `first` is the earliest presentation time and `end` where the last packet ends. `keys` are the
    keyframes' times; `timed` says that each packet has a presentation time. `decoded` are the
    packets' decode times where the file leaves some out, as Matroska does; else None.
    """

    first: int
    end: int
    size: int
    keys: tuple[int, ...]
    timed: bool
    decoded: tuple[int, ...] | None = None


def convert(descriptor: int, make: Make, outlet: Outlet) -> None:
    """Make the renditions of the file behind a descriptor.

    Raises:
        BadUpload: nothing can be made of it.
    """
    with opened(descriptor) as upload:
        scan = _scan(upload)
    with opened(descriptor) as upload:
        picture = picture_of(upload) if make.ladder is not None else None
        sound = sound_of(upload)
        decoders = Decoders(picture, sound, timed=scan.timed)
        live = Live(outlet, decoders)
        live.take(_begin(make, scan, picture, sound))
        for packet in in_order(_packets(upload, picture, sound, scan)):
            live.take(packet)
        live.close()
        if decoders.pictures is not None and decoders.pictures.all_failed:
            raise BadUpload("No picture of the file can be decoded: it is damaged or protected.")


def one_piece(scan: Scan, *, cut: int, longest: int) -> bool:
    """Say whether the keyframes allow segments that are not too long, from beginning to end."""
    last = scan.first
    if not scan.keys or scan.keys[0] > last:
        return False
    for key in (*scan.keys, scan.end):
        if key - last > longest:
            return False
        if key - last >= cut:
            last = key
    return True


def in_order(packets: Iterable[Packet]) -> Iterator[Packet]:
    """Yield the packets of both tracks by their decode times, as far as `_HELD_BYTES` reach."""
    held: dict[bool, deque[Packet]] = {True: deque(), False: deque()}
    size = 0
    for packet in packets:
        held[packet.video].append(packet)
        size += len(packet.data)
        while (held[True] and held[False]) or size > _HELD_BYTES:
            earliest = _earliest(held)
            size -= len(earliest.data)
            yield earliest
    while held[True] or held[False]:
        yield _earliest(held)


def _earliest(held: dict[bool, deque[Packet]]) -> Packet:
    waiting = [queue for queue in held.values() if queue]
    return min(waiting, key=lambda queue: queue[0].dts).popleft()


def _begin(make: Make, scan: Scan, picture: VideoStream | None, sound: AudioStream | None) -> Begin:
    order = Begin(
        epoch=0,
        video=_video_track(picture) if picture is not None else None,
        audio=_audio_track(sound) if sound is not None else None,
        ladder=make.ladder,
        start=ORIGIN_SECONDS * VIDEO_SCALE,
        sequence=0,
        inits={},
        discontinuity=False,
    )
    reuse = make.reuse and scan.timed and _is_lean(make, scan)
    reuse = reuse and one_piece(scan, cut=order.cut, longest=order.longest)
    return msgspec.structs.replace(order, reuse=reuse)


def _is_lean(make: Make, scan: Scan) -> bool:
    if make.ladder is None or scan.end <= scan.first:
        return False
    rate = scan.size * 8 * VIDEO_SCALE // (scan.end - scan.first)
    return rate <= _MOST_RATE * make.ladder.renditions[0].rate


def _video_track(picture: VideoStream) -> VideoTrack:
    config = picture.codec_context.extradata or b""
    read = _READ.get(picture.codec_context.name) if config[:1] == b"\x01" else None
    return VideoTrack(
        codec=read or _UNREAD,
        config=config if read else b"",
        width=picture.width,
        height=picture.height,
        scale=VIDEO_SCALE,
    )


def _audio_track(sound: AudioStream) -> AudioTrack:
    context = sound.codec_context
    return AudioTrack(
        codec=_SOUND,
        config=b"",
        rate=context.sample_rate or 0,
        channels=context.channels or 0,
        scale=VIDEO_SCALE,
    )


# -- packets --------------------------------------------------------------------------------------


def _packets(
    upload: Upload, picture: VideoStream | None, sound: AudioStream | None, scan: Scan
) -> Iterator[Packet]:
    streams: list[Stream] = [stream for stream in (picture, sound) if stream is not None]
    leading = picture or sound
    decoded = iter(scan.decoded or ())
    for packet in demuxed(upload, streams):
        times = times_of(packet)
        if times is None:
            continue
        dts, pts = times
        if packet.stream is leading:
            dts = next(decoded, dts)
        yield Packet(
            video=packet.stream is picture,
            dts=dts - scan.first,
            pts=pts - scan.first,
            key=packet.is_keyframe,
            data=bytes(packet),
        )


def _scan(upload: Upload) -> Scan:
    leading = picture_of(upload) or sound_of(upload)
    if leading is None:
        raise BadUpload("The file has neither a picture nor sound that could be played.")
    first: int | None = None
    end, size, timed, ordered = 0, 0, True, True
    keys: list[int] = []
    shown = array("q")
    for packet in demuxed(upload, [leading]):
        times = times_of(packet)
        if times is None:
            continue
        pts = times[1]
        timed = timed and packet.pts is not None
        ordered = ordered and packet.dts is not None
        shown.append(pts)
        first = pts if first is None else min(first, pts)
        base = packet.stream.time_base
        end = max(end, pts + (ticks_of(packet.duration, base) if packet.duration and base else 0))
        size += packet.size
        if packet.is_keyframe:
            keys.append(pts)
    if first is None:
        raise BadUpload("The file holds no media: it is cut off or damaged.")
    return Scan(
        first=first,
        end=max(first, end),
        size=size,
        keys=tuple(keys),
        timed=timed,
        decoded=decode_times(shown) if timed and not ordered else None,
    )
