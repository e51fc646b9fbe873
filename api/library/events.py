"""The event log of a project, or of one of its streams."""

import re
from typing import Annotated, Final

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.error_statuses import READ_ERRORS
from api.http.errors import documented
from api.http.paging import envelope, read_query
from api.http.parameters import PageNumber
from api.library.lookup import PROJECT, ProjectId, list_url
from api.schemas.common import Event, Listing, named_schema
from api.schemas.presenter import Presenter
from api.schemas.timestamps import parse_timestamp
from storage.catalog import Catalog
from storage.catalog.records.common import ProjectRecord, StreamRecord

__all__ = ["EventsController"]

_NO_MOMENT: Final = "The since must be a moment like 2026-01-31T12:00:00Z."
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")

# For the OpenAPI document alone: the handler checks the values.
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


async def _stream_of(catalog: Catalog, project: int, text: str) -> StreamRecord | None:
    """Return the stream with this number, None if the project has no such stream."""
    number = int(text) if _NUMBER.fullmatch(text) else 0
    record = await catalog.streams.find(number)
    return record if record is not None and record.project == project else None


class EventsController(Controller):
    """The events of a project."""

    tags = ("events",)
    dependencies = PROJECT

    @get(
        "/projects/{project_id:str}/events",
        summary="List events",
        responses=documented(*READ_ERRORS),
    )
    async def list_events(
        self,
        project: NamedDependency[ProjectRecord],
        project_id: ProjectId,
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        since: Since = None,
        stream: StreamNumber = None,
        page: PageNumber = None,
    ) -> Annotated[Listing[Event], named_schema("Listing_api.schemas.Event_")]:
        """List what happened in a project in pages of ten, newest first."""
        since_us = 0 if since is None else parse_timestamp(since)
        faults = {} if since_us is not None else {"since": [_NO_MOMENT]}
        subject = ""
        if stream is not None:
            record = await _stream_of(catalog, project.id, stream)
            if record is None:
                faults["stream"] = ["The stream must be the number of one of this project."]
            else:
                subject = record.hash
        query = read_query(
            search=None, sort_column=None, sort_order=None, page=page, columns=(), faults=faults
        )
        events = await catalog.events.find_page(
            project.id, since_us=since_us or 0, page=query.page, subject=subject
        )
        parameters = (("since", since), ("stream", stream))
        return envelope(
            events,
            [presenter.event(record) for record in events.items],
            path=list_url(presenter.addresses, project_id, "events"),
            filters=[(name, value) for name, value in parameters if value],
        )
