"""Resumable uploads (tus 1.0) of a project.

The video of an upload exists from its creation on, in the state `uploading`; the last byte turns it
into a video like any other. An upload that `replaces` a video's file leaves that video unchanged
until its last byte.
"""

from typing import Any, Final

from litestar import Controller, Response, post
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath

from api.http.auth import needs_write
from api.http.parameters import missing
from api.intake.upload_intake import GivenIntake, token_holders
from api.library.lookup import PROJECT, ProjectCall
from api.library.quotas import GivenQuotas
from api.uploads import openapi
from api.uploads.creation import create
from api.uploads.receiver import UploadReceiver
from api.uploads.upload_operations import UploadOperations
from storage.catalog.records.uploads import UploadRecord


def provide_receiver(call: ProjectCall, intake: GivenIntake) -> UploadReceiver:
    """Return a receiver that acts for the bearer of the request's token."""
    token = call.caller.id
    return UploadReceiver(
        uploads=call.catalog.uploads,
        intake=intake,
        clock_us=call.now_us,
        holders=token_holders(token, call.record.id),
        by=token,
    )


async def provide_upload(call: ProjectCall, upload_name: FromPath[str]) -> UploadRecord:
    """Return the upload that a path names.

    Raises:
        ApiError: 404 if the project has no such upload.
    """
    upload = await call.catalog.uploads.find(upload_name)
    if upload is None or upload.project != call.record.id:
        raise missing("upload")
    return upload


def needs_write_to_change(
    connection: ASGIConnection[Any, Any, Any, Any],  # Any: what Litestar leaves open
    handler: BaseRouteHandler,
) -> None:
    """Admit only tokens that may write, except to GET and OPTIONS (a guard).

    Raises:
        ApiError: 403 for a token that may only read.
    """
    scope = connection.scope
    if scope["type"] != "http" or scope["method"] not in ("GET", "OPTIONS"):
        needs_write(connection, handler)


_DEPENDENCIES: Final = {
    **PROJECT,
    "upload": Provide(provide_upload),
    "receiver": Provide(provide_receiver, sync_to_thread=False),
}


class ResumableUploadsController(Controller):
    """The resumable uploads of a project."""

    path = "/projects/{project_id:str}/uploads"
    tags = ("uploads",)
    dependencies = _DEPENDENCIES

    @post(
        guards=[needs_write],
        request_max_body_size=None,
        operation_class=openapi.CreateOperation,
        summary="Begin a resumable upload",
        response_headers=[openapi.LOCATION, openapi.OFFSET],
        responses=openapi.CREATE_ERRORS,
    )
    async def create_upload(
        self,
        call: ProjectCall,
        receiver: NamedDependency[UploadReceiver],
        quotas: GivenQuotas,
    ) -> Response[None]:
        """Begin an upload."""
        address = f"{call.addresses.http}/api/projects/{call.record.key}/uploads"
        return await create(
            call.request, call.catalog, receiver, quotas, call.record.id, address=address
        )


class ResumableUploadController(UploadOperations):
    """One resumable upload of a project."""

    path = "/projects/{project_id:str}/uploads/{upload_name:str}"
    tags = ("uploads",)
    guards = (needs_write_to_change,)
    dependencies = _DEPENDENCIES
