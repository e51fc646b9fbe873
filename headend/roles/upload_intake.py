"""What takes uploads in, of concrete things: the objects' disk, and boxed children that look."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from api.ports import FileFacts, FileRefused
from api.uploads.limits import UploadLimits
from api.uploads.single_request import Intake
from storage.objects.disk import DiskObjects
from transcode.inspect.probe import NotMedia, ProbeTimeout, probe
from transcode.inspect.still import NotImage, make_image, make_posters

__all__ = ["intake_on", "look", "posters", "slate"]

# The size that live streams come in most; a run fits the picture into its own.
_SLATE: Final = (1920, 1080)
_DEFAULTS: Final = UploadLimits()


async def look(file: Path, /) -> FileFacts | None:
    """Return what a video file is; None where that takes too long.

    Raises:
        FileRefused: it is no media.
    """
    try:
        found = await probe(file)
    except NotMedia as error:
        raise FileRefused(error.reason) from error
    except ProbeTimeout:
        return None
    return FileFacts(length_us=found.length_us, width=found.width, height=found.height)


async def posters(file: Path, width: int, height: int, /) -> Mapping[str, bytes]:
    """Return posters of an uploaded picture.

    Raises:
        FileRefused: it is none that can be shown.
    """
    try:
        return await make_posters(file, width, height)
    except NotImage as error:
        raise FileRefused(error.reason) from error


async def slate(file: Path, /) -> bytes:
    """Return an uploaded picture as it stands in while nobody is on air.

    Raises:
        FileRefused: it is none that can be shown.
    """
    try:
        return await make_image(file, *_SLATE)
    except NotImage as error:
        raise FileRefused(error.reason) from error


def intake_on(objects: DiskObjects, least_free: int, uploads: UploadLimits = _DEFAULTS) -> Intake:
    """Return what takes files in to a store; `least_free` bytes of its disk stay free."""
    return Intake(
        objects=objects,
        probe=look,
        posters=posters,
        slate=slate,
        least_free=least_free,
        most_upload=uploads.most_bytes,
        keep_us=uploads.keep_us,
    )
