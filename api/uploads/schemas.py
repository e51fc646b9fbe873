"""The bodies of the operations on resumable uploads and on files sent through upload links."""

import msgspec


class UploadedTo(msgspec.Struct, frozen=True, kw_only=True):
    """The video that an upload creates, or whose file it replaces."""

    id: int
    hash: str


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A resumable upload: `offset` bytes are on disk; a `length` of null is not known yet.

    It is done once its video has its file.
    """

    offset: int
    length: int | None
    done: bool
    expires_at: str
    video: UploadedTo


class UploadShown(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing an upload."""

    data: Upload


class LinkedVideo(msgspec.Struct, frozen=True, kw_only=True):
    """What the user of an upload link may know of the video."""

    id: int
    hash: str
    title: str
    size: int


class LinkUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a form that was sent through a link."""

    message: str
    video: LinkedVideo
