"""Projects: the owners of streams, videos, labels, players and tokens."""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response, delete, get, post, put
from litestar.di import NamedDependency

from api.http.auth import ApiRequest, needs_all_projects, needs_write
from api.http.cors import normalize_origins, origins_error
from api.http.error_statuses import BODY_ERRORS, CHANGE_ERRORS, READ_ERRORS
from api.http.errors import ApiError, documented, invalid
from api.http.json_body import described, read_body
from api.http.paging import envelope, read_query
from api.http.parameters import PageNumber, missing, still_there
from api.http.preconditions import IfMatch, quoted, unless_edited
from api.library.lookup import PROJECT, project_tag
from api.schemas.common import Listing, named_schema
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.errors import ProjectNotDeletable

_PATH: Final = "/projects"
_ONE: Final = "/projects/{project_id:str}"


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


def _origins(texts: list[str]) -> tuple[str, ...]:
    """Return the origins that a body names.

    Raises:
        ApiError: 422 if one of them is no origin.
    """
    fault = origins_error(texts)
    if fault is not None:
        raise invalid({"origins": [fault]})
    return normalize_origins(texts)


def _project(record: ProjectRecord, presenter: Presenter) -> Project:
    return Project(
        id=record.id,
        key=record.key,
        name=record.name,
        origins=list(record.origins),
        created_at=format_timestamp(record.created_us),
        updated_at=format_timestamp(record.updated_us),
        project_json=presenter.addresses.project_document(record.key),
    )


class ProjectsController(Controller):
    """Projects."""

    tags = ("projects",)
    dependencies = PROJECT

    @get(_PATH, summary="List projects", responses=documented(*READ_ERRORS))
    async def list_projects(
        self,
        request: ApiRequest,
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        page: PageNumber = None,
    ) -> Annotated[Listing[Project], named_schema("Listing_api.projects.Project_")]:
        """List the projects that the token reaches in pages of ten, newest first."""
        query = read_query(search=None, sort_column=None, sort_order=None, page=page, columns=())
        records = await catalog.projects.find_page(reach=request.auth.project, page=query.page)
        return envelope(
            records,
            [_project(record, presenter) for record in records.items],
            path=f"{presenter.addresses.http}/api/projects",
            filters=(),
        )

    @post(
        _PATH,
        guards=[needs_write, needs_all_projects],
        operation_class=described(ProjectNaming),
        summary="Add a project",
        responses=documented(*BODY_ERRORS),
    )
    async def add_project(
        self,
        request: ApiRequest,
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
    ) -> ProjectAnswer:
        """Make a project; this takes a token for all projects."""
        body = await read_body(request, ProjectNaming)
        record = await catalog.projects.add(str(body.name), Change(now_us, by=request.auth.id))
        return ProjectAnswer(message="Project added.", project=_project(record, presenter))

    @get(_ONE, summary="Show a project", responses=documented(*READ_ERRORS))
    async def show_project(
        self, project: NamedDependency[ProjectRecord], presenter: NamedDependency[Presenter]
    ) -> Response[ProjectShown]:
        """Show a project; `ETag` names what can be edited of it."""
        shown = ProjectShown(data=_project(project, presenter))
        return Response(shown, headers={"ETag": quoted(project_tag(project))})

    @put(
        _ONE,
        guards=[needs_write],
        operation_class=described(ProjectEdit),
        summary="Edit a project",
        responses=documented(*BODY_ERRORS, HTTPStatus.PRECONDITION_FAILED),
    )
    async def edit_project(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[ProjectAnswer]:
        """Give a project another name, or other origins; its number and its short string stay."""
        body = await read_body(request, ProjectEdit)
        name = None if body.name is msgspec.UNSET else str(body.name)
        origins = None if body.origins is msgspec.UNSET else _origins(body.origins)
        check = unless_edited(if_match, project_tag)
        record: ProjectRecord | None = project
        if name is not None or origins is not None:
            record = await catalog.projects.edit(
                project.id,
                Change(now_us, by=request.auth.id),
                name=name,
                origins=origins,
                check=check,
            )
        elif check is not None:
            check(project)
        record = still_there(record, "project")
        changed = ProjectAnswer(message="Project updated.", project=_project(record, presenter))
        return Response(changed, headers={"ETag": quoted(project_tag(record))})

    @delete(
        _ONE,
        guards=[needs_write, needs_all_projects],
        summary="Delete a project",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def delete_project(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> None:
        """Delete a project with its streams, videos, labels, players and tokens, and all their
        media.

        None of them is found any more; their media are removed in the background. This takes a
        token for all projects. The first project stays, and so does one of whose streams one is on
        air.
        """
        try:
            removed = await catalog.projects.remove(project.id, Change(now_us, by=request.auth.id))
        except ProjectNotDeletable as error:
            raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
        if not removed:
            raise missing("project")
