"""A new file for an existing video, whose number, hash and addresses stay.

The old file plays until all of the new one is transcoded, and can be taken back for some days. The
new file arrives as that of a new video does: in one request (`replace_from_form`) or as a resumable
upload (`api.uploads.receiver`), with a token or through a link. All of them end in
`replace_source`.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from litestar import Request

from api.http.errors import ApiError
from api.http.parameters import missing
from api.intake.upload_intake import UploadIntake, probe_video, received_file
from media.fair_share import Holder
from media.stream_keys import PublicHash, new_hash
from storage.catalog.records.videos import VideoFile, VideoRecord, WholeVideo
from storage.errors import UploadInProgress, UploadLinkSpent
from storage.file_intake import source_file
from storage.objects import addresses
from storage.objects.base import ObjectError, Objects

log = logging.getLogger(__name__)

# Records a new file. Returns the video as it is then and the address of a file that no row names
# any more, or None if there is no such video any more.
RecordReplacement = Callable[[VideoFile], Awaitable[tuple[WholeVideo, str | None] | None]]


async def replace_from_form(
    request: Request[Any, Any, Any],  # Any: what Litestar leaves open to every application
    intake: UploadIntake,
    video: VideoRecord,
    *,
    most: int,
    holders: tuple[Holder, ...],
    record: RecordReplacement,
) -> WholeVideo:
    """Receive a form with a file of at most `most` bytes, and replace a video's file with it.

    The upload counts for `holders`.

    Raises:
        ApiError: the form or the file is invalid, 409 if the first file has not arrived yet, and
            as in `replace_source`; the video is unchanged.
    """
    if video.state == "uploading":
        raise first_file_pending()
    async with received_file(request, intake, "video", most=most, holders=holders) as inflow:
        facts = await probe_video(intake, inflow)
        source = addresses.replaced_source(video.hash, new_hash())
        await inflow.keep(source)
        file = source_file(facts, source, inflow.size)
        return await replace_source(intake.objects, video.hash, file, record)


async def replace_source(
    objects: Objects, hash_: PublicHash, file: VideoFile, record: RecordReplacement
) -> WholeVideo:
    """Make a stored file a video's source; delete the one before it, unless that is in the trash.

    If it is unknown whether the catalog recorded the new file, both stay: the cleanup of orphans
    deletes the one that no row names. What cannot be deleted here is due soon
    (`storage.cleanup.removals`).

    Raises:
        ApiError: 404 if there is no such video any more, 409 if its first file has not arrived
            yet or the link was used meanwhile; the new file is deleted.
    """
    try:
        replaced = await record(file)
    except (UploadInProgress, UploadLinkSpent) as error:
        with contextlib.suppress(ObjectError):
            await objects.delete(file.source)
        if isinstance(error, UploadInProgress):
            raise first_file_pending() from error
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
    if replaced is None:
        with contextlib.suppress(ObjectError):
            # The rest is the video's, which may be in the trash.
            await objects.delete(file.source)
        raise missing("video")
    whole, dropped = replaced
    if dropped is not None:
        with contextlib.suppress(ObjectError):
            await objects.delete(dropped)
    log.info("file replaced", extra={"video": hash_, "bytes": file.size})
    return whole


def first_file_pending() -> ApiError:
    """Return the error response for a video whose first file has not arrived yet."""
    return ApiError(HTTPStatus.CONFLICT, "The video's first file is still coming.")
