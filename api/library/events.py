"""The event log of a project, or of one of its streams.

People read it in pages, newest first. Programs read on from the last event that they have, in
rising order: a page of these follows from that number alone, so nothing is read twice or missed,
whatever is written or removed meanwhile.
"""

import re
from typing import Annotated, Final
from urllib.parse import urlencode

from litestar import Controller

from api.http.operation import shows
from api.http.parameters import PageNumber, envelope, queried, read_query
from api.library.lookup import PROJECT, ProjectCall, list_url
from api.schemas.common import Event, Listing, Meta, PageLink, PageLinks, named_schema
from api.schemas.timestamps import parse_timestamp
from storage.catalog import Catalog
from storage.catalog.events.log import MOST_AFTER, FollowingEvents
from storage.catalog.records.common import StreamRecord

_NO_MOMENT: Final = "The since must be a moment like 2026-01-31T12:00:00Z."
_NO_NUMBER: Final = "The after must be the id of an event, or 0."
_AFTER_ALONE: Final = "The after cannot be combined with {}."
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
_EVENT: Final = re.compile(r"0|[1-9][0-9]{0,17}")

# For the OpenAPI document alone: the handler checks the values.
Since = Annotated[str | None, queried("Nothing older than this moment or day (RFC 3339).")]
EventNumber = Annotated[
    str | None,
    queried(
        f"Only what comes after the event with this id: oldest first, {MOST_AFTER} a"
        " page. Not with since or page.",
        type_="integer",
        minimum=0,
    ),
]
StreamNumber = Annotated[
    str | None,
    queried("Only what happened to the stream with this number.", type_="integer", minimum=1),
]


async def _stream_of(catalog: Catalog, project: int, text: str) -> StreamRecord | None:
    """Return the stream with this number, None if the project has no such stream."""
    number = int(text) if _NUMBER.fullmatch(text) else 0
    record = await catalog.streams.find(number)
    return record if record is not None and record.project == project else None


def _faults_of_after(after: str, since: str | None, page: str | None) -> list[str]:
    if not _EVENT.fullmatch(after):
        return [_NO_NUMBER]
    others = {"since": since, "page": page}
    return [_AFTER_ALONE.format(name) for name, value in others.items() if value is not None]


def _envelope_after(
    found: FollowingEvents, data: list[Event], after: int, *, path: str, stream: str | None
) -> Listing[Event]:
    """Return events in the envelope of a list, whose pages have the id before them as `after`."""
    more = found.total > len(data)

    def url(number: int) -> str:
        filters = [("stream", stream)] if stream else []
        return f"{path}?{urlencode([*filters, ('after', number)])}"

    following = url(data[-1].id) if data and more else None
    return Listing(
        data=data,
        links=PageLinks(first=url(after), last=url(found.last), prev=None, next=following),
        meta=Meta(
            current_page=1,
            from_=1 if data else None,
            last_page=max(1, -(-found.total // MOST_AFTER)),
            links=[
                PageLink(url=None, label="« Previous", active=False),
                PageLink(url=url(after), label="1", active=True),
                PageLink(url=following, label="Next »", active=False),
            ],
            path=path,
            per_page=MOST_AFTER,
            to=len(data) or None,
            total=found.total,
        ),
    )


class EventsController(Controller):
    """The events of a project."""

    tags = ("events",)
    dependencies = PROJECT

    @shows("List events", "/projects/{project_id:str}/events")
    async def list_events(
        self,
        call: ProjectCall,
        since: Since = None,
        after: EventNumber = None,
        stream: StreamNumber = None,
        page: PageNumber = None,
    ) -> Annotated[Listing[Event], named_schema("Listing_api.schemas.Event_")]:
        """List what happened in a project in pages of ten, newest first."""
        since_us = 0 if since is None else parse_timestamp(since)
        faults = {} if since_us is not None else {"since": [_NO_MOMENT]}
        if after is not None and (wrong := _faults_of_after(after, since, page)):
            faults["after"] = wrong
        subject = ""
        if stream is not None:
            record = await _stream_of(call.catalog, call.record.id, stream)
            if record is None:
                faults["stream"] = ["The stream must be the number of one of this project."]
            else:
                subject = record.hash
        query = read_query(page=page, faults=faults)
        path = list_url(call, "events")
        if after is not None:
            found = await call.catalog.events.find_after(
                call.record.id, int(after), subject=subject
            )
            data = [call.presenter.event(record) for record in found.items]
            return _envelope_after(found, data, int(after), path=path, stream=stream)
        events = await call.catalog.events.find_page(
            call.record.id, since_us=since_us or 0, page=query.page, subject=subject
        )
        parameters = (("since", since), ("stream", stream))
        return envelope(
            events,
            [call.presenter.event(record) for record in events.items],
            path=path,
            filters=[(name, value) for name, value in parameters if value],
        )
