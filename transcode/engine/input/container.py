"""An uploaded file, opened with care: every byte of it is untrusted.

It is read through a descriptor that is already open; its name is not known here. Only formats that
carry their own media are probed: playlists, file lists and session descriptions, which name other
files and servers, are not, and nothing else is opened on the file's behalf.
"""

# The library leaves some of its types open.
# pyright: reportUnknownMemberType=false

import io
import os
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import av

# Loaded by the library for its first such stream, which would be too late in the sandbox.
import av.audio.codeccontext  # pyright: ignore[reportUnusedImport]  # for its effect
import av.subtitles.codeccontext  # pyright: ignore[reportUnusedImport]  # for its effect
import av.subtitles.stream  # pyright: ignore[reportUnusedImport]  # for its effect
import av.video.codeccontext  # pyright: ignore[reportUnusedImport]  # for its effect
from av.audio.layout import AudioLayout
from av.audio.stream import AudioStream
from av.container.input import InputContainer
from av.error import FFmpegError
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from media.no_op import do_nothing
from transcode.engine.core.read_reporter import ReadReporter
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.appended_movies import MediaFile
from transcode.engine.input.stereo_pair import ONE_SIDE, left_and_right

Upload = InputContainer

# FFmpeg's own limit. Releases with many languages have dozens of tracks, and each font that their
# subtitles name is one more. A demuxer that reaches the limit breaks off in mid-header, so the rest
# of its result is of no use.
MOST_TRACKS: Final = 1_000
# The demuxers' own names. They are matched by name, so the content cannot select another format.
_FORMATS: Final = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,asf,mxf,dv,mp3,wav,ogg,flac,aac"
)
_OPTIONS: Final = {
    "format_whitelist": _FORMATS,
    # No protocol at all: the bytes come through the descriptor.
    "protocol_whitelist": "none",
    "max_streams": str(MOST_TRACKS),
    # Of MPEG-TS in microseconds, as far as 5 MB reach: by default 5 s are read to learn a picture's
    # size, and three pictures must be read, each of which may stand for a minute.
    "analyzeduration": "300000000",
}
_READ_BYTES: Final = 1 << 18
# The header of FLV: its mark and version, an octet of flags, and its length (FLV 10.1, annex E.2).
_FLV: Final = b"FLV\x01"
_FLV_HEADER: Final = 9
_FLV_HEADER_BYTES: Final = _FLV_HEADER.to_bytes(4, "big")
_MOST_ASPECT: Final = 8
# Scaling to whole pixels leaves unintended aspects such as 2560:2561.
_LEAST_ASPECT: Final = Fraction(1, 50)
_UNREADABLE: Final = (
    "The file cannot be read: it is damaged, cut off, or none of MP4, MOV, MKV, WebM, AVI, MPEG,"
    " FLV, WMV, MXF, DV, MP3, WAV, Ogg, FLAC and AAC."
)


# In the name of a layout that is none of the usual ones: "2 channels (FL+FL)", say.
_UNNAMED: Final = " channels"
_POSITIONS: Final = (
    *("FL", "FR", "FC", "LFE", "BL", "BR", "FLC", "FRC", "BC", "SL", "SR"),
    *("TC", "TFL", "TFC", "TFR", "TBL", "TBC", "TBR"),
)
ENCRYPTED: Final = "The file is encrypted (DRM): it can be played with a key only."
_TOO_MANY: Final = f"The file has {MOST_TRACKS:,} tracks or more."
_UNKNOWN_PICTURE: Final = "The picture has a format that cannot be decoded."
# A single picture in one of these, beside a video, is a cover or a thumbnail, whatever its flags.
_IMAGE_CODECS: Final = frozenset({"bmp", "gif", "mjpeg", "png", "tiff", "webp"})


class BadUpload(Exception):
    """The file cannot be used; the text is a sentence for its owner."""


def _deny(*_: object, **__: object) -> None:
    raise PermissionError("a file that names another file")


class _ReportedFile(MediaFile):
    """A file whose descriptor the caller owns, and whose reads are counted.

    A packet of 16 MB is read in pieces: on a slow disk it would take as long as an engine may be
    silent. `on_second_file` is called when another file begins in a FLV: its demuxer takes the
    header for a packet, as long as megabytes, and leaves that out.
    """

    def __init__(
        self, descriptor: int, reporter: ReadReporter, on_second_file: Callable[[], None]
    ) -> None:
        super().__init__(descriptor, closefd=False)
        self._reporter = reporter
        self._on_second_file = on_second_file
        self._is_flv: bool | None = None  # what is read first tells, which is the beginning
        self._tail = b""  # of the bytes that were read last

    def read(self, size: int | None = -1, /) -> bytes:
        count = _READ_BYTES if size is None or size < 0 else min(size, _READ_BYTES)
        try:
            data = super().read(count)
        except OSError as error:
            # A demuxer may take it for the end of the file.
            self._reporter.fail(error)
            raise
        self._reporter.add(len(data))
        if self._is_flv is None:
            self._is_flv = data.startswith(_FLV)
        if self._is_flv:
            self._look_for_header(data)
        return data

    def _look_for_header(self, data: bytes) -> None:
        window = self._tail + data
        begin = window.find(_FLV, 1)
        while begin > 0:
            if window[begin + 5 : begin + _FLV_HEADER] == _FLV_HEADER_BYTES:
                self._is_flv = False
                self._on_second_file()
                return
            begin = window.find(_FLV, begin + 1)
        self._tail = window[1 - _FLV_HEADER :]


def open_upload(
    descriptor: int,
    reports: ReportWriter | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Upload:
    """Return the file behind a descriptor, which the caller still owns.

    How much of it is read is reported to `reports`, by `clock` (seconds, monotonic).

    Raises:
        BadUpload: it has none of the known formats, or is too damaged to start with.
    """
    send = reports.send if reports is not None else do_nothing
    reporter = ReadReporter(send, os.fstat(descriptor).st_size, clock)
    file = _ReportedFile(
        descriptor,
        reporter,
        do_nothing if reports is None else lambda: reports.count_trouble("files joined"),
    )
    upload = open_media(file)
    if len(upload.streams) >= MOST_TRACKS:
        raise BadUpload(_TOO_MANY)
    # The key's id in a WebM (WebM Encryption, section 3); MP4 marks packets (see `demux`).
    if any("enc_key_id" in stream.metadata for stream in upload.streams):
        raise BadUpload(ENCRYPTED)
    for each in filter(_is_known, upload.streams.audio):
        _settle_positions(each)
    sound = audio_stream(upload)
    if sound is not None:
        _check_positions(sound)
    if video_stream(upload) is None:
        if any(not _is_cover(stream) for stream in upload.streams.video):
            raise BadUpload(_UNKNOWN_PICTURE)
        if sound is None:
            raise BadUpload("The file has neither a picture nor sound that could be played.")
    return upload


def open_media(file: MediaFile | io.BytesIO) -> Upload:
    """Return the media in a file, read from its beginning.

    Raises:
        BadUpload: it has none of the known formats, or is too damaged to start with.
    """
    options = dict(_OPTIONS)
    if isinstance(file, MediaFile) and file.is_appended:
        options["interleaved_read"] = "0"  # by times, which begin again, it would mix the films
    try:
        file.seek(0)
        media = av.open(file, options=options, io_open=_deny, buffer_size=_READ_BYTES)
    except (FFmpegError, MemoryError, ValueError) as error:
        raise BadUpload(_UNREADABLE) from error
    if not isinstance(media, InputContainer):
        raise TypeError(type(media).__name__)
    return media


def _settle_positions(sound: AudioStream) -> None:
    """Give channels that have odd positions, such as left and left, those usual for their number.

    The library shares the list of such positions between its objects, and each of them frees it:
    so this is the only look at it, and the decoder, and with it each frame, gets others. A single
    channel stays left or right. A track that begins late in the file has no channels yet: its
    packets say how many.
    """
    layout = sound.codec_context.layout
    if layout.nb_channels and _UNNAMED in layout.name:
        side = ONE_SIDE.get(layout.name)
        usual = AudioLayout(side) if side is not None else _usual_layout(layout.nb_channels)
        sound.codec_context.layout = usual


def _usual_layout(channels: int) -> AudioLayout:
    """Return the usual positions of so many channels; the first of all if none are usual."""
    try:
        return AudioLayout(f"{channels}c")
    except ValueError:
        if channels > len(_POSITIONS):
            return AudioLayout(f"{channels}{_UNNAMED}")
        return AudioLayout("+".join(_POSITIONS[:channels]))


def _check_positions(sound: AudioStream) -> None:
    layout, most = sound.codec_context.layout, len(_POSITIONS)
    if layout.nb_channels > most and layout.name == f"{layout.nb_channels}{_UNNAMED}":
        raise BadUpload(
            f"The sound has {layout.nb_channels} channels; at most {most} can be mixed."
        )


def video_stream(upload: Upload) -> VideoStream | None:
    """Return the file's video track: no cover art.

    Of several it is the one that is flagged as the default, and the largest if that leaves a
    choice; a track of still images only if there is no other.
    """
    known = [
        stream for stream in upload.streams.video if _is_known(stream) and not _is_cover(stream)
    ]
    return max(known, key=_preference, default=None)


def audio_stream(upload: Upload) -> AudioStream | None:
    """Return the file's sound track, or the left one of two (see `audio_streams`)."""
    return next(iter(audio_streams(upload)), None)


def audio_streams(upload: Upload) -> tuple[AudioStream, ...]:
    """Return the file's sound: no track, one, or the left and the right one.

    It is the default track, or else the first. Of several programmes, as in a recorded multiplex,
    it is one of the picture's.
    """
    known = _sounds(upload)
    default = [stream for stream in known if stream.disposition & Disposition.default]
    chosen = next(iter([*default, *known]), None)
    return () if chosen is None else left_and_right(known, chosen) or (chosen,)


def used_streams(upload: Upload) -> list[Stream]:
    """Return the file's picture and sound, at least one track; the leading one is the first."""
    picture = video_stream(upload)
    return [*([] if picture is None else [picture]), *audio_streams(upload)]


def has_other_sound(upload: Upload) -> bool:
    """Return whether there are tracks of sound besides those that are used."""
    return len(_sounds(upload)) > len(audio_streams(upload))


def _sounds(upload: Upload) -> list[AudioStream]:
    known = [stream for stream in upload.streams.audio if _is_known(stream)]
    picture = video_stream(upload)
    if picture is not None:
        known = [each for each in known if _are_of_one_programme(upload, each, picture)] or known
    return known


def pixel_aspect(picture: VideoStream) -> Fraction:
    """Return a pixel's width by its height; 1 if the file has no value, or an absurd one."""
    return credible_aspect(picture.sample_aspect_ratio)


def credible_aspect(aspect: Fraction | None) -> Fraction:
    """Return an aspect of pixels; 1 if there is none, or it is absurd."""
    if not aspect or not Fraction(1, _MOST_ASPECT) <= aspect <= _MOST_ASPECT:
        return Fraction(1)
    return Fraction(1) if abs(aspect - 1) <= _LEAST_ASPECT else aspect


def _preference(stream: VideoStream) -> tuple[bool, bool, int]:
    return (
        stream.codec_context.name not in _IMAGE_CODECS,
        bool(stream.disposition & Disposition.default),
        stream.width * stream.height,
    )


def _are_of_one_programme(upload: Upload, sound: AudioStream, picture: VideoStream) -> bool:
    """Return whether a sound and a picture belong together; the library tells no programmes."""
    best, other = (upload.streams.best("audio", related=each) for each in (sound, picture))
    return best is other


def _is_cover(stream: Stream) -> bool:
    return bool(stream.disposition & Disposition.attached_pic)


def _is_known(stream: Stream) -> bool:
    # None if the library has no decoder, though its stub does not say so. Of another type if a
    # MPEG-TS uses the track's number for another one later in the file.
    context = getattr(stream, "codec_context", None)
    return context is not None and context.type == stream.type
