"""The text subtitles of an uploaded file, as cues; bitmap subtitles are left out.

All text formats leave their decoders as events of ASS. They are untrusted: the numbers of tracks,
cues and letters are bounded, and no markup of theirs is kept.
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
from transcode.engine.core.reports import ReportWriter
from transcode.engine.images.keyframe_sampler import first_picture_time
from transcode.engine.input.container import Upload, open_upload, video_stream
from transcode.engine.input.demux import demux, packet_times, to_ticks
from transcode.protocol.file_messages import MOST_SUBTITLES, SubtitleTrack
from transcode.protocol.messages import Trouble

MOST_CUES: Final = 20_000  # in a track: one a second for over five hours
MOST_TEXT: Final = 2 * 1024 * 1024  # letters in a track: a feature has about 100 kB
# In all tracks of a file: those of thirty features. The parent holds them all at once, and refuses
# more (see `transcode.protocol.report_bounds`).
MOST_CUES_IN_ALL: Final = 100_000
MOST_TEXT_IN_ALL: Final = 4 * 1024 * 1024
_MOST_TITLE: Final = 80
_UNTIMED: Final = 5_000  # ms that a cue without an end shows, if no other follows
_LONGEST: Final = 24 * 3600 * MILLISECONDS
# The decoders' own names. All others give bitmaps, or need a special device.
_TEXTS: Final = frozenset({"mov_text", "srt", "subrip", "ssa", "ass", "webvtt", "text"})


class _Room:
    """How many more cues and letters the tracks of a file may have in all."""

    def __init__(self) -> None:
        self._cues = MOST_CUES_IN_ALL
        self._letters = MOST_TEXT_IN_ALL

    def take(self, letters: int) -> bool:
        """Take room for a cue; return False if there is none."""
        self._cues -= 1
        self._letters -= letters
        return self._cues >= 0 and self._letters >= 0


class _TrackReader:
    """Collects the cues of one track, while there is `room` in all tracks."""

    def __init__(self, stream: SubtitleStream, room: _Room) -> None:
        self.stream = stream
        self._room = room
        self.cues: list[Cue] = []
        self.cut = False
        self._letters = 0

    def add(self, packet: "Packet[Stream]", start: int) -> None:
        """Add a packet; `start` is the asset's beginning, in ticks of 90 000 a second."""
        times, base = packet_times(packet), packet.stream.time_base
        if times is None or not base or self.cut:
            return
        at = _milliseconds(times[1] - start)
        length = _milliseconds(to_ticks(packet.duration, base)) if packet.duration else 0
        for text in _texts(self.stream, packet):
            self._letters += len(text)
            full = len(self.cues) >= MOST_CUES or self._letters > MOST_TEXT
            if full or not self._room.take(len(text)):
                self.cut = True
                return
            self.cues.append(Cue(at, at + length, text))

    def finish(self) -> SubtitleTrack:
        """Return the track with its cues, in order and within the asset."""
        metadata = self.stream.metadata
        title = (metadata.get("title") or metadata.get("name") or "").strip()
        return SubtitleTrack(
            language=language_tag(metadata.get("language")),
            title=" ".join(title.split())[:_MOST_TITLE],
            forced=bool(self.stream.disposition & Disposition.forced),
            cues=tuple(_timed(self.cues)),
        )


def read_subtitles(descriptor: int, reports: ReportWriter) -> Iterator[SubtitleTrack | Trouble]:
    """Yield the tracks that have text, in the file's order.

    Raises:
        BadUpload: the file cannot be read.
    """
    with open_upload(descriptor, reports) as upload:
        kinds = [(stream, _kind(stream)) for stream in upload.streams.subtitles]
        room = _Room()
        tracks = [_TrackReader(stream, room) for stream, kind in kinds if kind in _TEXTS]
        cut = len(tracks) > MOST_SUBTITLES
        tracks = tracks[:MOST_SUBTITLES]
        _read(upload, tracks)
        # The streams may be used only while the file is open.
        finished = [track.finish() for track in tracks]
    yield from (track for track in finished if track.cues)
    if any(kind not in _TEXTS for _, kind in kinds):
        names = {kind or "unknown" for _, kind in kinds if kind not in _TEXTS}
        yield Trouble(what="subtitles are pictures", detail=", ".join(sorted(names)))
    if cut or any(track.cut for track in tracks):
        yield Trouble(what="subtitles cut", detail=f"at {MOST_CUES} cues or {MOST_TEXT} letters")


def _kind(stream: SubtitleStream) -> str:
    # None if the library has no decoder, though its stub does not say so.
    context = getattr(stream, "codec_context", None)
    return "" if context is None else context.name


def _read(upload: Upload, tracks: list[_TrackReader]) -> None:
    """Read all packets of the tracks, and as few of other tracks' as the container allows."""
    picture = video_stream(upload)
    if not tracks or picture is None:
        return
    start = first_picture_time(upload, picture)
    # Before others are discarded: FFmpeg seeks to the first packet of a stream that is wanted, and
    # Matroska's reader leaves out what the other tracks have before that.
    try:
        upload.seek(0)
    except FFmpegError:
        return
    by_index = {track.stream.index: track for track in tracks}
    for stream in upload.streams:
        if stream.index not in by_index:
            stream.discard = Discard.all
    streams: list[Stream] = [track.stream for track in tracks]
    for packet in demux(upload, streams):
        by_index[packet.stream.index].add(packet, start)
        if all(track.cut for track in tracks):
            return


def _texts(stream: SubtitleStream, packet: "Packet[Stream]") -> list[str]:
    try:
        decoded = stream.decode(packet)
    except (FFmpegError, UnicodeDecodeError):
        return []
    rects = [
        rect
        for each in decoded
        for rect in (each.rects if isinstance(each, SubtitleSet) else (each,))
        if isinstance(rect, AssSubtitle)
    ]
    texts = (cue_text(rect.ass.decode(errors="replace")) for rect in rects)
    return [text for text in texts if text]


def _timed(cues: list[Cue]) -> Iterator[Cue]:
    """Yield cues in order, each with an end, except those that end before the asset begins."""
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
