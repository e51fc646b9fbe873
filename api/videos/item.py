"""One video: shown, edited, published, kept, retried, deleted.

Its files are handled in `api.uploads.single_request`.
"""

from collections.abc import Callable
from http import HTTPStatus

from litestar import Controller, Response, delete, get, post, put
from litestar.di import NamedDependency

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import BODY_ERRORS, CHANGE_ERRORS, READ_ERRORS
from api.http.errors import ApiError, documented
from api.http.json_body import described, read_body
from api.http.parameters import RecordId, missing, number_of, still_there
from api.http.preconditions import IfMatch, quoted, unless_edited
from api.library.references import read_details
from api.ports import MediaRemover
from api.videos.lookup import VIDEO, video_tag
from api.videos.presenter import VideoPresenter, present_status
from api.videos.schemas import (
    PlayerChoice,
    VideoChanged,
    VideoData,
    VideoEdit,
    VideoStatusData,
)
from storage.catalog import Catalog
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.videos import WholeVideo
from storage.errors import VideoNotFailed


class VideoController(Controller):
    """One video."""

    path = "/videos/{video_id:str}"
    tags = ("videos",)
    dependencies = VIDEO

    @get(summary="Show a video", responses=documented(*READ_ERRORS))
    async def show_video(
        self,
        video: NamedDependency[WholeVideo],
        video_presenter: NamedDependency[VideoPresenter],
    ) -> Response[VideoData]:
        """Show one video with its resolutions.

        `ETag` names this version of what can be edited.
        """
        shown = VideoData(data=video_presenter.shown(video))
        return Response(shown, headers={"ETag": quoted(video_tag(video))})

    @get("/status", summary="Show how far a video is", responses=documented(*READ_ERRORS))
    async def show_status(
        self,
        request: ApiRequest,
        video_id: RecordId,
        catalog: NamedDependency[Catalog],
        files_wait: NamedDependency[Callable[[], bool]],
    ) -> VideoStatusData:
        """Show how far the making of a video is, and why it failed where it did."""
        # One row instead of a whole video: clients poll this.
        status = await catalog.videos.find_status(number_of(video_id, "video"))
        if status is None or not request.auth.reaches(status.project):
            raise missing("video")
        return VideoStatusData(data=present_status(status, files_wait=files_wait()))

    @put(
        guards=[needs_write],
        operation_class=described(VideoEdit),
        summary="Edit a video",
        responses=documented(*BODY_ERRORS, HTTPStatus.PRECONDITION_FAILED),
    )
    async def edit_video(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[VideoChanged]:
        """Change what is sent; tags and countries replace the whole list."""
        body = await read_body(request, VideoEdit)
        changed = await catalog.videos.edit(
            video.video.id,
            read_details(body, VideoDetails),
            now_us,
            by=request.auth.id,
            check=unless_edited(if_match, video_tag),
        )
        return Response(
            _changed("Video updated.", changed, video_presenter),
            headers={"ETag": quoted(video_tag(still_there(changed, "video")))},
        )

    @put(
        "/player",
        guards=[needs_write],
        operation_class=described(PlayerChoice),
        summary="Choose a video's player",
        responses=documented(*BODY_ERRORS),
    )
    async def choose_player(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        now_us: NamedDependency[int],
    ) -> VideoChanged:
        """Show a video in a player of its project; null is the standard player."""
        body = await read_body(request, PlayerChoice)
        changed = await catalog.videos.set_player(
            video.video.id, body.player, now_us, by=request.auth.id
        )
        return _changed("Video updated.", changed, video_presenter)

    @post(
        "/publish",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Publish a video",
        responses=documented(*CHANGE_ERRORS),
    )
    async def publish_video(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        now_us: NamedDependency[int],
    ) -> VideoChanged:
        """Show a video to viewers; one that does not play yet is shown as soon as it does."""
        changed = still_there(
            await catalog.videos.publish(video.video.id, now_us, by=request.auth.id), "video"
        )
        published = changed.video.published
        message = "Video published." if published else "Video to be published as soon as it plays."
        return _changed(message, changed, video_presenter)

    @post(
        "/unpublish",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Unpublish a video",
        responses=documented(*CHANGE_ERRORS),
    )
    async def unpublish_video(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        now_us: NamedDependency[int],
    ) -> VideoChanged:
        """Hide a video from viewers until it is published again."""
        changed = await catalog.videos.unpublish(video.video.id, now_us, by=request.auth.id)
        return _changed("Video unpublished.", changed, video_presenter)

    @post(
        "/keep",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Keep a recording",
        responses=documented(*CHANGE_ERRORS),
    )
    async def keep_video(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        now_us: NamedDependency[int],
    ) -> VideoChanged:
        """Keep a recorded video until it is deleted, however long its project keeps recordings.

        Other videos are always kept.
        """
        changed = await catalog.videos.keep(video.video.id, now_us, by=request.auth.id)
        return _changed("Video kept until it is deleted.", changed, video_presenter)

    @post(
        "/retry",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Try a failed video again",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def retry_video(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        now_us: NamedDependency[int],
    ) -> VideoChanged:
        """Queue a video again whose making has failed."""
        try:
            changed = await catalog.videos.retry(video.video.id, now_us, by=request.auth.id)
        except VideoNotFailed as error:
            message = (
                "The file is not there any more: upload or import it again."
                if error.state == "failed"
                else "Only a video that has failed can be tried again."
            )
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        return _changed("Video queued again.", changed, video_presenter)

    @delete(guards=[needs_write], summary="Delete a video", responses=documented(*CHANGE_ERRORS))
    async def delete_video(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        media: NamedDependency[MediaRemover | None],
        now_us: NamedDependency[int],
    ) -> None:
        """Delete a video and all that is kept of it."""
        hash_ = await catalog.videos.remove(video.video.id, now_us, by=request.auth.id)
        if hash_ is None:
            raise missing("video")
        if media is not None:
            await media.remove([hash_])


def _changed(
    message: str, changed: WholeVideo | None, video_presenter: VideoPresenter
) -> VideoChanged:
    return VideoChanged(message=message, video=video_presenter.full(still_there(changed, "video")))
