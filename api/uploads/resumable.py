"""Resumable uploads (tus 1.0) of a project.

The video of an upload exists from its creation on, in the state `uploading`; the last byte turns it
into a video like any other. An upload that `replaces` a video's file leaves that video unchanged
until its last byte.
"""

from collections.abc import Callable
from typing import Any, Final

from litestar import Controller, Response, post
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath

from api.http.auth import ApiRequest, needs_write
from api.http.parameters import missing
from api.intake.upload_intake import UploadIntake, token_holders
from api.library.lookup import PROJECT
from api.library.quotas import ProjectQuotas
from api.schemas.presenter import Presenter
from api.uploads import openapi
from api.uploads.creation import create
from api.uploads.receiver import UploadReceiver
from api.uploads.upload_operations import UploadOperations
from storage.catalog import Catalog
from storage.catalog.records.common import ProjectRecord
from storage.catalog.records.uploads import UploadRecord


def provide_receiver(
    request: ApiRequest,
    project: NamedDependency[ProjectRecord],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[UploadIntake],
    clock_us: NamedDependency[Callable[[], int]],
) -> UploadReceiver:
    """Return a receiver that acts for the bearer of the request's token."""
    token = request.auth.id
    return UploadReceiver(
        uploads=catalog.uploads,
        intake=intake,
        clock_us=clock_us,
        holders=token_holders(token, project.id),
        by=token,
    )


async def provide_upload(
    project: NamedDependency[ProjectRecord],
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
) -> UploadRecord:
    """Return the upload that a path names.

    Raises:
        ApiError: 404 if the project has no such upload.
    """
    upload = await catalog.uploads.find(upload_name)
    if upload is None or upload.project != project.id:
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
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        receiver: NamedDependency[UploadReceiver],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        quotas: NamedDependency[ProjectQuotas],
    ) -> Response[None]:
        """Begin an upload."""
        address = f"{presenter.addresses.http}/api/projects/{project.key}/uploads"
        return await create(request, catalog, receiver, quotas, project.id, address=address)


class ResumableUploadController(UploadOperations):
    """One resumable upload of a project."""

    path = "/projects/{project_id:str}/uploads/{upload_name:str}"
    tags = ("uploads",)
    guards = (needs_write_to_change,)
    dependencies = _DEPENDENCIES
