"""Another file for a video that there is: its number, its hash and its addresses stay.

What plays of the old file plays until all of the new one is made. A file comes in as one that is
uploaded does (`api.uploads`): looked into before anything is written down.
"""

import contextlib
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from litestar import Request, put
from litestar.di import NamedDependency

from api.auth import needs_write
from api.errors import ApiError, documented
from api.formbodies import FileForm
from api.parameters import RecordId, missing
from api.presentvideo import VideoPresenter
from api.uploads import FORM_BYTES, MAX_VIDEO, REFUSALS, Intake, only_file, probed
from api.videobodies import VideoChanged
from api.videos import video_of
from media.keys import PublicHash, new_hash
from storage.arrivals import rungs_of
from storage.catalog import Catalog
from storage.catalog.records import Principal
from storage.catalog.videorecords import Landed, WholeVideo
from storage.errors import FileComing
from storage.objects import addresses
from storage.objects.base import ObjectError
from storage.objects.disk import DiskObjects

__all__ = ["HANDLERS"]

log = logging.getLogger(__name__)

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application


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
    """Take another file in for a video; what it had plays on until all of the new one is made."""
    video = (await video_of(catalog, request.auth, video_id)).video
    if video.state == "uploading":
        raise _coming()
    async with only_file(request, intake, "video", most=intake.max_video) as inflow:
        facts = await probed(intake, inflow)
        landed = Landed(
            source=addresses.replaced_source(video.hash, new_hash()),
            size=inflow.size,
            length_us=facts.length_us,
            width=facts.width,
            height=facts.height,
            rungs=rungs_of(facts),
        )
        await inflow.keep(landed.source)
        whole = await _written(catalog, intake.objects, video.id, video.hash, landed, clock_us(),
                               by=request.auth.id)  # fmt: skip
    log.info("file replaced", extra={"video": video.hash, "bytes": landed.size})
    return VideoChanged(message="File replaced.", video=video_presenter.full(whole))


async def _written(
    catalog: Catalog,
    objects: DiskObjects,
    video: int,
    hash_: PublicHash,
    landed: Landed,
    now_us: int,
    *,
    by: int,
) -> WholeVideo:
    """Write the new file down, and remove the one that nothing names then.

    Where the catalog does not say what became of it, both stay: the one that no row names goes
    with the leftovers.
    """
    try:
        replaced = await catalog.videos.replace(video, landed, now_us, by=by)
    except FileComing as error:
        await objects.delete(landed.source)
        raise _coming() from error
    if replaced is None:
        await objects.delete_tree(addresses.video_sources(hash_))
        raise missing("video")
    whole, before = replaced
    if before is not None:
        with contextlib.suppress(ObjectError):  # goes with the leftovers
            await objects.delete(before)
    return whole


def _coming() -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, "The video's first file is still coming.")


HANDLERS: Final = (replace_file,)
