"""The layout of the object store: the one place that builds and checks addresses.

An address is a relative path of ASCII parts separated by slashes. A part never begins with a dot,
so neither `..` nor a store's temporary files can be addressed. No part is empty, so an address is
never an absolute path. "Return a segment" is short for "return the address of a segment".
"""

import re
from typing import Final

from storage.errors import StorageError

# At most 8 parts of 80 characters and 400 in total: with any usual root this stays below PATH_MAX
# (4096), and every part below NAME_MAX (255) of the common file systems.
_PART: Final = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,79}"
_ADDRESS: Final = re.compile(rf"{_PART}(?:/{_PART}){{0,7}}")
_LONGEST: Final = 400
# The key of the installation that the store belongs to (`storage.installation_key`).
INSTALLATION: Final = "installation"
# The same key in a store that media are being copied to; removed when all of them are there.
COPYING: Final = "installation.copying"
# The name of the backup that is being restored to a store; removed when all of it is there.
RESTORING: Final = "installation.restoring"
# The lease of the store: whose processes may write to it now (`storage.store_lease`).
LEASE: Final = "installation.lease"
# The folder of the copies that a CDN may read (`storage.objects.cdn_copies`): the only one.
CDN: Final = "cdn"
# The folder of what cleanups took away (`storage.objects.trash`).
TRASH: Final = "trash"
# The top folders of every store that is written to, besides those that only some have.
MEDIA_FOLDERS: Final = ("slates", "sources", "videos", "live", TRASH)
# The folder of unfinished uploads.
UPLOADS: Final = "uploads"
# The same where several hosts receive them (`storage.objects.upload_pieces`).
PIECES: Final = "pieces"


class BadAddress(StorageError):
    """A text is not an address: a bug, or a hostile request."""

    def __init__(self, address: str) -> None:
        super().__init__(f"no address: {address[:80]!r}")


def checked(address: str) -> str:
    """Return a text unchanged if it is a valid address.

    Raises:
        BadAddress: the text is no address.
    """
    if not is_address(address):
        raise BadAddress(address)
    return address


def is_address(text: str) -> bool:
    """Return whether a text is a valid address."""
    return len(text) <= _LONGEST and _ADDRESS.fullmatch(text) is not None


def printable(address: str) -> str:
    """Return an address as messages may show it: without the secret name of a folder of copies."""
    parts = address.split("/")
    if parts[0] == CDN and len(parts) > 2:
        parts[2] = "..."
    return "/".join(parts)


def is_arriving(address: str) -> bool:
    """Return whether an address is that of a file which is being received."""
    first, _, rest = address.partition("/")
    return first == UPLOADS or (first == "sources" and rest.partition("/")[2].startswith("import"))


def cdn_folders(hash_: str) -> str:
    """Return the folder of all folders of a stream's or video's copies for a CDN."""
    return f"{CDN}/{hash_}"


def cdn_folder(hash_: str, token: str) -> str:
    """Return a folder of a stream's or video's copies for a CDN; `token` is random and secret."""
    return f"{CDN}/{hash_}/{token}"


def cdn_copy(address: str, token: str) -> str | None:
    """Return where a CDN finds the copy of an object; None unless it is of a stream or video."""
    top, _, rest = address.partition("/")
    hash_, _, name = rest.partition("/")
    return f"{CDN}/{hash_}/{token}/{name}" if top in {"live", "videos"} and name else None


def live_stream(hash_: str) -> str:
    """Return the folder of a live stream."""
    return f"live/{hash_}"


def live_stream_of(address: str) -> str | None:
    """Return the hash of the live stream that an address belongs to; None if there is none."""
    top, _, rest = address.partition("/")
    return rest.partition("/")[0] if top == "live" else None


def live_variants(hash_: str) -> str:
    """Return the multivariant playlist of a live stream, whose address never changes."""
    return f"live/{hash_}/index.m3u8"


def live_run(hash_: str, run: str) -> str:
    """Return the folder of a run."""
    return f"live/{hash_}/{run}"


def live_state(hash_: str, run: str) -> str:
    """Return the saved state of a run, which is never served."""
    return f"live/{hash_}/{run}/state.json"


def live_page(hash_: str, run: str, number: int) -> str:
    """Return a page of a run's log, which is never served."""
    return f"live/{hash_}/{run}/log/{number}.json"


def live_playlist(hash_: str, run: str, rendition: str) -> str:
    """Return the media playlist of a rendition."""
    return f"live/{hash_}/{run}/{rendition}/index.m3u8"


def live_init(hash_: str, run: str, rendition: str, number: int) -> str:
    """Return an init section."""
    return media_init(live_run(hash_, run), rendition, number)


def live_segment(hash_: str, run: str, rendition: str, sequence: int) -> str:
    """Return a segment."""
    return media_segment(live_run(hash_, run), rendition, sequence)


def live_part(hash_: str, run: str, rendition: str, name: str) -> str:
    """Return a part of a segment, by the name that playlists list; it exists only at the edge."""
    return f"live/{hash_}/{run}/{rendition}/{name}"


def live_part_name(sequence: int, number: int) -> str:
    """Return the name of the part that follows so many parts of a segment."""
    return f"{sequence}.{number}.m4s"


def is_live_segment(address: str) -> bool:
    """Return whether an address in a run's folder is that of a segment, not of a part of one."""
    name, _, ending = address.rpartition("/")[2].partition(".")
    return name.isdecimal() and ending == "m4s"


def is_live_part(address: str) -> bool:
    """Return whether an address in a run's folder is that of a part: two numbers, 17.2.m4s."""
    *numbers, ending = address.rpartition("/")[2].split(".")
    return len(numbers) == 2 and all(map(str.isdecimal, numbers)) and ending == "m4s"


def media_init(folder: str, rendition: str, number: int) -> str:
    """Return an init section below the folder of a run or of a video's media."""
    return f"{folder}/{rendition}/init-{number}.mp4"


def media_segment(folder: str, rendition: str, sequence: int) -> str:
    """Return a segment below the folder of a run or of a video's media."""
    return f"{folder}/{rendition}/{sequence}.m4s"


def slate_folder(owner: str) -> str:
    """Return the folder of an owner's slate pictures, shown while no encoder is on air.

    `owner` is `s-` and a stream's hash, or `p-` and a project's key.
    """
    return f"slates/{owner}"


def slate_picture(owner: str, name: str) -> str:
    """Return a slate picture; a new picture gets a new name."""
    return f"slates/{owner}/{name}.jpg"


def live_posters(hash_: str) -> str:
    """Return the folder of a live stream's posters."""
    return f"live/{hash_}/poster"


def live_poster(hash_: str, label: str) -> str:
    """Return a live stream's poster in the resolution of that label."""
    return f"live/{hash_}/poster/{label}.jpg"


def trash(time: str) -> str:
    """Return the folder of what the cleanup of that time took away, which is never served."""
    return f"{TRASH}/{time}"


def trashed(time: str, address: str) -> str:
    """Return where an address, of at most 6 parts, is in the trash of that time."""
    return f"{TRASH}/{time}/{address}"


def upload(name: str) -> str:
    """Return the file of an unfinished upload, which is never served."""
    return f"{UPLOADS}/{name}"


def upload_pieces(name: str) -> str:
    """Return the folder of the pieces of an unfinished upload, which are never served."""
    return f"{PIECES}/{name}"


def upload_piece(name: str, start: int, token: str) -> str:
    """Return a piece of an upload, from the byte `start` on; `token` is new and random."""
    return f"{PIECES}/{name}/{start}-{token}"


def video_sources(hash_: str) -> str:
    """Return the folder of a video's uploaded files, which are never served."""
    return f"sources/{hash_}"


def video_source(hash_: str, generation: int) -> str:
    """Return an uploaded file of a video; `generation` is 1 for the first."""
    return f"sources/{hash_}/{generation}"


def partial_import(hash_: str, attempt: int | None = None) -> str:
    """Return the file of a video's import that is under way, which is never served.

    Each attempt continues it, or if it is locked, writes a file of its own, by its number.
    """
    return f"sources/{hash_}/import" if attempt is None else f"sources/{hash_}/import-{attempt}"


def imported_source(hash_: str, attempt: int) -> str:
    """Return a video's imported first file; each attempt has an address of its own."""
    return f"sources/{hash_}/1-{attempt}"


def replaced_source(hash_: str, name: str) -> str:
    """Return a replacement file of a video.

    `name` is new and random, since several replacements may be uploaded at once.
    """
    return f"sources/{hash_}/r-{name}"


def video(hash_: str) -> str:
    """Return the folder of everything that is made from a video's file."""
    return f"videos/{hash_}"


def video_poster(hash_: str, folder: str, label: str) -> str:
    """Return a video's poster in the resolution of that label."""
    return f"videos/{hash_}/{folder}/{label}.jpg"


def video_preview_list(hash_: str, folder: str) -> str:
    """Return the WebVTT list of a video's preview pictures."""
    return f"videos/{hash_}/{folder}/previews.vtt"


def video_preview_sheet(hash_: str, folder: str, number: int) -> str:
    """Return a sprite sheet of a video's preview pictures."""
    return f"videos/{hash_}/{folder}/sheet-{number}.jpg"


def video_folder(hash_: str, folder: str) -> str:
    """Return a folder of a video's media, posters, previews or subtitles."""
    return f"videos/{hash_}/{folder}"


def video_variants(hash_: str, folder: str) -> str:
    """Return the multivariant playlist of a video."""
    return f"videos/{hash_}/{folder}/index.m3u8"


def video_playlist(hash_: str, folder: str, rendition: str) -> str:
    """Return the media playlist of a video's rendition."""
    return f"videos/{hash_}/{folder}/{rendition}/index.m3u8"


def video_init(hash_: str, folder: str, rendition: str, number: int) -> str:
    """Return an init section of a video."""
    return media_init(video_folder(hash_, folder), rendition, number)


def video_segment(hash_: str, folder: str, rendition: str, sequence: int) -> str:
    """Return a segment of a video."""
    return media_segment(video_folder(hash_, folder), rendition, sequence)


def video_subtitles(hash_: str, folder: str, rendition: str, number: int = 0) -> str:
    """Return a segment of a subtitle rendition of a video, from 1 on; 0 is the whole in one."""
    return f"videos/{hash_}/{folder}/{rendition}/{number}.vtt"


def video_replaced_mark(hash_: str, folder: str) -> str:
    """Return the object whose age says when the folder's source file was replaced."""
    return f"videos/{hash_}/{folder}/replaced"


def video_pages(hash_: str, folder: str) -> str:
    """Return the folder of a recording's pages, which are never served."""
    return f"videos/{hash_}/{folder}/record"


def video_page(hash_: str, folder: str, number: int) -> str:
    """Return a page of a recording."""
    return f"videos/{hash_}/{folder}/record/{number}.json"
