"""What the API's description says of resumable uploads: their headers, which are all of tus 1.0.

A description can say which headers there are and what each may hold; that offsets must agree with
what came before is the protocol's, and the pages' to tell.
"""

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from litestar.datastructures import ResponseHeader
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)

from api.http.errors import ErrorBody, documented
from api.http.tus import ALGORITHMS, CHECKSUM_MISMATCH, OFFSET_STREAM, VERSION

__all__ = [
    "APPENDING",
    "ASKING",
    "CREATING",
    "LOCATION",
    "OFFSET",
    "OVERRIDE",
    "OVERRIDING",
    "SHOWING",
    "Appending",
    "Asking",
    "Creating",
    "Overriding",
]

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
    "Instead of Upload-Length: it is told with later bytes.",
)
_METADATA: Final = _header(
    "Upload-Metadata",
    Schema(type=OpenAPIType.STRING),
    "Pairs of a key and its value in base64, between commas: filename, title, description; or "
    "filename and replaces, the number of the video of this project whose file is replaced.",
)
_OFFSET: Final = _header(
    "Upload-Offset", _BYTES, "Behind how many bytes these go: as many as came.", required=True
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


def _add(operation: Operation, *parameters: Parameter) -> None:
    operation.parameters = [*(operation.parameters or ()), _RESUMABLE, *parameters]


@dataclass  # without it, the parent's generated __init__ knows of no __post_init__
class Creating(Operation):
    """An upload begins."""

    def __post_init__(self) -> None:
        """Describe the headers, and the body: first bytes, where they come with it."""
        _add(self, _LENGTH, _DEFERRED, _METADATA, _CHECKSUM)
        self.request_body = _BODY


@dataclass  # as above
class Appending(Operation):
    """Bytes are appended."""

    def __post_init__(self) -> None:
        """Describe the headers and the body."""
        _add(self, _OFFSET, _LENGTH, _CHECKSUM)
        self.request_body = _BODY


@dataclass  # as above
class Asking(Operation):
    """An upload is asked about, or ended."""

    def __post_init__(self) -> None:
        """Describe the header."""
        _add(self)


@dataclass  # as above
class Overriding(Operation):
    """A POST that stands for another method."""

    def __post_init__(self) -> None:
        """Describe the headers and the body."""
        _add(self, _METHOD, replace(_OFFSET, required=False), _LENGTH, _CHECKSUM)
        self.request_body = _BODY


_KNOWN: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
_ENDED: Final = (*_KNOWN, HTTPStatus.FORBIDDEN, HTTPStatus.LOCKED, HTTPStatus.PRECONDITION_FAILED)
_TAKEN: Final = (
    *_ENDED,
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.GONE,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_MISMATCH: Final = ResponseSpec(
    ErrorBody,
    description="The bytes do not come to Upload-Checksum: none of them was kept",
    generate_examples=False,
)
SHOWING: Final = documented(*_KNOWN)
ASKING: Final = documented(*_ENDED, HTTPStatus.GONE)
CREATING: Final = {**documented(*_TAKEN), CHECKSUM_MISMATCH: _MISMATCH}
APPENDING: Final = CREATING
OVERRIDING: Final = {**documented(*_TAKEN, HTTPStatus.METHOD_NOT_ALLOWED), **CREATING}
LOCATION: Final = ResponseHeader(
    name="Location", documentation_only=True, description="The address of the upload."
)
OFFSET: Final = ResponseHeader(
    name="Upload-Offset", documentation_only=True, description="How many bytes are safe."
)
