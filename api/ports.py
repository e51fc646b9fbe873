"""Protocols that the API, the pages and the origin need; `headend.roles.wiring` binds them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from storage.catalog.records.alerts import MailAnswer
from storage.catalog.records.common import ProjectRecord, PublicRecord


class PublicRecords(Protocol):
    """Looks up what viewers can watch; the catalog is one."""

    async def find(self, hash_: str, /) -> PublicRecord | None:
        """Return what viewers may know of a stream or video, or None if there is none."""
        ...


@runtime_checkable  # Litestar checks the types of dependencies
class MediaRemover(Protocol):
    """Deletes the media of streams and videos that are no longer in the catalog."""

    async def remove(self, hashes: Sequence[str], /) -> None:
        """Delete all media of the streams and videos with these hashes; failures are skipped.

        It raises nothing: the records are deleted already, and the caller cannot handle a failure.
        """
        ...

    async def withdraw(self, hashes: Sequence[str], /) -> None:
        """Have no process or CDN answer with the media of records in the trash; they stay.

        It raises nothing, as `remove`.
        """
        ...


@runtime_checkable  # Litestar checks the types of dependencies
class MailTest(Protocol):
    """Sends mails by which an operator tries out the mail server."""

    async def __call__(self, addresses: Sequence[str], /) -> Sequence[MailAnswer]:
        """Send one to each address and return what the server answered, in words."""
        ...


class OwnerCheck(Protocol):
    """Distinguishes owners from viewers."""

    async def __call__(self, credentials: str | None, hash_: str, /) -> bool:
        """Return True if a header, such as `Authorization`, shows access to the stream."""
        ...


class PosterMaker(Protocol):
    """Makes posters from an uploaded picture, in a sandbox."""

    async def __call__(self, file: Path, width: int, height: int, /) -> Mapping[str, bytes]:
        """Return JPEGs by resolution label, for a video of this size.

        A size of 0 is unknown; the size of the picture is used instead.

        Raises:
            FileRefused: the file is not a picture that can be decoded.
        """
        ...


class SlateMaker(Protocol):
    """Makes the slate of a stream (shown while it is off air) from a picture, in a sandbox."""

    async def __call__(self, file: Path, /) -> bytes:
        """Return a JPEG of at most 1920 x 1080, with the aspect ratio kept and never scaled up.

        Raises:
            FileRefused: the file is not a picture that can be decoded.
        """
        ...


class ProjectIndex(Protocol):
    """Looks up projects; the catalog is one."""

    async def find(self, name: str, /) -> ProjectRecord | None:
        """Return the project whose number or key `name` is."""
        ...
