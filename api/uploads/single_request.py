"""Files that are sent in one request: a video, another file for a video, a poster."""

import contextlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Final

from litestar import Controller, post, put
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import CHANGE_ERRORS, FORM_ERRORS
from api.http.errors import ApiError, documented, invalid
from api.http.multipart_schemas import FileForm, PosterForm, video_form
from api.http.parameters import missing, still_there
from api.intake.upload_intake import (
    MAX_PICTURE,
    MAX_VIDEO,
    PICTURE_FORM_BYTES,
    VIDEO_FORM_BYTES,
    UploadIntake,
    make_posters,
    most_incoming,
    new_poster_folder,
    put_posters,
    received_file,
    token_holders,
)
from api.library.lookup import PROJECT
from api.library.quotas import ProjectQuotas
from api.schemas.timestamps import parse_timestamp
from api.uploads.replace_file import replace_from_form
from api.uploads.video_form import receive_video_form
from api.videos.lookup import VIDEO
from api.videos.presenter import VideoPresenter
from api.videos.schemas import TEXTS, VideoAdded, VideoChanged
from storage.catalog import Catalog
from storage.catalog.records.common import ProjectRecord
from storage.catalog.records.videos import NewVideo, VideoFile, WholeVideo
from storage.errors import FileChanged, NoFormerFile
from storage.file_intake import FileFacts
from storage.objects import addresses
from storage.objects.base import ObjectError

_NO_MOMENT: Final = "The uploaded_at must be a moment like 2026-01-31T12:00:00.123456Z."

UploadedAt = Annotated[
    str | None,
    QueryParameter(
        description="Only if this is the video's `uploaded_at`; 409 if it has another file by now.",
        schema_extra={"type": "string", "one_of": None},
    ),
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
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        intake: NamedDependency[UploadIntake],
        quotas: NamedDependency[ProjectQuotas],
        clock_us: NamedDependency[Callable[[], int]],
    ) -> VideoAdded:
        """Receive a file and transcode it; progress is published on the web socket."""
        caller = request.auth.id

        async def add(arrived: NewVideo) -> WholeVideo:
            return await catalog.videos.add(project.id, arrived, clock_us(), by=caller)

        async with quotas.adding_file(project.id, most_incoming(request, intake.max_video)):
            whole = await receive_video_form(
                request,
                catalog,
                intake,
                holders=token_holders(caller, project.id),
                most=intake.max_video,
                add=add,
            )
        return video_presenter.added(whole)


class VideoFilesController(Controller):
    """The files of an existing video."""

    path = "/videos/{video_id:str}"
    tags = ("videos",)
    dependencies = VIDEO

    @put(
        "/file",
        guards=[needs_write],
        request_max_body_size=MAX_VIDEO + VIDEO_FORM_BYTES,
        operation_class=FileForm,
        summary="Replace a video's file",
        responses=documented(*FORM_ERRORS, HTTPStatus.CONFLICT),
    )
    async def replace_file(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        intake: NamedDependency[UploadIntake],
        quotas: NamedDependency[ProjectQuotas],
        clock_us: NamedDependency[Callable[[], int]],
    ) -> VideoChanged:
        """Receive another file for a video; the old file plays until the new one is transcoded.

        Larger files come as resumable uploads that name the video (`replaces`).
        """
        caller = request.auth.id
        number, project = video.video.id, video.video.project

        async def record(file: VideoFile) -> tuple[WholeVideo, str | None] | None:
            return await catalog.videos.replace(number, file, clock_us(), by=caller)

        async with quotas.adding_file(project, most_incoming(request, intake.max_video)):
            whole = await replace_from_form(
                request,
                intake,
                video.video,
                most=intake.max_video,
                holders=token_holders(caller, project),
                record=record,
            )
        return VideoChanged(message="File replaced.", video=video_presenter.full(whole))

    @post(
        "/restore-file",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Take a video's former file back",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def restore_file(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        intake: NamedDependency[UploadIntake],
        quotas: NamedDependency[ProjectQuotas],
        now_us: NamedDependency[int],
        uploaded_at: UploadedAt = None,
    ) -> VideoChanged:
        """Give a video the file again that it had before its present one, for seven days.

        The present file becomes the former one, so that doing it twice changes nothing. What plays
        stays until all of the file is transcoded, which counts for the quota of minutes. A
        recording that was replaced has no former file.
        """
        uploaded_us = None if uploaded_at is None else parse_timestamp(uploaded_at)
        if uploaded_at is not None and uploaded_us is None:
            raise invalid({"uploaded_at": [_NO_MOMENT]})
        number = video.video.id
        former = await catalog.former_files.find(number, now_us)
        if former is None or await intake.objects.stat(former.file.source) is None:
            raise _no_former_file()
        try:
            async with quotas.taking_back(video.video.project):
                whole = await catalog.former_files.take_back(
                    number, now_us, by=request.auth.id, uploaded_us=uploaded_us
                )
        except NoFormerFile as error:
            raise _no_former_file() from error
        except FileChanged as error:
            message = "The video has another file meanwhile: look at it again."
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        message = "The former file is back."
        return VideoChanged(
            message=message, video=video_presenter.full(still_there(whole, "video"))
        )

    @put(
        "/poster",
        guards=[needs_write],
        request_max_body_size=PICTURE_FORM_BYTES,
        operation_class=PosterForm,
        summary="Give a video a poster",
        responses=documented(*FORM_ERRORS),
    )
    async def put_poster(
        self,
        request: ApiRequest,
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        intake: NamedDependency[UploadIntake],
        clock_us: NamedDependency[Callable[[], int]],
    ) -> VideoChanged:
        """Show a picture of the owner's before the video plays; it replaces all posters."""
        record, objects, caller = video.video, intake.objects, request.auth.id
        async with received_file(
            request,
            intake,
            "poster",
            most=MAX_PICTURE,
            holders=token_holders(caller, record.project),
        ) as picture:
            facts = FileFacts(length_us=record.length_us, width=record.width, height=record.height)
            posters = await make_posters(intake, picture, facts)
            folder = new_poster_folder()
            try:
                await put_posters(objects, record.hash, folder, posters)
                changed = await catalog.videos.set_posters(
                    record.id, folder, tuple(posters), clock_us(), by=caller
                )
            except ObjectError:
                # After an error of the catalog they may be shown: then the cleanup of orphans
                # decides.
                await objects.delete_tree(addresses.video_folder(record.hash, folder))
                raise
            # What cannot be deleted now is deleted later (`storage.cleanup.removals`), or, if there
            # is no such video any more, by the cleanup of orphans.
            if changed is None:
                with contextlib.suppress(ObjectError):
                    await objects.delete_tree(addresses.video(record.hash))
                raise missing("video")
            whole, old_folder = changed
            if old_folder is not None:
                with contextlib.suppress(ObjectError):
                    await objects.delete_tree(addresses.video_folder(record.hash, old_folder))
        return VideoChanged(message="Video updated.", video=video_presenter.full(whole))


def _no_former_file() -> ApiError:
    message = "There is no former file: it was not replaced within the last seven days."
    return ApiError(HTTPStatus.CONFLICT, message)
