"""The addresses of media and posters: which there are, and where their objects stand.

Pure. Only addresses of these forms exist, so a run's notes, a store's temporaries or an uploaded
file can never be asked for. Of a video only the folder that its record names exists, those of what
else was made of the same file, which its playlists lead to, and those of older files, while they
last; previews likewise; and posters, of the labels alone that the record names.
"""

import re
from functools import cache
from typing import Final

from media.ladder import AUDIO_RENDITION
from storage.catalog.records.common import Shown

__all__ = [
    "DEFAULT_POSTER_LABEL",
    "PATH_PREFIXES",
    "PLAYLIST_TYPE",
    "content_type_and_caching",
    "is_available_early",
    "is_of_kind",
    "match_path",
    "object_address",
]

PATH_PREFIXES: Final = ("/live", "/videos")
PLAYLIST_TYPE: Final = "application/vnd.apple.mpegurl"
DEFAULT_POSTER_LABEL: Final = "default"  # the poster that there always is

_HASH: Final = r"(?P<hash>[0-9A-Za-z]{12})"
_RENDITION: Final = r"(?P<rendition>[0-9A-Za-z_]{1,20})"
_LIVE: Final = re.compile(
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

_FOREVER: Final = "public, max-age=31536000, immutable"
_LIVE_TEXT: Final = "public, max-age=1"  # below half of the shortest segment
# A part goes to the edge before its segment is sure to be listed, and could be made anew.
_PART: Final = "public, max-age=10"
# Another folder may be the video's from one moment to the next; a folder's playlists stay.
_VARIANTS: Final = "public, max-age=5"
_VIDEO_TEXT: Final = "public, max-age=300"
# Another picture comes to the same address.
_POSTER: Final = "public, max-age=60"
_LIVE_POSTER: Final = "public, max-age=30"  # as often as there is another


def match_path(path: str) -> re.Match[str] | None:
    """Return an address' parts, by name; None where nothing can be.

    Its `lastgroup` says what it is of: variants, playlist, media, part, poster or preview.
    """
    return (_LIVE if path.startswith("/live/") else _VIDEO).fullmatch(path)


def object_address(match: re.Match[str], shown: Shown) -> str | None:
    """Return the object's address in the store, None where what is `shown` has no such thing."""
    if not is_of_kind(match, shown):
        return None
    if match["poster"]:
        return _poster(match["poster"], shown)
    if match.re is _LIVE:
        return match[0][1:]
    if match["variants"]:
        return None if shown.media is None else f"videos/{shown.hash}/{shown.media}/index.m3u8"
    folder = match["made"] if match["preview"] else match["folder"]
    return match[0][1:] if _is_of(folder, shown.media) else None


def is_of_kind(match: re.Match[str], shown: Shown) -> bool:
    """Say whether the address is one of what is `shown`: a stream's or a video's."""
    return (match.re is _LIVE) is (shown.kind == "stream")


def _is_of(folder: str, media: str | None) -> bool:
    """Say whether a folder belongs to what plays: made of the same file, in whatever attempt.

    So does what was made of an older file, for who began to watch that: it stays for a while.
    """
    if media is None or folder == media:
        return folder == media
    generation, made, _ = media.partition("-")
    older, of, _ = folder.partition("-")
    if not made or not of or not generation.isdecimal() or not older.isdecimal():
        return False
    return int(older) <= int(generation)


def _poster(label: str, shown: Shown) -> str | None:
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
    """Say whether the address is there before anything plays."""
    return match.lastgroup == "poster"


def content_type_and_caching(match: re.Match[str]) -> tuple[str, str]:
    """Return the media type of what stands at an address, and how long caches may keep it."""
    if match[0].endswith(".vtt"):
        return "text/vtt", _FOREVER
    if match["preview"]:
        return "image/jpeg", _FOREVER
    return _form(match.re is _LIVE, match.lastgroup, match["rendition"] == AUDIO_RENDITION)


@cache
def _form(live: bool, what: str | None, sound: bool) -> tuple[str, str]:
    media = "audio/mp4" if sound else "video/mp4"
    match what:
        case "media":
            return media, _FOREVER
        case "part":
            return media, _PART
        case "poster":
            return "image/jpeg", _LIVE_POSTER if live else _POSTER
        case "variants" if not live:
            return PLAYLIST_TYPE, _VARIANTS
        case _:
            return PLAYLIST_TYPE, _LIVE_TEXT if live else _VIDEO_TEXT
