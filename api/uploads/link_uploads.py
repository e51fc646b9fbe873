"""Uploads through an upload link, which take no token.

A link permits uploading one file: as a resumable upload (tus 1.0), which can then be resumed until
it expires, or as one form. That creates a video, or replaces the file of the video that the link is
for, and uses the link up. Links are made in `api.uploads.link_records`.
"""

from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Controller, Request, Response, post
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath

from api.http.auth import Guard
from api.http.browser_headers import is_upload_options
from api.http.caller_limits import UNLIMITED, CallerRateLimiter
from api.http.errors import ApiError
from api.http.operation import Services
from api.http.parameters import missing
from api.intake.upload_intake import VIDEO_FORM_BYTES, GivenIntake, link_holders, most_incoming
from api.library.quotas import GivenQuotas
from api.uploads.creation import create
from api.uploads.receiver import UploadReceiver
from api.uploads.replace_file import replace_from_form
from api.uploads.schemas import LinkedVideo, LinkUsed
from api.uploads.upload_operations import UploadOperations
from api.uploads.video_form import receive_video_form
from storage.catalog import Catalog
from storage.catalog.records.uploads import LinkRecord, UploadRecord
from storage.catalog.records.videos import NewVideo, VideoFile, WholeVideo
from storage.errors import UploadLinkSpent

# A request that passed `needs_link`. Any: what Litestar leaves open to every application.
LinkRequest = Request[Any, LinkRecord, Any]
_MULTIPART: Final = "multipart/form-data"


def needs_link(catalog: Catalog, callers: CallerRateLimiter | None = None) -> Guard:
    """Return the guard that admits requests with a link's secret; `request.auth` is then the link.

    Wrong secrets count as wrong tokens do.
    """
    counted = callers or CallerRateLimiter(UNLIMITED)

    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
    ) -> None:
        if is_upload_options(connection.scope):
            return
        secret = str(connection.path_params["link_secret"])
        link = await catalog.links.find(secret)
        if link is None:
            counted.count_unauthenticated(counted.address_of(connection.scope))
            raise missing("upload link")
        connection.scope["auth"] = link
        counted.count(-link.id)

    return guard


def provide_receiver(
    request: LinkRequest, services: NamedDependency[Services], intake: GivenIntake
) -> UploadReceiver:
    """Return a receiver that acts for the user of a link."""
    return UploadReceiver(
        uploads=services.catalog.uploads,
        intake=intake,
        clock_us=services.clock_us,
        holders=link_holders(request.auth),
        by=None,
    )


async def provide_upload(
    request: LinkRequest, upload_name: FromPath[str], services: NamedDependency[Services]
) -> UploadRecord:
    """Return the upload that a path names.

    Raises:
        ApiError: 404 if there is no such upload through this link.
    """
    upload = await services.catalog.uploads.find(upload_name)
    if upload is None or upload.link != request.auth.id:
        raise missing("upload")
    return upload


_DEPENDENCIES: Final = {
    "upload": Provide(provide_upload),
    "receiver": Provide(provide_receiver, sync_to_thread=False),
}


class LinkController(Controller):
    """The address of an upload link."""

    path = "/upload-links/{link_secret:str}"
    dependencies = _DEPENDENCIES

    @post(request_max_body_size=None, status_code=HTTPStatus.CREATED)
    async def use_link(
        self,
        request: LinkRequest,
        link_secret: FromPath[str],
        receiver: NamedDependency[UploadReceiver],
        services: NamedDependency[Services],
        quotas: GivenQuotas,
    ) -> Response[LinkUsed | None]:
        """Create the upload of a link, or receive its file as one form."""
        link = request.auth
        _require_unused(link, receiver.clock_us())
        if request.content_type[0] == _MULTIPART:
            most = most_incoming(request, _most_bytes(link, receiver))
            async with quotas.adding_file(link.project, most):
                used = await _receive_form(request, services.catalog, receiver)
            return Response(used, status_code=HTTPStatus.CREATED)
        address = f"{services.presenter.addresses.http}/api/upload-links/{link_secret}"
        return await create(
            request, services.catalog, receiver, quotas, link.project, address=address, link=link
        )


class LinkUploadController(UploadOperations):
    """The resumable upload that was created through a link."""

    path = "/upload-links/{link_secret:str}/{upload_name:str}"
    dependencies = _DEPENDENCIES


def _require_unused(link: LinkRecord, now_us: int) -> None:
    """Check that a link can still be used.

    Raises:
        ApiError: 409 if it was used, 410 if it has expired.
    """
    if link.used:
        raise ApiError(HTTPStatus.CONFLICT, "This link was used.")
    if link.expires_us <= now_us:
        raise ApiError(HTTPStatus.GONE, "This upload link has expired.")


def _most_bytes(link: LinkRecord, receiver: UploadReceiver) -> int:
    return min(link.most_bytes, receiver.intake.max_video)


async def _receive_form(
    request: LinkRequest, catalog: Catalog, receiver: UploadReceiver
) -> LinkUsed:
    link = request.auth
    most = _most_bytes(link, receiver)
    if (request.content_length or 0) > most + VIDEO_FORM_BYTES:
        message = f"The video may have at most {most} bytes."
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, errors={"video": [message]})
    if link.video is None:
        message, whole = "Video uploaded.", await _add(request, catalog, receiver, most)
    else:
        whole = await _replace(request, catalog, receiver, link.video, most)
        message = "File replaced."
    video = whole.video
    return LinkUsed(
        message=message,
        video=LinkedVideo(id=video.id, hash=video.hash, title=video.title, size=video.size),
    )


async def _add(
    request: LinkRequest, catalog: Catalog, receiver: UploadReceiver, most: int
) -> WholeVideo:
    """Create a video from the file in a form."""
    link = request.auth

    async def add(arrived: NewVideo) -> WholeVideo:
        details = link.wanted.over(arrived.details)
        detailed = msgspec.structs.replace(arrived, details=details)
        return await catalog.uploads.add(link.project, link.id, detailed, receiver.clock_us())

    try:
        return await receive_video_form(
            request, catalog, receiver.intake, holders=receiver.holders, most=most, add=add
        )
    except UploadLinkSpent as error:
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error


async def _replace(
    request: LinkRequest, catalog: Catalog, receiver: UploadReceiver, number: int, most: int
) -> WholeVideo:
    """Replace the file of the video that a link is for with the file in a form."""
    link = request.auth
    found = await catalog.videos.find(number)
    if found is None:
        raise missing("video")
    video = found.video

    async def record(file: VideoFile) -> tuple[WholeVideo, str | None] | None:
        return await catalog.uploads.replace_through(link.id, video.id, file, receiver.clock_us())

    return await replace_from_form(
        request, receiver.intake, video, most=most, holders=receiver.holders, record=record
    )
