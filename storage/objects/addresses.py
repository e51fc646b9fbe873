"""Where things stand in an object store: the one place that builds and checks addresses.

An address is a relative path of plain ASCII parts between slashes. A part never begins with a dot,
so neither `..` nor a store's own temporaries can be named; there is no empty part, so no absolute
path either.
"""

import re
from typing import Final

from storage.errors import StorageError

__all__ = [
    "BadAddress",
    "checked",
    "live_init",
    "live_part",
    "live_playlist",
    "live_run",
    "live_segment",
    "live_state",
    "live_stream",
    "live_variants",
    "video",
    "video_poster",
    "video_posters",
    "video_source",
    "video_sources",
]

# 8 parts of 80 characters, and 400 in all, leave room for a root below PATH_MAX (4096) and keep
# every part below NAME_MAX (255) of the usual file systems.
_PART: Final = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,79}"
_ADDRESS: Final = re.compile(rf"{_PART}(?:/{_PART}){{0,7}}")
_LONGEST: Final = 400


class BadAddress(StorageError):
    """A text is no address: our mistake, or a stranger's try."""

    def __init__(self, address: str) -> None:
        super().__init__(f"no address: {address[:80]!r}")


def checked(address: str) -> str:
    """Return the address.

    Raises:
        BadAddress: it is none.
    """
    if len(address) > _LONGEST or not _ADDRESS.fullmatch(address):
        raise BadAddress(address)
    return address


def live_stream(hash_: str) -> str:
    """Return the folder of a live stream."""
    return f"live/{hash_}"


def live_variants(hash_: str) -> str:
    """Return the multivariant playlist of a live stream: the stable address."""
    return f"live/{hash_}/index.m3u8"


def live_run(hash_: str, run: str) -> str:
    """Return the folder of a run."""
    return f"live/{hash_}/{run}"


def live_state(hash_: str, run: str) -> str:
    """Return a run's own notes, which are never served."""
    return f"live/{hash_}/{run}/state.json"


def live_playlist(hash_: str, run: str, rendition: str) -> str:
    """Return the media playlist of a rendition."""
    return f"live/{hash_}/{run}/{rendition}/index.m3u8"


def live_init(hash_: str, run: str, rendition: str, number: int) -> str:
    """Return an init section."""
    return f"live/{hash_}/{run}/{rendition}/init-{number}.mp4"


def live_segment(hash_: str, run: str, rendition: str, sequence: int) -> str:
    """Return a segment."""
    return f"live/{hash_}/{run}/{rendition}/{sequence}.m4s"


def live_part(hash_: str, run: str, rendition: str, sequence: int, index: int) -> str:
    """Return a part of a segment, which only the edge holds."""
    return f"live/{hash_}/{run}/{rendition}/{sequence}.{index}.m4s"


def video_sources(hash_: str) -> str:
    """Return the folder of the files that a video was uploaded as, which are never served."""
    return f"sources/{hash_}"


def video_source(hash_: str, generation: int) -> str:
    """Return the file that a video was uploaded as, the first or a later one."""
    return f"sources/{hash_}/{generation}"


def video(hash_: str) -> str:
    """Return the folder of all that is made of a video."""
    return f"videos/{hash_}"


def video_posters(hash_: str, folder: str) -> str:
    """Return a folder of a video's posters."""
    return f"videos/{hash_}/{folder}"


def video_poster(hash_: str, folder: str, label: str) -> str:
    """Return a video's poster in the resolution of that label."""
    return f"videos/{hash_}/{folder}/{label}.jpg"
