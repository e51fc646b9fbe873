"""The paths of media and posters, and the stored objects behind them.

Pure. Only these paths exist, so internal records of a run, temporary files and uploaded files can
never be requested. Of a video, these folders exist: the one in its record, others made from the
same file (its playlists refer to them), and those of older files until they are deleted. The same
holds for previews. Posters exist for the labels in the record only.
"""

import re
from functools import cache
from typing import Final

from api.http.static_files import FOREVER
from media.ladder import AUDIO_RENDITION
from storage.catalog.records.common import PublicRecord

__all__ = [
    "DEFAULT_POSTER_LABEL",
    "LIVE",
    "PATH_PREFIXES",
    "PLAYLIST_TYPE",
    "content_type_and_caching",
    "is_available_early",
    "is_of_kind",
    "match_path",
    "naming_lists",
    "object_address",
]

PATH_PREFIXES: Final = ("/live", "/videos")
PLAYLIST_TYPE: Final = "application/vnd.apple.mpegurl"
DEFAULT_POSTER_LABEL: Final = "default"  # the label of the poster that always exists

_HASH: Final = r"(?P<hash>[0-9A-Za-z]{12})"
_RENDITION: Final = r"(?P<rendition>[0-9A-Za-z_]{1,20})"
LIVE: Final = re.compile(
    rf"/live/{_HASH}/(?:"
    r"(?P<variants>index\.m3u8)|poster/(?P<poster>[0-9a-z]{1,12})\.jpg|"
    rf"(?P<folder>[0-9]{{8}}T[0-9]{{9}})/{_RENDITION}/(?:"
    r"(?P<playlist>index\.m3u8)|(?P<part>[0-9]{1,12}\.[0-9]{1,6}\.m4s)|"
    r"(?P<preview>(?!))|(?P<media>[0-9]{1,12}\.m4s|init-[0-9]{1,9}\.mp4)))"
)
_VIDEO: Final = re.compile(
    rf"/videos/{_HASH}/(?:"
    r"(?P<variants>index\.m3u8)|poster/(?P<poster>[0-9a-z]{1,12})\.jpg|"
    r"previews-(?P<made>[0-9]{1,9}-[0-9]{1,9})/(?P<preview>previews\.vtt|sheet-[0-9]{1,3}\.jpg)|"
    rf"(?P<folder>[0-9A-Za-z_-]{{1,64}})/{_RENDITION}/(?:"
    r"(?P<playlist>index\.m3u8)|(?P<part>(?!))|"
    r"(?P<media>[0-9]{1,12}\.(?:m4s|vtt)|init-[0-9]{1,9}\.mp4)))"
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


def match_path(path: str) -> re.Match[str] | None:
    """Match a path of media; None if no object can have it.

    `lastgroup` is its kind: variants, playlist, media, part, poster or preview.
    """
    return (LIVE if path.startswith("/live/") else _VIDEO).fullmatch(path)


def object_address(match: re.Match[str], shown: PublicRecord) -> str | None:
    """Return the address of the object in the store; None if `shown` has no such object."""
    if not is_of_kind(match, shown):
        return None
    if match["poster"]:
        return _poster(match["poster"], shown)
    if match.re is LIVE:
        return match[0][1:]
    if match["variants"]:
        return None if shown.media is None else f"videos/{shown.hash}/{shown.media}/index.m3u8"
    folder = match["made"] if match["preview"] else match["folder"]
    return match[0][1:] if _is_of(folder, shown.media) else None


def naming_lists(match: re.Match[str], shown: PublicRecord) -> list[tuple[str, str]]:
    """Return the lists that lead to an object, each with the URI that it must have for that.

    A list that nothing names leads to itself, with any URI. Empty if there is none: the object may
    exist all the same, of an older run or file.
    """
    if match.re is LIVE:
        folder, parent = match["folder"], f"live/{shown.hash}"
        within = f"{folder}/"
    else:
        folder, parent, within = shown.media, f"videos/{shown.hash}/{shown.media}", ""
    if match["preview"]:
        previews = shown.previews
        if previews is None or previews != f"previews-{match['made']}":
            return []
        uri = "" if match["preview"] == "previews.vtt" else match["preview"]
        return [(f"videos/{shown.hash}/{previews}/previews.vtt", uri)]
    if match["variants"]:
        return [(f"{parent}/index.m3u8", "")]
    if folder is None or not (match["playlist"] or match["media"]):
        return []
    playlist = f"{within}{match['rendition']}/index.m3u8"
    variants = (f"{parent}/index.m3u8", playlist)
    if match["playlist"]:
        return [variants] if match["folder"] == folder else []
    # The playlists of a video may name media in other folders.
    other = "" if match["folder"] == folder else f"{match['folder']}/{match['rendition']}/"
    return [variants, (f"{parent}/{playlist}", f"{other}{match['media']}")]


def is_of_kind(match: re.Match[str], shown: PublicRecord) -> bool:
    """Return True if path and `shown` are of the same kind: both stream or both video."""
    return (match.re is LIVE) is (shown.kind == "stream")


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


def _poster(label: str, shown: PublicRecord) -> str | None:
    folder = "poster" if shown.kind == "stream" else shown.posters
    if folder is None or not shown.poster_labels:
        return None
    if label == DEFAULT_POSTER_LABEL:
        label = shown.poster_labels[-1]
    if label not in shown.poster_labels:
        return None
    room = "live" if shown.kind == "stream" else "videos"
    return f"{room}/{shown.hash}/{folder}/{label}.jpg"


def is_available_early(match: re.Match[str]) -> bool:
    """Return True if the object may exist before anything plays."""
    return match.lastgroup == "poster"


def content_type_and_caching(match: re.Match[str]) -> tuple[str, str]:
    """Return the media type and the `Cache-Control` of the object at a path."""
    if match[0].endswith(".vtt"):
        return "text/vtt", FOREVER
    if match["preview"]:
        return "image/jpeg", FOREVER
    return _form(match.re is LIVE, match.lastgroup, match["rendition"] == AUDIO_RENDITION)


@cache
def _form(live: bool, kind: str | None, sound: bool) -> tuple[str, str]:
    media = "audio/mp4" if sound else "video/mp4"
    match kind:
        case "media":
            return media, FOREVER
        case "part":
            return media, _PART
        case "poster":
            return "image/jpeg", _LIVE_POSTER if live else _POSTER
        case "variants" if not live:
            return PLAYLIST_TYPE, _VARIANTS
        case _:
            return PLAYLIST_TYPE, _LIVE_TEXT if live else _VIDEO_TEXT
