"""Requests for media and posters, as values that are parsed once from method and target.

Pure. Only these paths exist, so internal records of a run, temporary files and uploaded files can
never be requested. Each kind of request knows its object in the store, the lists that name it, and
how long caches may keep it. Where its bytes are taken from follows from its kind: parts exist at
the edge alone, playlists of live streams are there first, all else is in files
(`api.origin.representations`).

Of a video, these folders exist: the one in its record, others made from the same file (its
playlists refer to them), and those of older files until they are deleted. The same holds for
previews. Posters exist for the labels in the record only.
"""

import re
from typing import ClassVar, Final

import msgspec

from api.http.response import HttpRequest
from api.http.static_files import FOREVER
from api.origin.directives import Directives, parse_directives
from api.origin.viewer import Viewer
from media.ladder import AUDIO_RENDITION
from storage.catalog.records.common import PublicRecord

PATH_PREFIXES: Final = ("/live", "/videos")
PLAYLIST_TYPE: Final = "application/vnd.apple.mpegurl"
DEFAULT_POSTER_LABEL: Final = "default"  # the label of the poster that always exists

_SUBTITLES_TYPE: Final = "text/vtt"
_PICTURE_TYPE: Final = "image/jpeg"

_HASH: Final = r"(?P<hash>[0-9A-Za-z]{12})"
_RENDITION: Final = r"(?P<rendition>[0-9A-Za-z_]{1,20})"
# Of both patterns, the last group is the kind of the request.
_LIVE: Final = re.compile(
    rf"/live/{_HASH}/(?:"
    r"(?P<variants>index\.m3u8)|poster/(?P<poster>[0-9a-z]{1,12})\.jpg|"
    rf"(?P<folder>[0-9]{{8}}T[0-9]{{9}})/{_RENDITION}/(?:"
    r"(?P<playlist>index\.m3u8)|(?P<part>[0-9]{1,12}\.[0-9]{1,6}\.m4s)|"
    r"(?P<segment>[0-9]{1,12}\.m4s)|(?P<init>init-[0-9]{1,9}\.mp4)))"
)
_VIDEO: Final = re.compile(
    rf"/videos/{_HASH}/(?:"
    r"(?P<variants>index\.m3u8)|poster/(?P<poster>[0-9a-z]{1,12})\.jpg|"
    r"previews-(?P<made>[0-9]{1,9}-[0-9]{1,9})/"
    r"(?:(?P<previews>previews\.vtt)|(?P<preview>sheet-[0-9]{1,3}\.jpg))|"
    rf"(?P<folder>[0-9A-Za-z_-]{{1,64}})/{_RENDITION}/(?:"
    r"(?P<playlist>index\.m3u8)|(?P<segment>[0-9]{1,12}\.m4s)|"
    r"(?P<subtitles>[0-9]{1,12}\.vtt)|(?P<init>init-[0-9]{1,9}\.mp4)))"
)

_LIVE_TEXT: Final = "public, max-age=1"  # seconds: less than half of the shortest segment
# A part is published before its segment is certainly listed, and may be replaced.
_PART: Final = "public, max-age=10"
# A video may switch to another folder at any moment; the playlists in a folder do not change.
_VARIANTS: Final = "public, max-age=5"
_VIDEO_TEXT: Final = "public, max-age=300"
# The picture at a path may change.
_POSTER: Final = "public, max-age=60"
_LIVE_POSTER: Final = "public, max-age=30"  # the interval of new posters

# Playlists, each with the URI that it must have.
_Lists = list[tuple[str, str]]


class _Requested(msgspec.Struct, frozen=True):
    """What all requests have: the path, whose stream or video it is, and who asks in what form.

    Of `is_live`, the path is that of a stream, else of a video. Requests of the class are
    `is_early` if the object may exist before anything plays, and `may_be_elsewhere` if viewers may
    be redirected: not for texts, whose URIs are relative to their own URL.
    """

    path: str
    hash: str
    is_live: bool
    viewer: Viewer
    http: HttpRequest

    is_early: ClassVar[bool] = False
    may_be_elsewhere: ClassVar[bool] = False

    @property
    def is_at_edge_first(self) -> bool:
        """True if the object may be at the edge a moment before it is a file."""
        return False

    def is_of_kind(self, shown: PublicRecord) -> bool:
        """Return True if path and `shown` are of the same kind: both stream or both video."""
        return self.is_live is (shown.kind == "stream")

    def lists(self, shown: PublicRecord) -> _Lists:
        """Return the lists that lead to the object, each with the URI that it must have for that.

        A list that nothing names leads to itself, with any URI. Empty if there is none: the object
        may exist all the same, of an older run or file.
        """
        del shown
        return []


class VariantsRequest(_Requested, frozen=True):
    """The multivariant playlist; `directives` are those of the target's query if it is live."""

    directives: Directives

    @property
    def form(self) -> tuple[str, str]:
        """The media type and the `Cache-Control`."""
        return PLAYLIST_TYPE, _LIVE_TEXT if self.is_live else _VARIANTS

    def address(self, shown: PublicRecord) -> str | None:
        """Return the address of the object in the store; None if `shown` has no such object."""
        if not self.is_of_kind(shown):
            return None
        if self.is_live:
            return self.path[1:]
        return None if shown.media is None else f"videos/{shown.hash}/{shown.media}/index.m3u8"

    def lists(self, shown: PublicRecord) -> _Lists:
        """Return the playlist itself."""
        address = self.address(shown)
        return [] if address is None else [(address, "")]


class PosterRequest(_Requested, frozen=True):
    """The poster with a label."""

    label: str

    is_early: ClassVar[bool] = True
    may_be_elsewhere: ClassVar[bool] = True

    @property
    def form(self) -> tuple[str, str]:
        """The media type and the `Cache-Control`."""
        return _PICTURE_TYPE, _LIVE_POSTER if self.is_live else _POSTER

    def address(self, shown: PublicRecord) -> str | None:
        """Return the address of the object in the store; None if `shown` has no such object."""
        folder = "poster" if self.is_live else shown.posters
        if folder is None or not shown.poster_labels or not self.is_of_kind(shown):
            return None
        label = self.label
        if label == DEFAULT_POSTER_LABEL:
            label = shown.poster_labels[-1]
        if label not in shown.poster_labels:
            return None
        room = "live" if self.is_live else "videos"
        return f"{room}/{shown.hash}/{folder}/{label}.jpg"


class _InFolder(_Requested, frozen=True):
    """What is in the folder of a run, or in one that was made of a video's file."""

    folder: str

    def address(self, shown: PublicRecord) -> str | None:
        """Return the address of the object in the store; None if `shown` has no such object."""
        if not self.is_of_kind(shown):
            return None
        is_there = self.is_live or _is_of(self.folder, shown.media)
        return self.path[1:] if is_there else None


class PreviewListRequest(_InFolder, frozen=True):
    """The list of a video's previews; `folder` is what their folder was made from."""

    form: ClassVar[tuple[str, str]] = (_SUBTITLES_TYPE, FOREVER)

    def lists(self, shown: PublicRecord) -> _Lists:
        """Return the list itself, if the record names its folder."""
        return _preview_lists(shown, self.folder, "")


class PreviewRequest(_InFolder, frozen=True):
    """A sheet of a video's previews."""

    name: str

    form: ClassVar[tuple[str, str]] = (_PICTURE_TYPE, FOREVER)
    may_be_elsewhere: ClassVar[bool] = True

    def lists(self, shown: PublicRecord) -> _Lists:
        """Return the list of the previews, if the record names its folder."""
        return _preview_lists(shown, self.folder, self.name)


class _OfRendition(_InFolder, frozen=True):
    """What belongs to one rendition."""

    rendition: str

    @property
    def playlist(self) -> str:
        """The address of the media playlist beside it."""
        return f"{self.path[1:].rpartition('/')[0]}/index.m3u8"

    def _current(self, shown: PublicRecord) -> str | None:
        """Return the folder that the multivariant playlist names, if there is one."""
        return self.folder if self.is_live else shown.media

    def _variants(self, shown: PublicRecord) -> tuple[str, str]:
        """Return the multivariant playlist, and the URI of the rendition's playlist in it."""
        playlist = f"{self.rendition}/index.m3u8"
        if self.is_live:
            return f"live/{shown.hash}/index.m3u8", f"{self.folder}/{playlist}"
        return f"videos/{shown.hash}/{shown.media}/index.m3u8", playlist


class PlaylistRequest(_OfRendition, frozen=True):
    """A media playlist; `directives` are those of the target's query if it is live."""

    directives: Directives

    @property
    def form(self) -> tuple[str, str]:
        """The media type and the `Cache-Control`."""
        return PLAYLIST_TYPE, _LIVE_TEXT if self.is_live else _VIDEO_TEXT

    @property
    def awaited(self) -> tuple[int, int | None] | None:
        """The segment and part that the playlist must list; None if it is wanted as it is."""
        msn = self.directives.msn
        return None if msn is None else (msn, self.directives.part)

    def lists(self, shown: PublicRecord) -> _Lists:
        """Return the multivariant playlist, unless the playlist is of another folder."""
        return [self._variants(shown)] if self.folder == self._current(shown) else []


class PartRequest(_OfRendition, frozen=True):
    """A part of a live segment; `name` is the last part of the path. Parts are not stored."""

    name: str

    @property
    def form(self) -> tuple[str, str]:
        """The media type and the `Cache-Control`."""
        return _media_type(self.rendition), _PART

    @property
    def awaited(self) -> tuple[int, int | None]:
        """Its Media Sequence Number and its index in the segment."""
        sequence, index, _ = self.name.split(".")
        return int(sequence), int(index)


class SegmentRequest(_OfRendition, frozen=True):
    """A segment of sound or pictures; `name` is the last part of the path."""

    name: str

    may_be_elsewhere: ClassVar[bool] = True

    @property
    def form(self) -> tuple[str, str]:
        """The media type and the `Cache-Control`."""
        return _media_type(self.rendition), FOREVER

    @property
    def is_at_edge_first(self) -> bool:
        """True if it is live: it is stored a moment after it is listed."""
        return self.is_live

    def lists(self, shown: PublicRecord) -> _Lists:
        """Return the multivariant playlist and the rendition's."""
        current = self._current(shown)
        if current is None:
            return []
        room = "live" if self.is_live else "videos"
        # The playlists of a video may name media in other folders.
        other = "" if self.folder == current else f"{self.folder}/{self.rendition}/"
        playlist = f"{room}/{shown.hash}/{current}/{self.rendition}/index.m3u8"
        return [self._variants(shown), (playlist, f"{other}{self.name}")]


class InitRequest(SegmentRequest, frozen=True):
    """The initialization section of segments; its look-ups are theirs."""


class SubtitlesRequest(SegmentRequest, frozen=True):
    """A segment of subtitles."""

    @property
    def form(self) -> tuple[str, str]:
        """The media type and the `Cache-Control`."""
        return _SUBTITLES_TYPE, FOREVER


FileRequest = (
    SegmentRequest
    | InitRequest
    | SubtitlesRequest
    | PosterRequest
    | PreviewListRequest
    | PreviewRequest
)
MediaRequest = VariantsRequest | PlaylistRequest | PartRequest | FileRequest

_SEGMENTS: Final = {
    "segment": SegmentRequest,
    "init": InitRequest,
    "subtitles": SubtitlesRequest,
    "part": PartRequest,
}
_WITH_DIRECTIVES: Final = ("playlist", "variants")
_AS_IT_IS: Final = Directives()


def parse_media_request(method: str, path: str, query: str, viewer: Viewer) -> MediaRequest | None:
    """Return the request for an object; None if no object can have this path.

    The query counts for playlists of live streams alone.

    Raises:
        BadDirective: the query asks for something impossible.
    """
    is_live = path.startswith("/live/")
    match = (_LIVE if is_live else _VIDEO).fullmatch(path)
    kind = None if match is None else match.lastgroup
    if match is None or kind is None:
        return None
    hash_, http = match["hash"], HttpRequest.of(method, viewer.headers)
    directives = parse_directives(query) if is_live and kind in _WITH_DIRECTIVES else _AS_IT_IS
    if kind == "playlist":  # written out: most requests are for these
        return PlaylistRequest(
            path, hash_, is_live, viewer, http, match["folder"], match["rendition"], directives
        )
    asked = path, hash_, is_live, viewer, http
    if kind == "variants":
        return VariantsRequest(*asked, directives)
    if kind == "poster":
        return PosterRequest(*asked, match[kind])
    if kind == "previews":
        return PreviewListRequest(*asked, match["made"])
    if kind == "preview":
        return PreviewRequest(*asked, match["made"], match[kind])
    return _SEGMENTS[kind](*asked, match["folder"], match["rendition"], match[kind])


def _preview_lists(shown: PublicRecord, made: str, uri: str) -> _Lists:
    folder = shown.previews
    if folder is None or folder != f"previews-{made}":
        return []
    return [(f"videos/{shown.hash}/{folder}/previews.vtt", uri)]


def _media_type(rendition: str) -> str:
    return "audio/mp4" if rendition == AUDIO_RENDITION else "video/mp4"


def _is_of(folder: str, media: str | None) -> bool:
    """Return True if a folder was made from the current file of a video or from an older one.

    Older files stay for a while for viewers that have already started to play them.
    """
    if media is None or folder == media:
        return folder == media
    generation, made, _ = media.partition("-")
    older, of, _ = folder.partition("-")
    if not made or not of or not generation.isdecimal() or not older.isdecimal():
        return False
    return int(older) <= int(generation)
