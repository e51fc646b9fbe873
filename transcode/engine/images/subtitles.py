"""The subtitles in an uploaded file, as cues: those of text; pictures of text are left out.

All kinds come out of their decoders as events of ASS. A stranger wrote them: how many tracks, cues
and letters are taken is bounded, and no markup of theirs gets through.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from av.error import FFmpegError
from av.packet import Packet
from av.stream import Discard, Disposition, Stream
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import AssSubtitle, SubtitleSet

from media.hls.ssa import cue_text
from media.hls.webvtt import Cue
from media.languages import language_tag
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from transcode.engine.images.keyframe_sampler import beginning
from transcode.engine.input.container import Upload, opened, picture_of
from transcode.engine.input.demux import demuxed, ticks_of, times_of
from transcode.protocol.file_messages import Subtitles
from transcode.protocol.messages import Trouble

__all__ = ["MOST_CUES", "MOST_TEXT", "MOST_TRACKS", "subtitles"]

MOST_TRACKS: Final = 32  # films for the whole world have some 30
MOST_CUES: Final = 20_000  # in a track: one a second for over five hours
MOST_TEXT: Final = 2 * 1024 * 1024  # letters in a track: 100 kB are usual for a film
_MOST_TITLE: Final = 80
_UNTIMED: Final = 5_000  # ms that a cue without an end shows, if no other follows
_LONGEST: Final = 24 * 3600 * MILLISECONDS
# The decoders' own names. All others give pictures, or need a device to look like something.
_TEXTS: Final = frozenset({"mov_text", "srt", "subrip", "ssa", "ass", "webvtt", "text"})


class _Track:
    """What was found of one track."""

    def __init__(self, stream: SubtitleStream) -> None:
        self.stream = stream
        self.cues: list[Cue] = []
        self.cut = False
        self._letters = 0

    def take(self, packet: "Packet[Stream]", start: int) -> None:
        """Take a packet in; `start` is when the film begins, in ticks of 90 000 a second."""
        times, base = times_of(packet), packet.stream.time_base
        if times is None or not base or self.cut:
            return
        at = _milliseconds(times[1] - start)
        length = _milliseconds(ticks_of(packet.duration, base)) if packet.duration else 0
        for text in _texts(self.stream, packet):
            self._letters += len(text)
            if len(self.cues) >= MOST_CUES or self._letters > MOST_TEXT:
                self.cut = True
                return
            self.cues.append(Cue(at, at + length, text))

    def found(self) -> Subtitles:
        """Return the track, its cues in order and within the film."""
        metadata = self.stream.metadata
        title = (metadata.get("title") or metadata.get("name") or "").strip()
        return Subtitles(
            language=language_tag(metadata.get("language")),
            title=" ".join(title.split())[:_MOST_TITLE],
            forced=bool(self.stream.disposition & Disposition.forced),
            cues=tuple(_timed(self.cues)),
        )


def subtitles(descriptor: int) -> Iterator[Subtitles | Trouble]:
    """Yield the tracks that have something to be read, in the file's order.

    Raises:
        BadUpload: the file cannot be read.
    """
    with opened(descriptor) as upload:
        kinds = [(stream, _kind(stream)) for stream in upload.streams.subtitles]
        tracks = [_Track(stream) for stream, kind in kinds if kind in _TEXTS]
        cut = len(tracks) > MOST_TRACKS
        tracks = tracks[:MOST_TRACKS]
        _read(upload, tracks)
    for track in tracks:
        cut = cut or track.cut
        if track.cues and (found := track.found()).cues:
            yield found
    if any(kind not in _TEXTS for _, kind in kinds):
        names = {kind or "unknown" for _, kind in kinds if kind not in _TEXTS}
        yield Trouble(what="subtitles are pictures", detail=", ".join(sorted(names)))
    if cut:
        yield Trouble(what="subtitles cut", detail=f"at {MOST_CUES} cues or {MOST_TEXT} letters")


def _kind(stream: SubtitleStream) -> str:
    # None where the library has no decoder; its stub does not say so.
    context = getattr(stream, "codec_context", None)
    return "" if context is None else context.name


def _read(upload: Upload, tracks: list[_Track]) -> None:
    """Take all packets of the tracks in; what belongs to others is not read, where that can be."""
    picture = picture_of(upload)
    if not tracks or picture is None:
        return
    start = beginning(upload, picture)
    by_index = {track.stream.index: track for track in tracks}
    for stream in upload.streams:
        if stream.index not in by_index:
            stream.discard = Discard.all
    try:
        upload.seek(0)
    except FFmpegError:
        return
    streams: list[Stream] = [track.stream for track in tracks]
    for packet in demuxed(upload, streams):
        by_index[packet.stream.index].take(packet, start)
        if all(track.cut for track in tracks):
            return


def _texts(stream: SubtitleStream, packet: "Packet[Stream]") -> list[str]:
    try:
        found = stream.decode(packet)
    except (FFmpegError, UnicodeDecodeError):
        return []
    rects = [
        rect
        for each in found
        for rect in (each.rects if isinstance(each, SubtitleSet) else (each,))
        if isinstance(rect, AssSubtitle)
    ]
    texts = (cue_text(rect.ass.decode(errors="replace")) for rect in rects)
    return [text for text in texts if text]


def _timed(cues: list[Cue]) -> Iterator[Cue]:
    """Yield cues in order, each with an end, without what is over before the film begins."""
    cues.sort(key=lambda cue: (cue.start, cue.end))
    last = cues[-1] if cues else None
    for cue, following in [*pairwise(cues), *([(last, None)] if last is not None else [])]:
        end = cue.end
        if end <= cue.start:
            end = cue.start + _UNTIMED
            if following is not None and cue.start < following.start:
                end = min(end, following.start)
        start = max(0, cue.start)
        if end > start and start < _LONGEST:
            yield Cue(start, min(end, _LONGEST + 1), cue.text)


def _milliseconds(ticks: int) -> int:
    return rescale(ticks, VIDEO_SCALE, MILLISECONDS)
