"""The project of a path, and what the lists of a project have in common.

`PROJECT` gives the handlers of a controller the `ProjectRecord` that their path names.
"""

from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import quote

from litestar.di import NamedDependency, Provide
from litestar.params import PathParameter, QueryParameter

from api.http.auth import ApiRequest
from api.http.paging import ListQuery, read_query
from api.http.parameters import PageNumber, SortOrder, missing, sort_columns
from api.http.preconditions import edit_tag
from api.schemas.urls import Addresses
from storage.catalog import Catalog
from storage.catalog.records.common import LabelRecord, PlayerRecord, ProjectRecord

ProjectId = Annotated[str, PathParameter(description="The project's number or its short string.")]


async def provide_project(
    request: ApiRequest, project_id: ProjectId, catalog: NamedDependency[Catalog]
) -> ProjectRecord:
    """Return the project that a path names by its number or its key.

    Raises:
        ApiError: 404 if there is no such project, or if the caller's token does not reach it.
    """
    project = await catalog.projects.find(project_id)
    if project is None or not request.auth.reaches(project.id):
        raise missing("project")
    return project


PROJECT: Final = {"project": Provide(provide_project)}


def provide_list_query(columns: Sequence[str], searched: str = "name") -> Provide:
    """Return the provider of the `ListQuery` of a project's list.

    `columns` are those to sort by, `searched` is the column that `search` searches.
    """

    def provide(
        project: NamedDependency[ProjectRecord],  # noqa: ARG001  # 404 comes before 422
        search: Annotated[
            str | None,
            QueryParameter(
                description=f"A part of the {searched}.",
                schema_extra={"type": "string", "one_of": None},
            ),
        ] = None,
        sort_column: Annotated[str | None, sort_columns(columns)] = None,
        sort_order: SortOrder = None,
        page: PageNumber = None,
    ) -> ListQuery:
        return read_query(
            search=search,
            sort_column=sort_column,
            sort_order=sort_order,
            page=page,
            columns=columns,
        )

    return Provide(provide, sync_to_thread=False)


def list_url(addresses: Addresses, project_id: str, noun: str) -> str:
    """Return the URL of a project's list, with the project named as in the request."""
    return f"{addresses.http}/api/projects/{quote(project_id, safe='')}/{noun}"


def project_tag(record: ProjectRecord) -> str:
    """Return the tag of what can be edited of a project (see `api.http.preconditions`)."""
    return edit_tag(record.name, record.origins)


def player_tag(record: PlayerRecord) -> str:
    """Return the edit tag of a player."""
    return edit_tag(record.name, record.options)


def label_tag(record: LabelRecord) -> str:
    """Return the edit tag of a label: a tag or a category."""
    return edit_tag(record.name, record.active)
