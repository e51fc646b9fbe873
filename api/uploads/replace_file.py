"""Another file for a video that there is: its number, its hash and its addresses stay.

What plays of the old file plays until all of the new one is made. A file comes in as one that is
uploaded does: in one request (`api.uploads.single_request`) or in several
(`api.uploads.receiver`), with a token or through a link (`api.uploads.link_endpoints`), looked
into before anything is written down. `settled` is how all of them end.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from litestar import Request, put
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import ApiError, documented
from api.http.multipart_schemas import FileForm
from api.http.parameters import RecordId, missing
from api.uploads.single_request import FORM_BYTES, MAX_VIDEO, REFUSALS, Intake, only_file, probed
from api.videos.item import video_of
from api.videos.presenter import VideoPresenter
from api.videos.schemas import VideoChanged
from media.stream_keys import PublicHash, new_hash
from storage.catalog import Catalog
from storage.catalog.records.common import Principal
from storage.catalog.records.videos import Landed, VideoRecord, WholeVideo
from storage.errors import UploadInProgress, UploadLinkSpent
from storage.file_intake import source_file
from storage.objects import addresses
from storage.objects.base import ObjectError
from storage.objects.disk import DiskObjects

__all__ = ["HANDLERS", "Write", "coming", "formed", "settled"]

log = logging.getLogger(__name__)

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application
# Writes a new file down: the video as it is then, and the address of the file that it had; None
# where there is no such video any more.
Write = Callable[[Landed], Awaitable[tuple[WholeVideo, str | None] | None]]


@put(
    "/videos/{video_id:str}/file",
    guards=[needs_write],
    request_max_body_size=MAX_VIDEO + FORM_BYTES,
    operation_class=FileForm,
    summary="Replace a video's file",
    tags=["videos"],
    responses=documented(*REFUSALS, HTTPStatus.CONFLICT),
)
async def replace_file(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> VideoChanged:
    """Take another file in for a video; what it had plays on until all of the new one is made.

    Larger files come as resumable uploads that name the video (`replaces`).
    """
    video = (await video_of(catalog, request.auth, video_id)).video
    caller = request.auth.id

    async def write(file: Landed) -> tuple[WholeVideo, str | None] | None:
        return await catalog.videos.replace(video.id, file, clock_us(), by=caller)

    whole = await formed(request, intake, video, most=intake.max_video, caller=caller, write=write)
    return VideoChanged(message="File replaced.", video=video_presenter.full(whole))


async def formed(
    request: Request[Any, Any, Any],  # Any: as above
    intake: Intake,
    video: VideoRecord,
    *,
    most: int,
    caller: int,
    write: Write,
) -> WholeVideo:
    """Take a form with a file of at most `most` bytes, and have it replace a video's.

    `caller` is whom the gate counts.

    Raises:
        ApiError: what is wrong with the form or the file, 409 where the first file is still coming,
            and as in `settled`; then nothing changes.
    """
    if video.state == "uploading":
        raise coming()
    async with only_file(request, intake, "video", most=most, caller=caller) as inflow:
        facts = await probed(intake, inflow)
        source = addresses.replaced_source(video.hash, new_hash())
        await inflow.keep(source)
        return await settled(
            intake.objects, video.hash, source_file(facts, source, inflow.size), write
        )


async def settled(
    objects: DiskObjects, hash_: PublicHash, file: Landed, write: Write
) -> WholeVideo:
    """Have a file that stands at its address be a video's, and remove the one that it had.

    Where the catalog does not say what became of it, both stay: the one that no row names goes
    with the leftovers.

    Raises:
        ApiError: 404 where there is no such video any more, 409 where its first file is still
            coming or the link was used meanwhile; then the file is gone.
    """
    try:
        replaced = await write(file)
    except (UploadInProgress, UploadLinkSpent) as error:
        await objects.delete(file.source)
        if isinstance(error, UploadInProgress):
            raise coming() from error
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
    if replaced is None:
        await objects.delete_tree(addresses.video_sources(hash_))
        raise missing("video")
    whole, before = replaced
    if before is not None:
        with contextlib.suppress(ObjectError):  # goes with the leftovers
            await objects.delete(before)
    log.info("file replaced", extra={"video": hash_, "bytes": file.size})
    return whole


def coming() -> ApiError:
    """Return the refusal where a video cannot get another file, as it has none yet."""
    return ApiError(HTTPStatus.CONFLICT, "The video's first file is still coming.")


HANDLERS: Final = (replace_file,)
