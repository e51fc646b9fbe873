"""The probe: the facts about an uploaded file, read before it is transcoded.

One picture is decoded, so that a file whose picture cannot be shown is refused at once. All other
facts (times, sizes, rates) come from the container and the decoder.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from fractions import Fraction
from itertools import islice
from typing import Final

import msgspec
from av.audio.stream import AudioStream
from av.error import FFmpegError
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from media.ticks import MICROSECONDS
from transcode.engine.codec.decode import MOST_PIXELS
from transcode.engine.codec.frame_format import rotation_of
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.container import (
    BadUpload,
    Upload,
    audio_stream,
    open_upload,
    pixel_aspect,
    video_stream,
)
from transcode.engine.input.demux import demux
from transcode.engine.input.whole_picture import first_whole_picture
from transcode.protocol.messages import Probed

_MOST_PACKETS: Final = 1_000  # of sound that cannot be decoded, before it is given up
_MOST_LENGTH_US: Final = 24 * 3600 * MICROSECONDS
# Clocks of 90 000 a second and the like are no frame rates.
_MOST_RATE: Final = 1_000
_MOST_SIDE: Final = 16_384
_NO_PICTURE: Final = "The picture cannot be decoded: the file is damaged, cut off or protected."


def probe(descriptor: int, reports: ReportWriter) -> Probed:
    """Return the facts about the file behind a descriptor.

    Raises:
        BadUpload: it cannot be used.
    """
    with open_upload(descriptor, reports) as upload:
        picture, sound = video_stream(upload), audio_stream(upload)
        length_us, estimated = _length_us(upload), _is_estimated(upload)
        if length_us > _MOST_LENGTH_US and not estimated:
            raise BadUpload("The file claims to be longer than a day.")
        facts = Probed(
            container=upload.format.name,
            length_us=length_us,
            estimated=estimated,
            audio_codec=sound.codec_context.name if sound is not None else None,
        )
        if picture is not None:
            with_picture = _with_picture(upload, picture, facts)
            return msgspec.structs.replace(with_picture, subtitles=len(upload.streams.subtitles))
        if sound is not None:
            _decode_sound(upload, sound)
        return facts


def _with_picture(upload: Upload, picture: VideoStream, facts: Probed) -> Probed:
    if not picture.width or not picture.height:
        raise BadUpload(_NO_PICTURE)
    if picture.width * picture.height > MOST_PIXELS:
        raise BadUpload(
            f"The picture is {picture.width} x {picture.height}; at most {MOST_PIXELS:,} pixels"
            " can be handled."
        )
    frame = _first_picture(upload, picture)
    turn = rotation_of(frame)
    size = _display_size(
        frame.width, frame.height, pixel_aspect(picture), sideways=_is_sideways(turn)
    )
    return Probed(
        container=facts.container,
        length_us=facts.length_us or _scanned_us(upload, picture),
        width=size[0],
        height=size[1],
        codec_width=frame.width,
        codec_height=frame.height,
        rotation=frame.rotation,
        rate=_rate(picture),
        video_codec=picture.codec_context.name,
        audio_codec=facts.audio_codec,
    )


def _first_picture(upload: Upload, picture: VideoStream) -> VideoFrame:
    picture.codec_context.thread_count = 1
    try:
        frame = first_whole_picture(upload, picture)
    except MemoryError as error:
        raise BadUpload(_NO_PICTURE) from error
    if frame is None:
        raise BadUpload(_NO_PICTURE)
    return frame


def _decode_sound(upload: Upload, sound: AudioStream) -> None:
    for packet in islice(demux(upload, [sound]), _MOST_PACKETS):
        try:
            if sound.codec_context.decode(packet):
                return
        except FFmpegError:
            continue
    raise BadUpload("The sound cannot be decoded: the file is damaged, cut off or protected.")


def _is_sideways(turn: tuple[str, ...]) -> bool:
    return any(name.startswith("transpose") for name in turn)


def _display_size(width: int, height: int, aspect: Fraction, *, sideways: bool) -> tuple[int, int]:
    """Return the size of the upright picture with square pixels."""
    wide = round(width * aspect)
    if not 0 < wide <= _MOST_SIDE:
        wide = width
    return (height, wide) if sideways else (wide, height)


def _rate(picture: VideoStream) -> int:
    rate = picture.average_rate or picture.guessed_rate
    return round(rate * 1000) if rate and 0 < rate <= _MOST_RATE else 0


def _length_us(upload: Upload) -> int:
    length_us = max(0, upload.duration or 0)
    begins_us = max(0, upload.start_time or 0) if _counts_from_zero(upload) else 0
    return length_us - begins_us if begins_us < length_us else length_us


def _counts_from_zero(upload: Upload) -> bool:
    """Return whether the file's length is the time when its last packet ends.

    So it is in Matroska, in FLV and in fragments of MP4, whose times may begin at any hour.
    """
    names = upload.format.name.split(",")
    is_fragmented = "mp4" in names and not any(stream.frames for stream in upload.streams)
    return is_fragmented or "matroska" in names or "flv" in names


def _is_estimated(upload: Upload) -> bool:
    """Return whether the length is FFmpeg's guess: frames of AAC or MP3, and no count of them.

    Encoders that write the count also say how much silence to skip, so sound begins after zero.
    """
    name = upload.format.name
    return name == "aac" or (name == "mp3" and not upload.start_time)


def _scanned_us(upload: Upload, picture: VideoStream) -> int:
    """Return the length by the packets' times, for a file that was never closed.

    0 if the times jump too far to be of use.
    """
    first: int | None = None
    last = 0
    try:
        upload.seek(0)
        for packet in demux(upload, [picture]):
            if packet.pts is not None:
                first = packet.pts if first is None else min(first, packet.pts)
                last = max(last, packet.pts + (packet.duration or 0))
    except FFmpegError:
        pass  # the length up to here counts
    base = picture.time_base
    length_us = 0 if first is None or not base else round((last - first) * base * MICROSECONDS)
    return length_us if length_us <= _MOST_LENGTH_US else 0
