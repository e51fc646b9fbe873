"""Error responses: one shape for every error of the API.

`{"message": "...", "errors": {"field": ["..."]}}`, with `errors` only if fields are invalid. No
internals are shown: no traceback, no SQL, no file path. An internal error gets an id that appears
in the log and in the response, and nothing else.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Self

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException
from litestar.openapi.datastructures import ResponseSpec

from storage.errors import CatalogBusy, CatalogUnavailable, NameTaken, NoSuchLabel, NoSuchProject

log = logging.getLogger(__name__)

FieldErrors = Mapping[str, Sequence[str]]
# Of a body with ten thousand invalid keys, only the first are reported.
_MAX_FIELDS: Final = 50
_MAX_NAME: Final = 100
_RETRY_SECONDS: Final = 2
# Possible responses to any request under /api.
_OF_ALL: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
# Kinds of linked records whose key in a body differs from the name of the kind.
_LINKS: Final = {"tag": "tags"}

# Replace Litestar's own messages, which reveal our code.
_MESSAGES: Final = {
    HTTPStatus.BAD_REQUEST: "The request could not be understood.",
    HTTPStatus.NOT_FOUND: "There is nothing at this address.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address does not take that method.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body must be JSON (Content-Type: application/json).",
    HTTPStatus.SERVICE_UNAVAILABLE: "The service is busy; try again in a moment.",
}


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every failing operation answers."""

    message: str
    errors: dict[str, list[str]] | msgspec.UnsetType = msgspec.UNSET


class ApiError(HTTPException):
    """An error whose message is meant for the caller."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        errors: FieldErrors | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail=message, status_code=status, headers=headers)
        self.errors = errors


@asynccontextmanager
async def receiving_body(seconds: float) -> AsyncGenerator[None, None]:
    """Limit the time in which the block waits for a request's body, or for a piece of it.

    Raises:
        ApiError: 408 if it does not arrive in time, 400 if it breaks off.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise ApiError(
            HTTPStatus.REQUEST_TIMEOUT,
            "The body came too slowly.",
            headers={"Connection": "close"},
        ) from error
    except InternalServerException as error:
        # Raised by Litestar when the client disconnects: not our error.
        raise ApiError(HTTPStatus.BAD_REQUEST, "The body broke off.") from error


def unavailable(message: str, seconds: int) -> ApiError:
    """Return the 503 error of a request that may succeed after some seconds."""
    headers = {"Retry-After": str(seconds)}
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, message, headers=headers)


def invalid(errors: FieldErrors) -> ApiError:
    """Return the 422 error of a request with these invalid fields."""
    few = {name[:_MAX_NAME]: texts for name, texts in list(errors.items())[:_MAX_FIELDS]}
    message = f"The request is not valid: see {', '.join(few)}."
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, message, errors=few)


class _SharedSpec(ResponseSpec):
    """A response description that all operations share, since none changes it.

    Litestar copies each operation with its descriptions for each application. Without sharing, the
    copies took a quarter of the time to build one.
    """

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def documented(*statuses: HTTPStatus) -> dict[int, ResponseSpec]:
    """Return the OpenAPI description of the errors of an operation, with the common ones."""
    return {
        int(status): _SharedSpec(ErrorBody, description=status.phrase, generate_examples=False)
        for status in sorted({*statuses, *_OF_ALL})
    }


def _answer(
    status: int,
    message: str,
    errors: FieldErrors | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response[ErrorBody]:
    fields = {name: list(texts) for name, texts in errors.items()} if errors else msgspec.UNSET
    return Response(
        ErrorBody(message=message, errors=fields),
        status_code=status,
        # A path that is wrong now may exist in a moment, so errors are not cached.
        headers={"Cache-Control": "no-store", **(headers or {})},
        media_type="application/json",
    )


def _refused(request: Request[Any, Any, Any], error: HTTPException) -> Response[ErrorBody]:
    """Answer an error with a status: ours with its message, Litestar's with a general one."""
    if isinstance(error, ApiError):
        return _answer(error.status_code, error.detail, error.errors, error.headers)
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _failed(request, error)
    status = HTTPStatus(error.status_code)
    return _answer(status, _MESSAGES.get(status, status.phrase + "."), None, error.headers)


def _unavailable(
    request: Request[Any, Any, Any], error: CatalogBusy | CatalogUnavailable
) -> Response[ErrorBody]:
    log.warning(
        "request not served",
        extra={"method": request.method, "path": _path(request), "reason": str(error)},
    )
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return _answer(status, _MESSAGES[status], headers={"Retry-After": str(_RETRY_SECONDS)})


def _path(request: Request[Any, Any, Any]) -> str:
    """Return the path of a request for the log, without its secret part."""
    secret = str(request.path_params.get("link_secret", ""))
    return request.url.path.replace(secret, "...") if secret else request.url.path


def _project_deleted(
    _request: Request[Any, Any, Any], _error: NoSuchProject
) -> Response[ErrorBody]:
    """Answer if a project was deleted between its lookup and the write."""
    return _answer(HTTPStatus.NOT_FOUND, "There is no such project.")


def _name_taken(_request: Request[Any, Any, Any], error: NameTaken) -> Response[ErrorBody]:
    message = f"There is a {error.kind} of this name already."
    return _answer(HTTPStatus.CONFLICT, message, {"name": [message]})


def _unlinked(_request: Request[Any, Any, Any], error: NoSuchLabel) -> Response[ErrorBody]:
    """Answer a body that refers to a tag, category or player which its project lacks."""
    field = _LINKS.get(error.kind, error.kind)
    refusal = invalid({field: [f"There is no {error.kind} {error.number} in this project."]})
    return _answer(refusal.status_code, refusal.detail, refusal.errors)


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    """Answer an internal error; its traceback is logged under the id in the response."""
    number = secrets.token_hex(6)
    log.error(
        "request failed",
        extra={"error": number, "method": request.method, "path": _path(request)},
        exc_info=error,
    )
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"Something went wrong here: {number}.")


# Any: Litestar's own type. Each handler accepts its own exceptions only.
HANDLERS: Final[
    dict[int | type[Exception], Callable[[Request[Any, Any, Any], Any], Response[Any]]]
] = {
    HTTPException: _refused,
    CatalogBusy: _unavailable,
    CatalogUnavailable: _unavailable,
    NoSuchProject: _project_deleted,
    NameTaken: _name_taken,
    NoSuchLabel: _unlinked,
    Exception: _failed,
}
