"""The values that the catalog returns for resumable uploads and upload links: frozen.

Times are microseconds since the Unix epoch (`_us`), sizes bytes.
"""

from typing import Literal

import msgspec

from media.stream_keys import PublicHash
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.videos import NewVideo


class NewUpload(msgspec.Struct, frozen=True, kw_only=True):
    """An upload as it begins; `length` is None where the client does not know it yet.

    `name` is its address and `metadata` what its client sent, unchanged. `video` is the one that it
    becomes, or the number of the one whose file it replaces. `link` is the number of the upload
    link that it comes through.
    """

    name: str
    length: int | None
    most_bytes: int
    metadata: str
    video: NewVideo | int
    expires_us: int
    link: int | None = None


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
    wanted: VideoDetails
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
    wanted: VideoDetails
    most_bytes: int
    expires_us: int
    used: bool
    video: int | None = None
