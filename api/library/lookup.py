"""The project of a path, and what the lists of a project have in common.

`PROJECT` gives the handlers of a controller the call with the project that their path names.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote

from litestar.di import NamedDependency, Provide
from litestar.params import PathParameter

from api.http.conditional import edit_tag
from api.http.operation import Call, PlainCall
from api.http.parameters import ListQuery, PageNumber, SortOrder, queried, read_query
from storage.catalog.records.common import LabelRecord, PlayerRecord, ProjectRecord

ProjectId = Annotated[str, PathParameter(description="The project's number or its short string.")]


ProjectCall = NamedDependency[Call[ProjectRecord]]
GivenQuery = NamedDependency[ListQuery]  # of a list


async def find_project(plain: Call[None], project_id: str) -> Call[ProjectRecord]:
    """Return the call with the project that a path names by its number or its key.

    Raises:
        ApiError: 404 if there is no such project, or if the caller's token does not reach it.
    """
    project = await plain.catalog.projects.find(project_id)
    return plain.to(project, project and project.id, "project")


async def provide_project(plain: PlainCall, project_id: ProjectId) -> Call[ProjectRecord]:
    """Return the call with the project that a path names (see `find_project`)."""
    return await find_project(plain, project_id)


PROJECT: Final = {"call": Provide(provide_project)}


def provide_list_query(columns: Sequence[str], searched: str = "name") -> Provide:
    """Return the provider of the `ListQuery` of a project's list.

    `columns` are those to sort by, `searched` is the column that `search` searches.
    """

    def provide(
        call: ProjectCall,  # noqa: ARG001  # 404 comes before 422
        search: Annotated[str | None, queried(f"A part of the {searched}.")] = None,
        sort_column: Annotated[str | None, queried(enum=columns)] = None,
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


def list_url(call: Call[Any], noun: str) -> str:  # Any: a record of any kind
    """Return the URL of a project's list, with the project named as in the request."""
    project = quote(call.request.path_params["project_id"], safe="")
    return f"{call.addresses.http}/api/projects/{project}/{noun}"


def project_tag(record: ProjectRecord) -> str:
    """Return the tag of what can be edited of a project (see `api.http.conditional`)."""
    return edit_tag(record.name, record.origins)


def player_tag(record: PlayerRecord) -> str:
    """Return the edit tag of a player."""
    return edit_tag(record.name, record.options)


def label_tag(record: LabelRecord) -> str:
    """Return the edit tag of a label: a tag or a category."""
    return edit_tag(record.name, record.active)
