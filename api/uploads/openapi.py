"""Resumable uploads in the OpenAPI document: the headers of tus 1.0.

The document lists the headers and their values. Rules between requests, such as matching offsets,
are the protocol's and are explained in the docs.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from litestar.datastructures import ResponseHeader
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Parameter,
    RequestBody,
    Schema,
)

from api.http.errors import ErrorBody, documented
from api.http.openapi import operation_taking
from api.http.tus import ALGORITHMS, CHECKSUM_MISMATCH, OFFSET_STREAM, VERSION
from api.videos.schemas import TEXTS

OVERRIDE: Final = "X-HTTP-Method-Override"
_BYTES: Final = Schema(type=OpenAPIType.INTEGER, minimum=0)
_RESUMABLE: Final = Parameter(
    name="Tus-Resumable",
    param_in="header",
    schema=Schema(type=OpenAPIType.STRING, enum=[VERSION]),
    required=True,
    description="The version of tus that the client speaks.",
)


def _header(name: str, schema: Schema, description: str, *, required: bool = False) -> Parameter:
    return Parameter(
        name=name, param_in="header", schema=schema, required=required, description=description
    )


_LENGTH: Final = _header("Upload-Length", _BYTES, "How many bytes the file has.")
_DEFERRED: Final = _header(
    "Upload-Defer-Length",
    Schema(type=OpenAPIType.STRING, enum=["1"]),
    "Instead of Upload-Length: the length is sent with a later request.",
)
_METADATA: Final = _header(
    "Upload-Metadata",
    Schema(type=OpenAPIType.STRING),
    "Pairs of a key and its value in base64, between commas: "
    f"{', '.join(['filename', *TEXTS])}; or filename and replaces, "
    "the number of the video of this project whose file is replaced.",
)
_OFFSET: Final = _header(
    "Upload-Offset",
    _BYTES,
    "The number of bytes received so far, where these begin.",
    required=True,
)
_METHOD: Final = _header(
    OVERRIDE,
    Schema(type=OpenAPIType.STRING, enum=["PATCH", "DELETE"]),
    "The method that is meant, for clients that know none but POST.",
    required=True,
)
_CHECKSUM: Final = _header(
    "Upload-Checksum",
    Schema(type=OpenAPIType.STRING),
    f"An algorithm ({', '.join(ALGORITHMS)}) and the digest of the body in base64.",
)
_BODY: Final = RequestBody(
    content={
        OFFSET_STREAM: OpenAPIMediaType(
            schema=Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
        )
    },
    required=False,
)


# The creation, whose optional body is the first bytes; appending; reading the offset, and ending an
# upload; a POST that stands for another method.
CreateOperation: Final = operation_taking(
    _BODY, _RESUMABLE, _LENGTH, _DEFERRED, _METADATA, _CHECKSUM
)
AppendOperation: Final = operation_taking(_BODY, _RESUMABLE, _OFFSET, _LENGTH, _CHECKSUM)
UploadStateOperation: Final = operation_taking(None, _RESUMABLE)
OverrideOperation: Final = operation_taking(
    _BODY, _RESUMABLE, _METHOD, replace(_OFFSET, required=False), _LENGTH, _CHECKSUM
)

_READ: Final = (HTTPStatus.NOT_FOUND,)
_CHANGE: Final = (*_READ, HTTPStatus.FORBIDDEN, HTTPStatus.LOCKED, HTTPStatus.PRECONDITION_FAILED)
_BODY_ERRORS: Final = (
    *_CHANGE,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.GONE,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_MISMATCH: Final = ResponseSpec(
    ErrorBody,
    description="The bytes do not match Upload-Checksum; none were kept",
    generate_examples=False,
)
SHOW_ERRORS: Final = documented(*_READ)
STATE_ERRORS: Final = documented(*_CHANGE, HTTPStatus.GONE)
CREATE_ERRORS: Final = {**documented(*_BODY_ERRORS), CHECKSUM_MISMATCH: _MISMATCH}
APPEND_ERRORS: Final = CREATE_ERRORS
OVERRIDE_ERRORS: Final = {
    **documented(*_BODY_ERRORS, HTTPStatus.METHOD_NOT_ALLOWED),
    **CREATE_ERRORS,
}
LOCATION: Final = ResponseHeader(
    name="Location", documentation_only=True, description="The address of the upload."
)
OFFSET: Final = ResponseHeader(
    name="Upload-Offset", documentation_only=True, description="How many bytes are safe."
)
