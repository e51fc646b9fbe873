"""What takes uploads in, of concrete things: the objects' disk, and boxed children that look."""

from collections.abc import Mapping
from pathlib import Path

from api.ports import FileFacts, FileRefused
from api.uploads import Intake
from storage.objects.disk import DiskObjects
from transcode.probe import NotMedia, ProbeSlow, probe
from transcode.still import NotPicture, stills

__all__ = ["intake_on", "look", "posters"]


async def look(file: Path, /) -> FileFacts | None:
    """Return what a video file is; None where that takes too long.

    Raises:
        FileRefused: it is no media.
    """
    try:
        found = await probe(file)
    except NotMedia as error:
        raise FileRefused(error.reason) from error
    except ProbeSlow:
        return None
    return FileFacts(length_us=found.length_us, width=found.width, height=found.height)


async def posters(file: Path, width: int, height: int, /) -> Mapping[str, bytes]:
    """Return posters of an uploaded picture.

    Raises:
        FileRefused: it is none that can be shown.
    """
    try:
        return await stills(file, width, height)
    except NotPicture as error:
        raise FileRefused(error.reason) from error


def intake_on(objects: DiskObjects, least_free: int) -> Intake:
    """Return what takes files in to a store; `least_free` bytes of its disk stay free."""
    return Intake(objects=objects, probe=look, posters=posters, least_free=least_free)
