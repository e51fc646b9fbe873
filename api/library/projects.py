"""Projects: the owners of streams, videos, labels, players and tokens."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from litestar import Controller, Response

from api.http.browser_headers import normalize_origins, origins_error
from api.http.conditional import IfMatch, tagged, unless_edited
from api.http.errors import ApiError, invalid
from api.http.operation import PlainCall, adds, deletes, edits, shows
from api.http.parameters import PageNumber, envelope, read_query
from api.library.lookup import PROJECT, ProjectCall, project_tag
from api.schemas.common import Listing, named_schema
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog.records.common import ProjectRecord
from storage.errors import ProjectNotDeletable


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

    path = "/projects"
    tags = ("projects",)

    @shows("List projects")
    async def list_projects(
        self, plain: PlainCall, page: PageNumber = None
    ) -> Annotated[Listing[Project], named_schema("Listing_api.projects.Project_")]:
        """List the projects that the token reaches in pages of ten, newest first."""
        query = read_query(page=page)
        records = await plain.catalog.projects.find_page(
            reach=plain.caller.project, page=query.page
        )
        return envelope(
            records,
            [_project(record, plain.presenter) for record in records.items],
            path=f"{plain.addresses.http}/api/projects",
            filters=(),
        )

    @adds("Add a project", ProjectNaming, all_projects=True)
    async def add_project(self, plain: PlainCall) -> ProjectAnswer:
        """Make a project; this takes a token for all projects."""
        body = await plain.body(ProjectNaming)
        record = await plain.catalog.projects.add(str(body.name), plain.change())
        return ProjectAnswer(message="Project added.", project=_project(record, plain.presenter))


class ProjectController(Controller):
    """One project."""

    path = "/projects/{project_id:str}"
    tags = ("projects",)
    dependencies = PROJECT

    @shows("Show a project")
    async def show_project(self, call: ProjectCall) -> Response[ProjectShown]:
        """Show a project; `ETag` names what can be edited of it."""
        shown = ProjectShown(data=_project(call.record, call.presenter))
        return tagged(shown, project_tag(call.record))

    @edits("Edit a project", ProjectEdit, errors=[HTTPStatus.PRECONDITION_FAILED])
    async def edit_project(
        self, call: ProjectCall, if_match: IfMatch = None
    ) -> Response[ProjectAnswer]:
        """Give a project another name, or other origins; its number and its short string stay."""
        body = await call.body(ProjectEdit)
        name = None if body.name is msgspec.UNSET else str(body.name)
        origins = None if body.origins is msgspec.UNSET else _origins(body.origins)
        check = unless_edited(if_match, project_tag)
        record = call.record
        if name is not None or origins is not None:
            edited = await call.catalog.projects.edit(
                record.id, call.change(), name=name, origins=origins, check=check
            )
            record = call.still_there(edited)
        elif check is not None:
            check(record)
        changed = ProjectAnswer(
            message="Project updated.", project=_project(record, call.presenter)
        )
        return tagged(changed, project_tag(record))

    @deletes(
        "Delete a project",
        errors=[HTTPStatus.CONFLICT],
        all_projects=True,
    )
    async def delete_project(self, call: ProjectCall) -> None:
        """Delete a project with its streams, videos, labels, players and tokens, and all their
        media.

        None of them is found any more; their media are removed in the background. This takes a
        token for all projects. The first project stays, and so does one of whose streams one is on
        air.
        """
        try:
            removed = await call.catalog.projects.remove(call.record.id, call.change())
        except ProjectNotDeletable as error:
            raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
        if not removed:
            raise call.missing()
