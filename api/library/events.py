"""What happened in a project, or to one of its streams, for their owner."""

import re
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.errors import documented
from api.http.paging import envelope, read_query
from api.library.projects import ProjectId, project_of
from api.schemas.common import Event, Listing
from api.schemas.presenter import Presenter
from api.schemas.timestamps import parse_timestamp
from storage.catalog import Catalog
from storage.catalog.records.common import Principal, StreamRecord

__all__ = ["HANDLERS"]

_PATH: Final = "/projects/{project_id:str}/events"
_NO_MOMENT: Final = "The since must be a moment like 2026-01-31T12:00:00Z."
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")

# Checked in words of ours; here they are only described.
Since = Annotated[
    str | None,
    QueryParameter(
        description="Nothing older than this moment or day (RFC 3339).",
        schema_extra={"type": "string", "one_of": None},
    ),
]
StreamNumber = Annotated[
    str | None,
    QueryParameter(
        description="Only what happened to the stream with this number.",
        schema_extra={"type": "integer", "one_of": None, "minimum": 1},
    ),
]
PageNumber = Annotated[
    str | None, QueryParameter(schema_extra={"type": "integer", "one_of": None, "minimum": 1})
]


async def _stream_of(catalog: Catalog, project: int, text: str) -> StreamRecord | None:
    """Return the stream of a project whose number `text` is; None where there is none."""
    number = int(text) if _NUMBER.fullmatch(text) else 0
    record = await catalog.streams.find(number)
    return record if record is not None and record.project == project else None


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
    stream: StreamNumber = None,
    page: PageNumber = None,
) -> Listing[Event]:
    """List what happened in a project in pages of ten, newest first."""
    project = await project_of(catalog, request.auth, project_id)
    since_us = 0 if since is None else parse_timestamp(since)
    faults = {} if since_us is not None else {"since": [_NO_MOMENT]}
    whose = None
    if stream is not None:
        whose = await _stream_of(catalog, project.id, stream)
        if whose is None:
            faults["stream"] = ["The stream must be the number of one of this project."]
    query = read_query(
        search=None, sort_column=None, sort_order=None, page=page, columns=(), faults=faults
    )
    found = await catalog.events.find_page(
        project.id,
        since_us=since_us or 0,
        page=query.page,
        subject="" if whose is None else whose.hash,
    )
    return envelope(
        found,
        [presenter.event(record) for record in found.items],
        path=f"{presenter.addresses.http}/api/projects/{quote(project_id, safe='')}/events",
        filters=[(name, value) for name, value in (("since", since), ("stream", stream)) if value],
    )


HANDLERS: Final = (list_events,)
