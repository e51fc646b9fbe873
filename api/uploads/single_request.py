"""Files that are sent in one request: a video, another file for a video, a poster."""

import contextlib
from http import HTTPStatus
from typing import Annotated, Final

from litestar import Controller, post

from api.http.auth import needs_write
from api.http.errors import ApiError, documented, invalid
from api.http.operation import FORM_ERRORS, commands, takes_form
from api.http.parameters import queried
from api.intake.form_schemas import FileForm, PosterForm, video_form
from api.intake.upload_intake import (
    MAX_PICTURE,
    MAX_VIDEO,
    PICTURE_FORM_BYTES,
    VIDEO_FORM_BYTES,
    GivenIntake,
    make_posters,
    most_incoming,
    new_poster_folder,
    put_posters,
    received_file,
    token_holders,
)
from api.library.lookup import PROJECT, ProjectCall
from api.library.quotas import GivenQuotas
from api.schemas.timestamps import parse_timestamp
from api.uploads.replace_file import replace_from_form
from api.uploads.video_form import receive_video_form
from api.videos.lookup import VIDEO, VideoCall
from api.videos.presenter import VideoPresenter, video_changed
from api.videos.schemas import TEXTS, VideoAdded, VideoChanged
from storage.catalog.records.videos import NewVideo, VideoFile, WholeVideo
from storage.errors import FileChanged, NoFormerFile, StorageError
from storage.file_intake import FileFacts
from storage.objects import addresses
from storage.objects.base import ObjectError

_NO_MOMENT: Final = "The uploaded_at must be a moment like 2026-01-31T12:00:00.123456Z."

UploadedAt = Annotated[
    str | None,
    queried("Only if this is the video's `uploaded_at`; 409 if it has another file by now."),
]


class VideoUploadController(Controller):
    """A new video, sent in one request."""

    path = "/projects/{project_id:str}/videos"
    tags = ("videos",)
    dependencies = PROJECT

    @post(
        guards=[needs_write],
        request_max_body_size=MAX_VIDEO + VIDEO_FORM_BYTES,
        operation_class=video_form(TEXTS),
        summary="Upload a video",
        responses=documented(*FORM_ERRORS),
    )
    async def upload_video(
        self, call: ProjectCall, intake: GivenIntake, quotas: GivenQuotas
    ) -> VideoAdded:
        """Receive a file and transcode it; progress is published on the web socket."""
        project = call.record.id

        async def add(arrived: NewVideo) -> WholeVideo:
            return await call.catalog.videos.add(project, arrived, call.change())

        async with quotas.adding_file(project, most_incoming(call.request, intake.max_video)):
            whole = await receive_video_form(
                call.request,
                call.catalog,
                intake,
                holders=token_holders(call.caller.id, project),
                most=intake.max_video,
                add=add,
            )
        return VideoPresenter.of(call.presenter).added(whole)


class VideoFilesController(Controller):
    """The files of an existing video."""

    path = "/videos/{video_id:str}"
    tags = ("videos",)
    dependencies = VIDEO

    @takes_form(
        "Replace a video's file",
        FileForm,
        "/file",
        most=MAX_VIDEO + VIDEO_FORM_BYTES,
        errors=[HTTPStatus.CONFLICT],
    )
    async def replace_file(
        self, call: VideoCall, intake: GivenIntake, quotas: GivenQuotas
    ) -> VideoChanged:
        """Receive another file for a video; the old file plays until the new one is transcoded.

        Larger files come as resumable uploads that name the video (`replaces`).
        """
        number, project = call.record.video.id, call.record.video.project

        async def record(file: VideoFile) -> tuple[WholeVideo, str | None] | None:
            return await call.catalog.videos.replace(number, file, call.change())

        async with quotas.adding_file(project, most_incoming(call.request, intake.max_video)):
            whole = await replace_from_form(
                call.request,
                intake,
                call.record.video,
                most=intake.max_video,
                holders=token_holders(call.caller.id, project),
                record=record,
            )
        return video_changed(call, "File replaced.", whole)

    @commands("Take a video's former file back", "/restore-file", errors=[HTTPStatus.CONFLICT])
    async def restore_file(
        self,
        call: VideoCall,
        intake: GivenIntake,
        quotas: GivenQuotas,
        uploaded_at: UploadedAt = None,
    ) -> VideoChanged:
        """Give a video the file again that it had before its present one (`trash.keep_days`).

        The present file becomes the former one, so that doing it twice changes nothing. What plays
        stays until all of the file is transcoded, which counts for the quota of minutes. A
        recording that was replaced has no former file.
        """
        uploaded_us = None if uploaded_at is None else parse_timestamp(uploaded_at)
        if uploaded_at is not None and uploaded_us is None:
            raise invalid({"uploaded_at": [_NO_MOMENT]})
        number = call.record.video.id
        former = await call.catalog.former_files.find(number, call.now_us())
        if former is None or await intake.objects.stat(former.file.source) is None:
            raise _no_former_file()
        try:
            async with quotas.taking_back(call.record.video.project):
                whole = await call.catalog.former_files.take_back(
                    number, call.change(), uploaded_us=uploaded_us
                )
        except NoFormerFile as error:
            raise _no_former_file() from error
        except FileChanged as error:
            message = "The video has another file meanwhile: look at it again."
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        return video_changed(call, "The former file is back.", whole)

    @takes_form("Give a video a poster", PosterForm, "/poster", most=PICTURE_FORM_BYTES)
    async def put_poster(self, call: VideoCall, intake: GivenIntake) -> VideoChanged:
        """Show a picture of the owner's before the video plays; it replaces all posters."""
        record, objects = call.record.video, intake.objects
        holders = token_holders(call.caller.id, record.project)
        async with received_file(
            call.request, intake, "poster", most=MAX_PICTURE, holders=holders
        ) as picture:
            facts = FileFacts(length_us=record.length_us, width=record.width, height=record.height)
            posters = await make_posters(intake, picture, facts)
            folder = new_poster_folder()
            try:
                await put_posters(objects, record.hash, folder, posters)
                changed = await call.catalog.videos.set_posters(
                    record.id, folder, tuple(posters), call.change()
                )
            except ObjectError:
                # After an error of the catalog they may be shown: then the cleanup of orphans
                # decides.
                await objects.delete_tree(addresses.video_folder(record.hash, folder))
                raise
            # What cannot be deleted now is deleted later (`storage.cleanup.removals`), or, if there
            # is no such video any more, by the cleanup of orphans. That may be in the trash.
            if changed is None:
                with contextlib.suppress(ObjectError):
                    await objects.delete_tree(addresses.video_folder(record.hash, folder))
                raise call.missing()
            whole, old_folder = changed
            if old_folder is not None:
                with contextlib.suppress(StorageError):
                    if not await call.catalog.removals.are_held():
                        await objects.delete_tree(addresses.video_folder(record.hash, old_folder))
        return video_changed(call, "Video updated.", whole)


def _no_former_file() -> ApiError:
    message = "There is no former file in the trash."
    return ApiError(HTTPStatus.CONFLICT, message)
