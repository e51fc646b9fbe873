"""The values that the catalog returns for resumable uploads and upload links: frozen.

Times are microseconds since the Unix epoch (`_us`), sizes bytes.
"""

from typing import Literal

import msgspec

from media.stream_keys import PublicHash


class UploadDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What a client specifies of a video before its file has arrived.

    `title` None is the file's name. `countries` are numeric codes (ISO 3166-1); a tag is a number,
    or a name that is linked or added.
    """

    title: str | None = None
    description: str = ""
    category: int | None = None
    countries: tuple[int, ...] = ()
    tags: tuple[int | str, ...] = ()


class NewUpload(msgspec.Struct, frozen=True, kw_only=True):
    """An upload as it begins; `length` is None where the client does not know it yet.

    `name` is its address and `metadata` what its client sent, unchanged; `hash`, `file_title` and
    `slug` are its video's. `link` is the number of the upload link that it comes through.
    `replaces` is the number of the video whose file it replaces: then no video is added, and the
    fields for a new one are ignored.
    """

    name: str
    length: int | None
    most_bytes: int
    metadata: str
    hash: PublicHash
    file_title: str
    slug: str
    wanted: UploadDetails
    expires_us: int
    link: int | None = None
    replaces: int | None = None


class UploadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An upload; `received` is how much of it is safe, `hash` its video's.

    It is done once its video has its file. `replaces` means that the video had another before.
    """

    project: int
    link: int | None
    name: str
    length: int | None
    most_bytes: int
    received: int
    metadata: str
    state: Literal["open", "done"]
    video: int
    hash: PublicHash
    expires_us: int
    replaces: bool = False

    @property
    def done(self) -> bool:
        """Whether its video has its file."""
        return self.state == "done"

    @property
    def whole(self) -> bool:
        """Whether all of it has arrived."""
        return self.received == self.length


class ListedLink(msgspec.Struct, frozen=True, kw_only=True):
    """An upload link as it is listed; `video` is the one whose file it replaces."""

    id: int
    wanted: UploadDetails
    most_bytes: int
    created_us: int
    expires_us: int
    used_us: int | None
    video: int | None = None


class LinkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An upload link; the secret in its address is not stored.

    `video` is the number of the one whose file it replaces; None: it makes a new one.
    """

    id: int
    project: int
    project_key: str
    origins: tuple[str, ...]
    wanted: UploadDetails
    most_bytes: int
    expires_us: int
    used: bool
    video: int | None = None
