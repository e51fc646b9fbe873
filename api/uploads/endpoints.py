"""Resumable uploads: the operations of tus 1.0 below a project's `uploads`, and through a link.

They are the protocol's; our description says of them what it can (`api.uploads.openapi`). A video
is there from the creation on, in the state `uploading`; the last byte makes it a video like any
other. An upload that `replaces` a video's file leaves that video as it is until its own last byte.
How one begins is in `api.uploads.creation`.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, Response, delete, get, head, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from api.http.auth import needs_write
from api.http.errors import ApiError
from api.http.tus import format_expiry, read_patch, require_version
from api.library.projects import ProjectId, project_of
from api.schemas.presenter import Presenter
from api.schemas.timestamps import format_timestamp
from api.schemas.urls import Addresses
from api.uploads import openapi as upload_openapi
from api.uploads.creation import begin
from api.uploads.receiver import Receiver, gone
from api.uploads.single_request import Intake, announced, guarded
from storage.catalog import Catalog
from storage.catalog.records.common import Principal
from storage.catalog.records.uploads import UploadRecord

__all__ = ["HANDLERS", "PATHS", "UploadShown", "override", "shown", "told"]

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application
_UPLOADS: Final = "/projects/{project_id:str}/uploads"
_ONE: Final = "/projects/{project_id:str}/uploads/{upload_name:str}"
PATHS: Final = (_UPLOADS, _ONE)


class UploadedTo(msgspec.Struct, frozen=True, kw_only=True):
    """The video that an upload is to be, or whose file it replaces."""

    id: int
    hash: str


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A resumable upload: `offset` of its `length` bytes are safe; null is not known yet.

    It is done once its video has its file.
    """

    offset: int
    length: int | None
    done: bool
    expires_at: str
    video: UploadedTo


class UploadShown(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a look at an upload."""

    data: Upload


def told(record: UploadRecord) -> dict[str, str]:
    """Return what headers say of an upload."""
    headers = {
        "Upload-Offset": str(record.received),
        "Headend-Video-Id": str(record.video),
        "Headend-Video-Hash": record.hash,
    }
    if record.length is None:
        headers["Upload-Defer-Length"] = "1"
    else:
        headers["Upload-Length"] = str(record.length)
    if record.metadata:
        headers["Upload-Metadata"] = record.metadata
    if not record.done:
        headers["Upload-Expires"] = format_expiry(record.expires_us)
    return headers


def shown(record: UploadRecord) -> UploadShown:
    """Return an upload as a look at it is answered."""
    return UploadShown(
        data=Upload(
            offset=record.received,
            length=record.length,
            done=record.done,
            expires_at=format_timestamp(record.expires_us),
            video=UploadedTo(id=record.video, hash=record.hash),
        )
    )


def override(request: Request[Any, Any, Any]) -> str:
    """Return the method that a POST stands for, as clients write it that know no other.

    Raises:
        ApiError: 405 for one that is none of an upload's.
    """
    method = request.headers.get(upload_openapi.OVERRIDE, "").upper()
    if method not in ("PATCH", "DELETE"):
        raise ApiError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "This address does not take that method.",
            headers={"Allow": "DELETE, GET, HEAD, OPTIONS, PATCH"},
        )
    return method


async def _found(
    catalog: Catalog, caller: Principal, project_id: str, upload_name: str
) -> UploadRecord:
    project = await project_of(catalog, caller, project_id)
    found = await catalog.uploads.find(upload_name)
    if found is None or found.project != project.id:
        raise gone()
    return found


def _receiver(
    request: Call, catalog: Catalog, intake: Intake, clock_us: Callable[[], int]
) -> Receiver:
    number = request.auth.id
    return Receiver(
        uploads=catalog.uploads, intake=intake, clock_us=clock_us, caller=number, by=number
    )


def _address(addresses: Addresses, project: str, name: str) -> str:
    return f"{addresses.http}/api/projects/{project}/uploads/{name}"


@post(
    _UPLOADS,
    guards=[needs_write],
    request_max_body_size=None,
    operation_class=upload_openapi.Creating,
    summary="Begin a resumable upload",
    tags=["uploads"],
    response_headers=[upload_openapi.LOCATION, upload_openapi.OFFSET],
    responses=upload_openapi.CREATING,
)
async def create_upload(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[None]:
    """Begin an upload."""
    project = await project_of(catalog, request.auth, project_id)
    receiver = _receiver(request, catalog, intake, clock_us)
    record = await begin(request, catalog, receiver, project.id)
    where = _address(presenter.addresses, project.key, record.name)
    return Response(
        None, status_code=HTTPStatus.CREATED, headers={**told(record), "Location": where}
    )


@head(
    _ONE,
    guards=[needs_write],
    operation_class=upload_openapi.Asking,
    summary="Ask where an upload is to go on",
    tags=["uploads"],
    response_headers=[upload_openapi.OFFSET],
    responses=upload_openapi.ASKING,
)
async def ask_offset(
    request: Call,
    project_id: ProjectId,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[None]:
    """Tell where an upload is to go on; whoever still sends to it is told to stop."""
    found = await _found(catalog, request.auth, project_id, upload_name)
    require_version(request.headers)
    receiver = _receiver(request, catalog, intake, clock_us)
    return Response(None, headers=told(await receiver.offset(found.name)))


@get(_ONE, summary="Show how far an upload is", tags=["uploads"], responses=upload_openapi.SHOWING)
async def show_upload(
    request: Call,
    project_id: ProjectId,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
) -> UploadShown:
    """Show how far an upload is."""
    return shown(await _found(catalog, request.auth, project_id, upload_name))


@patch(
    _ONE,
    guards=[needs_write],
    request_max_body_size=None,
    status_code=HTTPStatus.NO_CONTENT,
    operation_class=upload_openapi.Appending,
    summary="Append to an upload",
    tags=["uploads"],
    response_headers=[upload_openapi.OFFSET],
    responses=upload_openapi.APPENDING,
)
async def append(
    request: Call,
    project_id: ProjectId,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[None]:
    """Take bytes that go behind those that came."""
    found = await _found(catalog, request.auth, project_id, upload_name)
    return await appended(request, _receiver(request, catalog, intake, clock_us), found)


async def appended(
    request: Request[Any, Any, Any],  # Any: as above
    receiver: Receiver,
    found: UploadRecord,
) -> Response[None]:
    """Take bytes of an upload.

    Raises:
        ApiError: as in `Receiver.receive`, and as headers are read.
    """
    require_version(request.headers)
    what = read_patch(request.headers, found.most_bytes)
    coming = announced(request)
    length = what.length if found.length is None else found.length
    if length is not None and coming is not None and what.offset + coming > length:
        message = f"This upload has {length} bytes: there is no room behind {what.offset} for that."
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    guarded(receiver.intake, coming)
    record = await receiver.receive(found.name, what, request.receive)
    return Response(None, status_code=HTTPStatus.NO_CONTENT, headers=told(record))


@delete(
    _ONE,
    guards=[needs_write],
    operation_class=upload_openapi.Asking,
    summary="End an upload",
    tags=["uploads"],
    responses=upload_openapi.ASKING,
)
async def end_upload(
    request: Call,
    project_id: ProjectId,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> None:
    """End an upload: its bytes and its video go; a video that has a file stays."""
    found = await _found(catalog, request.auth, project_id, upload_name)
    require_version(request.headers)
    await _receiver(request, catalog, intake, clock_us).end(found.name)


@post(
    _ONE,
    guards=[needs_write],
    request_max_body_size=None,
    status_code=HTTPStatus.NO_CONTENT,
    operation_class=upload_openapi.Overriding,
    summary="Append to an upload, or end it, by POST",
    tags=["uploads"],
    responses=upload_openapi.OVERRIDING,
)
async def other_method(
    request: Call,
    project_id: ProjectId,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[None]:
    """Do what the header that names another method says."""
    found = await _found(catalog, request.auth, project_id, upload_name)
    receiver = _receiver(request, catalog, intake, clock_us)
    return await overridden(request, receiver, found)


async def overridden(
    request: Request[Any, Any, Any],  # Any: as above
    receiver: Receiver,
    found: UploadRecord,
) -> Response[None]:
    """Do what a POST stands for.

    Raises:
        ApiError: as the method that it stands for.
    """
    if override(request) == "PATCH":
        return await appended(request, receiver, found)
    require_version(request.headers)
    await receiver.end(found.name)
    return Response(None, status_code=HTTPStatus.NO_CONTENT)


HANDLERS: Final = (create_upload, ask_offset, show_upload, append, end_upload, other_method)
