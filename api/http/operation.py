"""An operation of the API: how it is declared, and the call that its handler gets.

`Call` holds what almost every handler works with: the caller, the record that the path names, the
catalog, the presenter and the time. The functions below declare the usual kinds of operations, with
the errors that those of one kind have in common; `api.http.errors.documented` adds those that any
operation may answer with (400, 401, 422, 429, 500, 503).
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec
from litestar import delete, get, post, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Operation

from api.http.auth import ApiRequest, needs_all_projects, needs_write
from api.http.errors import ApiError, documented
from api.http.json_body import described, read_body
from api.http.parameters import missing
from api.schemas.presenter import Presenter
from storage.catalog import Catalog
from storage.catalog.records.common import Change, Principal

READ_ERRORS: Final = (HTTPStatus.NOT_FOUND,)
CHANGE_ERRORS: Final = (*READ_ERRORS, HTTPStatus.FORBIDDEN)  # without a body
BODY_ERRORS: Final = (  # with a JSON body
    *CHANGE_ERRORS,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
FORM_ERRORS: Final = (*BODY_ERRORS, HTTPStatus.REQUEST_TIMEOUT)  # with a file

R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Services:
    """What every operation works with; `clock_us` returns the time.

    What callers delete or replace can be restored for `keep_us`.

    This is no msgspec struct because Litestar validates those.
    """

    def __init__(
        self,
        catalog: Catalog,
        presenter: Presenter,
        clock_us: Callable[[], int],
        keep_us: int = 0,
    ) -> None:
        self.catalog = catalog
        self.presenter = presenter
        self.clock_us = clock_us
        self.keep_us = keep_us


class Call(Generic[R]):
    """A request to an operation, by a caller whose token was checked.

    `record` is what the path names, None for a path that names nothing; `noun` says what that is.
    """

    def __init__(self, request: ApiRequest, services: Services, record: R, noun: str) -> None:
        self.request = request
        self.record = record
        self.noun = noun
        self.catalog = services.catalog
        self.presenter = services.presenter
        self.addresses = services.presenter.addresses
        self.now_us = services.clock_us
        self._services = services

    @property
    def caller(self) -> Principal:
        """The bearer of the request's token."""
        return self.request.auth

    def change(self) -> Change:
        """Return a change that the caller makes now."""
        return Change(self.now_us(), by=self.caller.id, keep_us=self._services.keep_us)

    async def body(self, kind: type[S]) -> S:
        """Return the JSON body as a value of `kind`.

        Raises:
            ApiError: as `api.http.json_body.read_body`.
        """
        return await read_body(self.request, kind)

    def to(self, record: T | None, project: int | None, noun: str) -> "Call[T]":
        """Return the call with the record of a project that its path names.

        Raises:
            ApiError: 404 if there is no such record, or if the caller's token does not reach it.
        """
        if record is None or project is None or not self.caller.reaches(project):
            raise missing(noun)
        return Call(self.request, self._services, record, noun)

    def still_there(self, result: T | None) -> T:
        """Return the catalog's result for the record, which existed when the request began.

        Raises:
            ApiError: 404 if it was deleted since.
        """
        if result is None:
            raise missing(self.noun)
        return result

    def missing(self) -> ApiError:
        """Return the 404 error for a record that was deleted since the request began."""
        return missing(self.noun)


PlainCall = NamedDependency[Call[None]]


def provide_plain(request: ApiRequest, services: NamedDependency[Services]) -> Call[None]:
    """Return the call of a path that names no record.

    It is `plain` for the handlers of such paths, and for the providers of calls with a record.
    """
    return Call(request, services, None, "")


def _guards(all_projects: bool) -> list[Any]:  # Any: guards of several types
    return [needs_write, needs_all_projects] if all_projects else [needs_write]


def shows(
    summary: str,
    path: str | None = None,
    *,
    errors: Sequence[HTTPStatus] = (),
    all_projects: bool = False,
) -> HTTPRouteHandler:
    """Declare an operation that shows something; `all_projects` as in `adds`."""
    guards = [needs_all_projects] if all_projects else []
    of_guards = [HTTPStatus.FORBIDDEN] if all_projects else []
    return get(
        path,
        guards=guards,
        summary=summary,
        responses=documented(*READ_ERRORS, *of_guards, *errors),
    )


def adds(
    summary: str,
    body: type[msgspec.Struct],
    path: str | None = None,
    *,
    errors: Sequence[HTTPStatus] = (),
    all_projects: bool = False,
) -> HTTPRouteHandler:
    """Declare an operation that adds what a JSON body describes.

    `all_projects`: it takes a token for all projects.
    """
    return post(
        path,
        guards=_guards(all_projects),
        operation_class=described(body),
        summary=summary,
        responses=documented(*BODY_ERRORS, *errors),
    )


def edits(
    summary: str,
    body: type[msgspec.Struct],
    path: str | None = None,
    *,
    errors: Sequence[HTTPStatus] = (),
    all_projects: bool = False,
) -> HTTPRouteHandler:
    """Declare an operation that changes a record as a JSON body says.

    `all_projects` as in `adds`.
    """
    return put(
        path,
        guards=_guards(all_projects),
        operation_class=described(body),
        summary=summary,
        responses=documented(*BODY_ERRORS, *errors),
    )


def takes_form(
    summary: str,
    form: type[Operation],
    path: str | None = None,
    *,
    most: int,
    errors: Sequence[HTTPStatus] = (),
) -> HTTPRouteHandler:
    """Declare an operation that gives a record a file, in a form of at most `most` bytes."""
    return put(
        path,
        guards=[needs_write],
        request_max_body_size=most,
        operation_class=form,
        summary=summary,
        responses=documented(*FORM_ERRORS, *errors),
    )


def commands(
    summary: str,
    path: str,
    *,
    errors: Sequence[HTTPStatus] = (),
    all_projects: bool = False,
) -> HTTPRouteHandler:
    """Declare an operation that does something with a record, and needs no body.

    `all_projects` as in `adds`.
    """
    return post(
        path,
        guards=_guards(all_projects),
        status_code=HTTPStatus.OK,
        summary=summary,
        responses=documented(*CHANGE_ERRORS, *errors),
    )


def deletes(
    summary: str,
    path: str | None = None,
    *,
    errors: Sequence[HTTPStatus] = (),
    all_projects: bool = False,
) -> HTTPRouteHandler:
    """Declare an operation that deletes a record; `all_projects` as in `adds`."""
    return delete(
        path,
        guards=_guards(all_projects),
        summary=summary,
        responses=documented(*CHANGE_ERRORS, *errors),
    )
