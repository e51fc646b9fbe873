"""Projects: the operations on them, and the project of a path where the caller may know of it."""

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import PathParameter

from api.http.auth import needs_write
from api.http.cors import normalize_origins, origins_error
from api.http.errors import ApiError, documented, invalid
from api.http.json_body import described, read_body
from api.http.paging import envelope, read_query
from api.http.parameters import PageNumber, missing
from api.ports import MediaRemover
from api.schemas.common import Listing
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog import Catalog
from storage.catalog.records.common import Principal, ProjectRecord
from storage.errors import ProjectNotDeletable

__all__ = ["HANDLERS", "ProjectId", "project_of"]

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open
_ONE: Final = "/projects/{project_id:str}"

ProjectId = Annotated[str, PathParameter(description="The project's number or its short string.")]


class ProjectNaming(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a project."""

    name: Name


class ProjectEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a project is to change.

    `origins` are those of the pages that may upload from a browser, "*" for all; none at first.
    """

    name: Name | msgspec.UnsetType = msgspec.UNSET
    origins: list[str] | msgspec.UnsetType = msgspec.UNSET


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project; `key` is the short string that paths take in place of the number."""

    id: int
    key: str
    name: str
    origins: list[str]
    created_at: str
    updated_at: str
    project_json: str


class ProjectShown(msgspec.Struct, frozen=True, kw_only=True):
    """One project."""

    data: Project


class ProjectAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a project."""

    message: str
    project: Project


_READS: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_WRITES: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_DELETES: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
)


async def project_of(catalog: Catalog, caller: Principal, name: str) -> ProjectRecord:
    """Return the project of a path.

    Raises:
        ApiError: 404 where there is none, or none that the caller may know of.
    """
    project = await catalog.projects.find(name)
    if project is None or not caller.reaches(project.id):
        raise missing("project")
    return project


def _needs_all(caller: Principal) -> None:
    """Let only callers on whose token is for all projects.

    Raises:
        ApiError: 403 for a token of one project.
    """
    if caller.project is not None:
        message = "This token is for one project; this takes one for all projects."
        raise ApiError(HTTPStatus.FORBIDDEN, message)


def _origins(texts: list[str]) -> tuple[str, ...]:
    """Return the origins of a body.

    Raises:
        ApiError: 422 where one is none.
    """
    fault = origins_error(texts)
    if fault is not None:
        raise invalid({"origins": [fault]})
    return normalize_origins(texts)


def _shown(record: ProjectRecord, presenter: Presenter) -> Project:
    return Project(
        id=record.id,
        key=record.key,
        name=record.name,
        origins=list(record.origins),
        created_at=format_timestamp(record.created_us),
        updated_at=format_timestamp(record.updated_us),
        project_json=presenter.addresses.project_document(record.key),
    )


@get("/projects", summary="List projects", tags=["projects"], responses=_READS)
async def list_projects(
    request: Call,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    page: PageNumber = None,
) -> Listing[Project]:
    """List the projects that the token reaches in pages of ten, newest first."""
    query = read_query(search=None, sort_column=None, sort_order=None, page=page, columns=())
    found = await catalog.projects.find_page(reach=request.auth.project, page=query.page)
    return envelope(
        found,
        [_shown(record, presenter) for record in found.items],
        path=f"{presenter.addresses.http}/api/projects",
        filters=(),
    )


@post(
    "/projects",
    guards=[needs_write],
    operation_class=described(ProjectNaming),
    summary="Add a project",
    tags=["projects"],
    responses=_WRITES,
)
async def add_project(
    request: Call,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> ProjectAnswer:
    """Make a project; this takes a token for all projects."""
    _needs_all(request.auth)
    body = await read_body(request, ProjectNaming)
    record = await catalog.projects.add(str(body.name), now_us, by=request.auth.id)
    return ProjectAnswer(message="Project added.", project=_shown(record, presenter))


@get(_ONE, summary="Show a project", tags=["projects"], responses=_READS)
async def show_project(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
) -> ProjectShown:
    """Show a project."""
    project = await project_of(catalog, request.auth, project_id)
    return ProjectShown(data=_shown(project, presenter))


@put(
    _ONE,
    guards=[needs_write],
    operation_class=described(ProjectEdit),
    summary="Edit a project",
    tags=["projects"],
    responses=_WRITES,
)
async def edit_project(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> ProjectAnswer:
    """Give a project another name, or other origins; its number and its short string stay."""
    project = await project_of(catalog, request.auth, project_id)
    body = await read_body(request, ProjectEdit)
    name = None if body.name is msgspec.UNSET else str(body.name)
    origins = None if body.origins is msgspec.UNSET else _origins(body.origins)
    record: ProjectRecord | None = project
    if name is not None or origins is not None:
        record = await catalog.projects.edit(
            project.id, name=name, origins=origins, by=request.auth.id, now_us=now_us
        )
    if record is None:
        raise missing("project")
    return ProjectAnswer(message="Project updated.", project=_shown(record, presenter))


@delete(
    _ONE, guards=[needs_write], summary="Delete a project", tags=["projects"], responses=_DELETES
)
async def delete_project(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    media: NamedDependency[MediaRemover | None],
    now_us: NamedDependency[int],
) -> None:
    """Delete a project with its streams, videos, labels, players and tokens, and all their media.

    This takes a token for all projects. The first project stays, and so does one of whose streams
    one is on air.
    """
    _needs_all(request.auth)
    project = await project_of(catalog, request.auth, project_id)
    try:
        hashes = await catalog.projects.remove(project.id, by=request.auth.id, now_us=now_us)
    except ProjectNotDeletable as error:
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
    if hashes is None:
        raise missing("project")
    if media is not None:
        await media.remove(hashes)
        await media.remove_project(project.key)


HANDLERS: Final = (list_projects, add_project, show_project, edit_project, delete_project)
