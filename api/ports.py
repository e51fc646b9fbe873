"""What the API, its pages and the origin need of the world; `headend.wiring` binds it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from storage.catalog.records import ProjectRecord, Shown

__all__ = [
    "FileFacts",
    "FileRefused",
    "MediaRemover",
    "OwnerCheck",
    "PosterMaker",
    "Probe",
    "ProjectIndex",
    "Showcase",
]


class Showcase(Protocol):
    """Knows which streams there are to be watched; the catalog is one."""

    async def shown(self, hash_: str, /) -> Shown | None:
        """Return what viewers may know of the stream, or None where there is none."""
        ...


@runtime_checkable  # the framework looks at what it hands to an operation
class MediaRemover(Protocol):
    """Deletes the media of streams and videos that are in the catalog no longer."""

    async def remove(self, hashes: Sequence[str], /) -> None:
        """Delete all that is kept of the streams and videos with these hashes; what fails stays.

        It raises nothing: the records are gone already, and the caller can do nothing about it.
        """
        ...


class OwnerCheck(Protocol):
    """Tells an owner from a viewer."""

    async def __call__(self, authorization: str | None, hash_: str, /) -> bool:
        """Say whether the `Authorization` header holds a token that reaches the stream."""
        ...


class FileRefused(Exception):
    """Nothing can be made of an uploaded file; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a video file is: its length in microseconds, its upright picture's size in pixels."""

    length_us: int
    width: int
    height: int


class Probe(Protocol):
    """Looks into an uploaded video file, in a box."""

    async def __call__(self, file: Path, /) -> FileFacts | None:
        """Return what the file is; None where that takes too long to wait for.

        Raises:
            FileRefused: it is no media, or none that can be made anything of.
        """
        ...


class PosterMaker(Protocol):
    """Makes posters of an uploaded picture, in a box."""

    async def __call__(self, file: Path, width: int, height: int, /) -> Mapping[str, bytes]:
        """Return JPEGs by the labels of the resolutions of a video of that size.

        A size of 0 is not known yet: then the picture's own takes its place.

        Raises:
            FileRefused: it is no picture, or none that can be shown.
        """
        ...


class ProjectIndex(Protocol):
    """Knows the projects; the catalog is one."""

    async def find_project(self, name: str, /) -> ProjectRecord | None:
        """Return the project whose number or key `name` is."""
        ...
