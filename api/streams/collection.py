"""The streams of a project: listed, added."""

from typing import Annotated, Final

from litestar import Controller

from api.http.errors import invalid
from api.http.operation import adds, shows
from api.http.parameters import envelope, queried
from api.library.lookup import PROJECT, GivenQuery, ProjectCall, list_url, provide_list_query
from api.library.quotas import GivenQuotas
from api.schemas.common import Listing, StreamAdded, StreamAddition, StreamItem, named_schema
from storage.catalog.streams.repository import STATES

_COLUMNS: Final = ("id", "title")
_DEPENDENCIES: Final = {**PROJECT, "list_query": provide_list_query(_COLUMNS, searched="title")}

# For the OpenAPI document alone: the handler checks the value.
State = Annotated[
    str | None,
    queried(
        "Only streams that are live, that are idle (not live, and no encoder sends),"
        " or that their owner unpublished.",
        name="state",
        enum=STATES,
    ),
]


class StreamsController(Controller):
    """The streams of a project."""

    path = "/projects/{project_id:str}/streams"
    tags = ("streams",)
    dependencies = _DEPENDENCIES

    @shows("List streams")
    async def list_streams(
        self, call: ProjectCall, list_query: GivenQuery, state_: State = None
    ) -> Annotated[Listing[StreamItem], named_schema("Listing_api.schemas.StreamItem_")]:
        """List a project's streams in pages of ten, newest first unless a column is named.

        Stream keys are hidden from a token that may not write.
        """
        if state_ is not None and state_ not in STATES:
            raise invalid({"state": [f"The state must be one of {', '.join(STATES)}."]})
        page = await call.catalog.streams.find_page(
            call.record.id,
            search=list_query.search,
            state=state_ or "",
            sort=list_query.sort,
            page=list_query.page,
        )
        return envelope(
            page,
            [
                call.presenter.stream_item(record, show_key=call.caller.write)
                for record in page.items
            ],
            path=list_url(call, "streams"),
            filters=[*list_query.filters, *([("state", state_)] if state_ else [])],
        )

    @adds("Add a stream", StreamAddition)
    async def add_stream(self, call: ProjectCall, quotas: GivenQuotas) -> StreamAdded:
        """Make a stream with a key and one backup; it goes on air when an encoder sends."""
        body = await call.body(StreamAddition)
        title = str(body.title)
        async with quotas.adding_stream(call.record.id):
            record = await call.catalog.streams.add(call.record.id, title, call.change())
        return StreamAdded(
            message="Stream added.", stream=call.presenter.stream(record, show_key=True)
        )
