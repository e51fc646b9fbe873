"""How videos stand: asked, published and not, tried again."""

from http import HTTPStatus
from typing import Any, Final

from litestar import Request, get, post
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import ApiError, documented
from api.http.parameters import RecordId, missing, number_of
from api.videos.item import still, video_of
from api.videos.presenter import VideoPresenter, status
from api.videos.schemas import VideoChanged, VideoStatusData
from storage.catalog import Catalog
from storage.catalog.records.common import Principal
from storage.errors import VideoNotFailed

__all__ = ["HANDLERS"]

_ONE: Final = "/videos/{video_id:str}"
_READ: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
_WRITE: Final = (*_READ, HTTPStatus.FORBIDDEN)

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application


@get(
    f"{_ONE}/status",
    summary="Show how far a video is",
    tags=["videos"],
    responses=documented(*_READ),
)
async def show_status(
    request: Call, video_id: RecordId, catalog: NamedDependency[Catalog]
) -> VideoStatusData:
    """Show how far the making of a video is, and why it failed where it did."""
    found = await catalog.videos.status(number_of(video_id, "video"))
    if found is None or not request.auth.reaches(found.project):
        raise missing("video")
    return VideoStatusData(data=status(found))


@post(
    f"{_ONE}/publish",
    status_code=HTTPStatus.OK,
    guards=[needs_write],
    summary="Publish a video",
    tags=["videos"],
    responses=documented(*_WRITE),
)
async def publish_video(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    now_us: NamedDependency[int],
) -> VideoChanged:
    """Show a video to viewers; one that does not play yet is shown as soon as it does."""
    number = (await video_of(catalog, request.auth, video_id)).video.id
    changed = still(await catalog.videos.publish(number, now_us, by=request.auth.id))
    shown = changed.video.published
    message = "Video published." if shown else "Video to be published as soon as it plays."
    return VideoChanged(message=message, video=video_presenter.full(changed))


@post(
    f"{_ONE}/unpublish",
    status_code=HTTPStatus.OK,
    guards=[needs_write],
    summary="Unpublish a video",
    tags=["videos"],
    responses=documented(*_WRITE),
)
async def unpublish_video(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    now_us: NamedDependency[int],
) -> VideoChanged:
    """Hide a video from viewers until it is published again."""
    number = (await video_of(catalog, request.auth, video_id)).video.id
    changed = still(await catalog.videos.unpublish(number, now_us, by=request.auth.id))
    return VideoChanged(message="Video unpublished.", video=video_presenter.full(changed))


@post(
    f"{_ONE}/retry",
    status_code=HTTPStatus.OK,
    guards=[needs_write],
    summary="Try a failed video again",
    tags=["videos"],
    responses=documented(*_WRITE, HTTPStatus.CONFLICT),
)
async def retry_video(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    now_us: NamedDependency[int],
) -> VideoChanged:
    """Queue a video again whose making has failed."""
    number = (await video_of(catalog, request.auth, video_id)).video.id
    try:
        changed = still(await catalog.videos.retry(number, now_us, by=request.auth.id))
    except VideoNotFailed as error:
        message = "Only a video that has failed can be tried again."
        raise ApiError(HTTPStatus.CONFLICT, message) from error
    return VideoChanged(message="Video queued again.", video=video_presenter.full(changed))


HANDLERS: Final = (show_status, publish_video, unpublish_video, retry_video)
