"""The intake of uploads: a disk store, and sandboxed engines that inspect files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from api.intake.limits import UploadLimits
from api.intake.upload_intake import UploadIntake
from headend.config.settings import QuotaSettings
from storage.file_intake import FileFacts, FileRefused
from storage.objects.store import MediaStore
from storage.objects.upload_pieces import UploadPieces
from storage.quotas import QuotaLimits
from transcode.inspect.probe import NotMedia, ProbeTimeout, probe
from transcode.inspect.still import NotImage, make_image, make_posters

# The most common size of live streams; a run scales the picture to its own size.
_SLATE: Final = (1920, 1080)
_DEFAULTS: Final = UploadLimits()


def quota_limits(settings: QuotaSettings) -> QuotaLimits:
    """Return the quotas of each project."""
    return QuotaLimits(
        streams=settings.project_streams,
        stored_bytes=settings.project_bytes,
        minutes=settings.project_minutes,
    )


async def probe_upload(file: Path, /) -> FileFacts | None:
    """Return the facts about a video file, or None if the probe timed out.

    Raises:
        FileRefused: the file is not media.
    """
    try:
        facts = await probe(file)
    except NotMedia as error:
        raise FileRefused(error.reason) from error
    except ProbeTimeout:
        return None
    return FileFacts(length_us=facts.length_us, width=facts.width, height=facts.height)


async def uploaded_posters(file: Path, width: int, height: int, /) -> Mapping[str, bytes]:
    """Return posters of an uploaded picture by label.

    Raises:
        FileRefused: the picture cannot be decoded.
    """
    try:
        return await make_posters(file, width, height)
    except NotImage as error:
        raise FileRefused(error.reason) from error


async def uploaded_slate(file: Path, /) -> bytes:
    """Return an uploaded picture as a slate.

    Raises:
        FileRefused: the picture cannot be decoded.
    """
    try:
        return await make_image(file, *_SLATE)
    except NotImage as error:
        raise FileRefused(error.reason) from error


def create_intake(
    objects: MediaStore,
    min_free_bytes: int,
    uploads: UploadLimits = _DEFAULTS,
    *,
    shared: bool = False,
    trash_us: int = 0,
) -> UploadIntake:
    """Return the intake of a store; `min_free_bytes` of its disk stay free.

    It takes no upload that the store could not keep.

    A file that is replaced can be restored for `trash_us`.

    `shared`: resumable uploads may continue at another host with the same store and catalog.
    """
    return UploadIntake(
        objects=objects,
        probe=probe_upload,
        posters=uploaded_posters,
        slate=uploaded_slate,
        least_free=min_free_bytes,
        most_upload=min(uploads.most_bytes, objects.most_bytes),
        keep_us=uploads.keep_us,
        trash_us=trash_us,
        pieces=UploadPieces(objects, min_free_bytes=min_free_bytes) if shared else None,
    )
