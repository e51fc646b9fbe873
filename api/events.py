"""What happened to a project's streams, for their owner."""

from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.errors import documented
from api.paging import envelope, read_query
from api.present import Presenter
from api.projects import ProjectId, project_of
from api.schemas import Event, Listing
from api.times import read_moment
from storage.catalog import Catalog
from storage.catalog.records import Principal

__all__ = ["HANDLERS"]

_PATH: Final = "/projects/{project_id:str}/events"

# Checked in words of ours; here they are only described.
Since = Annotated[
    str | None,
    QueryParameter(
        description="Nothing older than this moment or day (RFC 3339).",
        schema_extra={"type": "string", "one_of": None},
    ),
]
PageNumber = Annotated[
    str | None, QueryParameter(schema_extra={"type": "integer", "one_of": None, "minimum": 1})
]


@get(
    _PATH,
    summary="List events",
    tags=["events"],
    responses=documented(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
)
async def list_events(
    request: Request[Any, Principal, Any],
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    since: Since = None,
    page: PageNumber = None,
) -> Listing[Event]:
    """List what happened to a project's streams in pages of ten, newest first."""
    project = await project_of(catalog, request.auth, project_id)
    since_us = 0 if since is None else read_moment(since)
    fault = {"since": ["The since must be a moment like 2026-01-31T12:00:00Z."]}
    query = read_query(
        search=None,
        sort_column=None,
        sort_order=None,
        page=page,
        columns=(),
        faults=fault if since_us is None else None,
    )
    found = await catalog.list_events(project.id, since_us=since_us or 0, page=query.page)
    return envelope(
        found,
        [presenter.event(record) for record in found.items],
        path=f"{presenter.addresses.http}/api/projects/{quote(project_id, safe='')}/events",
        filters=[("since", since)] if since else [],
    )


HANDLERS: Final = (list_events,)
