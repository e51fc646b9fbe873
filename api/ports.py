"""What the API, its pages and the origin need of the world; `headend.roles.wiring` binds it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from storage.catalog.records.common import ProjectRecord, Shown
from storage.file_intake import FileFacts, FileRefused, Probe

__all__ = [
    "FileFacts",
    "FileRefused",
    "MediaRemover",
    "OwnerCheck",
    "PosterMaker",
    "Probe",
    "ProjectIndex",
    "Showcase",
    "SlateMaker",
]


class Showcase(Protocol):
    """Knows which streams there are to be watched; the catalog is one."""

    async def find(self, hash_: str, /) -> Shown | None:
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

    async def remove_project(self, key: str, /) -> None:
        """Delete what is kept of a project itself, in the same way."""
        ...


class OwnerCheck(Protocol):
    """Tells an owner from a viewer."""

    async def __call__(self, authorization: str | None, hash_: str, /) -> bool:
        """Say whether the `Authorization` header holds a token that reaches the stream."""
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


class SlateMaker(Protocol):
    """Makes the picture that stands in while nobody is on air of an uploaded one, in a box."""

    async def __call__(self, file: Path, /) -> bytes:
        """Return it as a JPEG of at most 1920 x 1080, in its own shape and never scaled up.

        Raises:
            FileRefused: it is no picture, or none that can be shown.
        """
        ...


class ProjectIndex(Protocol):
    """Knows the projects; the catalog is one."""

    async def find(self, name: str, /) -> ProjectRecord | None:
        """Return the project whose number or key `name` is."""
        ...
