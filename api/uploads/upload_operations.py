"""The operations of tus 1.0 on one upload, for the controllers that look it up.

A controller inherits them and provides `upload` and `receiver`. They follow the protocol; their
headers are described in `api.uploads.openapi`.
"""

from http import HTTPStatus
from typing import Any

from litestar import Controller, Request, Response, delete, get, head, patch, post
from litestar.di import NamedDependency

from api.http.errors import ApiError
from api.http.tus import read_patch, require_version
from api.intake.upload_intake import content_length, require_room
from api.uploads import openapi
from api.uploads.presenter import present_upload, upload_headers
from api.uploads.receiver import UploadReceiver
from api.uploads.schemas import UploadShown
from storage.catalog.records.uploads import UploadRecord

AnyRequest = Request[
    Any, Any, Any
]  # Any: a token's bearer or a link, and what Litestar leaves open


class UploadOperations(Controller):
    """The operations on one upload."""

    @head(
        operation_class=openapi.UploadStateOperation,
        summary="Read the offset of an upload",
        response_headers=[openapi.OFFSET],
        responses=openapi.STATE_ERRORS,
    )
    async def ask_offset(
        self,
        request: AnyRequest,
        upload: NamedDependency[UploadRecord],
        receiver: NamedDependency[UploadReceiver],
    ) -> Response[None]:
        """Return the offset at which to continue; a request that is still appending is stopped."""
        require_version(request.headers)
        return Response(None, headers=upload_headers(await receiver.offset(upload.name)))

    @get(summary="Show how far an upload is", responses=openapi.SHOW_ERRORS)
    async def show_upload(self, upload: NamedDependency[UploadRecord]) -> UploadShown:
        """Show how far an upload is."""
        return present_upload(upload)

    @patch(
        request_max_body_size=None,
        status_code=HTTPStatus.NO_CONTENT,
        operation_class=openapi.AppendOperation,
        summary="Append to an upload",
        response_headers=[openapi.OFFSET],
        responses=openapi.APPEND_ERRORS,
    )
    async def append(
        self,
        request: AnyRequest,
        upload: NamedDependency[UploadRecord],
        receiver: NamedDependency[UploadReceiver],
    ) -> Response[None]:
        """Append bytes at the upload's offset."""
        return await _append(request, upload, receiver)

    @delete(
        operation_class=openapi.UploadStateOperation,
        summary="End an upload",
        responses=openapi.STATE_ERRORS,
    )
    async def end_upload(
        self,
        request: AnyRequest,
        upload: NamedDependency[UploadRecord],
        receiver: NamedDependency[UploadReceiver],
    ) -> None:
        """End an upload: its bytes and its video go; a video that has a file stays."""
        require_version(request.headers)
        await receiver.end(upload.name)

    @post(
        request_max_body_size=None,
        status_code=HTTPStatus.NO_CONTENT,
        operation_class=openapi.OverrideOperation,
        summary="Append to an upload, or end it, by POST",
        responses=openapi.OVERRIDE_ERRORS,
    )
    async def other_method(
        self,
        request: AnyRequest,
        upload: NamedDependency[UploadRecord],
        receiver: NamedDependency[UploadReceiver],
    ) -> Response[None]:
        """Run the method named in `X-HTTP-Method-Override`."""
        if _overridden_method(request) == "PATCH":
            return await _append(request, upload, receiver)
        require_version(request.headers)
        await receiver.end(upload.name)
        return Response(None, status_code=HTTPStatus.NO_CONTENT)


def _overridden_method(request: AnyRequest) -> str:
    """Return the method that a POST stands for, sent by clients that have no other method.

    Raises:
        ApiError: 405 for a method that uploads do not have.
    """
    method = request.headers.get(openapi.OVERRIDE, "").upper()
    if method not in ("PATCH", "DELETE"):
        raise ApiError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "This address does not take that method.",
            headers={"Allow": "DELETE, GET, HEAD, OPTIONS, PATCH"},
        )
    return method


async def _append(
    request: AnyRequest, upload: UploadRecord, receiver: UploadReceiver
) -> Response[None]:
    require_version(request.headers)
    patch = read_patch(request.headers, upload.most_bytes)
    incoming = content_length(request)
    length = patch.length if upload.length is None else upload.length
    if length is not None and incoming is not None and patch.offset + incoming > length:
        message = (
            f"This upload has {length} bytes: those of this request do not fit after offset "
            f"{patch.offset}."
        )
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    await require_room(receiver.intake, incoming)
    record = await receiver.receive(upload.name, patch, request.receive)
    return Response(None, status_code=HTTPStatus.NO_CONTENT, headers=upload_headers(record))
