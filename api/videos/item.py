"""One video: shown, edited, published, kept, retried, deleted.

Its files are handled in `api.uploads.single_request`.
"""

from collections.abc import Callable
from http import HTTPStatus

from litestar import Controller, Response
from litestar.di import NamedDependency

from api.http.conditional import IfMatch, tagged, unless_edited
from api.http.errors import ApiError
from api.http.operation import PlainCall, commands, deletes, edits, shows
from api.http.parameters import RecordId, number_of
from api.library.references import read_details
from api.ports import MediaRemover
from api.videos.lookup import VIDEO, VideoCall, video_tag
from api.videos.presenter import VideoPresenter, present_status, video_changed
from api.videos.schemas import PlayerChoice, VideoChanged, VideoData, VideoEdit, VideoStatusData
from storage.catalog.records.details import VideoDetails
from storage.errors import VideoNotFailed


class VideoController(Controller):
    """One video."""

    path = "/videos/{video_id:str}"
    tags = ("videos",)
    dependencies = VIDEO

    @shows("Show a video")
    async def show_video(self, call: VideoCall) -> Response[VideoData]:
        """Show one video with its resolutions.

        `ETag` names this version of what can be edited.
        """
        shown = VideoData(data=VideoPresenter.of(call.presenter).shown(call.record))
        return tagged(shown, video_tag(call.record))

    @shows("Show how far a video is", "/status")
    async def show_status(
        self, plain: PlainCall, video_id: RecordId, files_wait: NamedDependency[Callable[[], bool]]
    ) -> VideoStatusData:
        """Show how far the making of a video is, and why it failed where it did."""
        # One row instead of a whole video: clients poll this.
        found = await plain.catalog.videos.find_status(number_of(video_id, "video"))
        status = plain.to(found, found and found.project, "video").record
        return VideoStatusData(data=present_status(status, files_wait=files_wait()))

    @edits("Edit a video", VideoEdit, errors=[HTTPStatus.PRECONDITION_FAILED])
    async def edit_video(self, call: VideoCall, if_match: IfMatch = None) -> Response[VideoChanged]:
        """Change what is sent; tags and countries replace the whole list."""
        edit = read_details(await call.body(VideoEdit), VideoDetails)
        check = unless_edited(if_match, video_tag)
        changed = await call.catalog.videos.edit(
            call.record.video.id, edit, call.change(), check=check
        )
        answer = video_changed(call, "Video updated.", changed)
        return tagged(answer, video_tag(call.still_there(changed)))

    @edits("Choose a video's player", PlayerChoice, "/player")
    async def choose_player(self, call: VideoCall) -> VideoChanged:
        """Show a video in a player of its project; null is the standard player."""
        body = await call.body(PlayerChoice)
        changed = await call.catalog.videos.set_player(
            call.record.video.id, body.player, call.change()
        )
        return video_changed(call, "Video updated.", changed)

    @commands("Publish a video", "/publish")
    async def publish_video(self, call: VideoCall) -> VideoChanged:
        """Show a video to viewers; one that does not play yet is shown as soon as it does."""
        changed = call.still_there(
            await call.catalog.videos.publish(call.record.video.id, call.change())
        )
        published = changed.video.published
        message = "Video published." if published else "Video to be published as soon as it plays."
        return video_changed(call, message, changed)

    @commands("Unpublish a video", "/unpublish")
    async def unpublish_video(self, call: VideoCall) -> VideoChanged:
        """Hide a video from viewers until it is published again."""
        changed = await call.catalog.videos.unpublish(call.record.video.id, call.change())
        return video_changed(call, "Video unpublished.", changed)

    @commands("Keep a recording", "/keep")
    async def keep_video(self, call: VideoCall) -> VideoChanged:
        """Keep a recorded video until it is deleted, however long its project keeps recordings.

        Other videos are always kept.
        """
        changed = await call.catalog.videos.keep(call.record.video.id, call.change())
        return video_changed(call, "Video kept until it is deleted.", changed)

    @commands("Try a failed video again", "/retry", errors=[HTTPStatus.CONFLICT])
    async def retry_video(self, call: VideoCall) -> VideoChanged:
        """Queue a video again whose making has failed."""
        try:
            changed = await call.catalog.videos.retry(call.record.video.id, call.change())
        except VideoNotFailed as error:
            message = (
                "The file is not there any more: upload or import it again."
                if error.state == "failed"
                else "Only a video that has failed can be tried again."
            )
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        return video_changed(call, "Video queued again.", changed)

    @deletes("Delete a video")
    async def delete_video(
        self, call: VideoCall, media: NamedDependency[MediaRemover | None]
    ) -> None:
        """Delete a video and all that is kept of it.

        It can be restored from the project's trash for some days (`trash.keep_days`), unless its
        file has not arrived yet.
        """
        change = call.change()
        hash_ = call.still_there(await call.catalog.videos.remove(call.record.video.id, change))
        if media is not None and change.keep_us:
            await media.withdraw([hash_])
        elif media is not None:
            await media.remove([hash_])
