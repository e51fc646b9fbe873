"""The list of a project's streams, and the page that adds one."""

from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
from litestar import Controller, Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter

from api.console.page import GivenConsole
from api.console.stream_states import StreamState, poster_of, state_of
from api.http.parameters import PageNumber, read_query
from api.library.lookup import PROJECT, ProjectCall
from api.schemas.presenter import Presenter
from storage.catalog.records.common import Sort, StreamRecord
from storage.catalog.streams.repository import STATES

_FRAGMENTS: Final = {"streams": "_streams.html"}
Choice = Annotated[str | None, QueryParameter()]
# A parameter of a handler cannot have this name.
State = Annotated[str | None, QueryParameter(name="state")]
# The orders of the list by their names in the page's address; the first is the usual one.
_ORDERS: Final = {
    "newest": Sort("id", descending=True),
    "oldest": Sort("id", descending=False),
    "title": Sort("title", descending=False),
}


class _Row(msgspec.Struct, frozen=True):
    """A stream in the list; `poster` is None before its first run."""

    record: StreamRecord
    state: StreamState
    poster: str | None


class _Choice(msgspec.Struct, frozen=True):
    """The filter and the order of the list.

    `state` is one of `STATES`, or "" for all; `order` is one of `_ORDERS`.
    """

    search: str
    state: str
    order: str
    page: int

    def at(self, page: int) -> str:
        """Return the query of the address of another page."""
        parameters = {"search": self.search, "state": self.state}
        if self.order != next(iter(_ORDERS)):
            parameters["order"] = self.order
        query = {name: value for name, value in parameters.items() if value}
        return urlencode({**query, "page": page})


def _provide_choice(
    search: Choice = None,
    state_: State = None,
    order: Choice = None,
    page: PageNumber = None,
) -> _Choice:
    """Return the choice; an unknown state or order counts as not chosen."""
    query = read_query(page=page, search=search)
    return _Choice(
        search=query.search,
        state=state_ if state_ is not None and state_ in STATES else "",
        order=order if order is not None and order in _ORDERS else next(iter(_ORDERS)),
        page=query.page,
    )


class StreamListPages(Controller):
    """The streams of a project, for people."""

    path = "/{project_id:str}/streams"
    dependencies = PROJECT

    @get(dependencies={"choice": Provide(_provide_choice, sync_to_thread=False)})
    async def list_page(
        self, call: ProjectCall, console: GivenConsole, choice: NamedDependency[_Choice]
    ) -> Response[str]:
        """Show the list."""
        records = await call.catalog.streams.find_page(
            call.record.id,
            search=choice.search,
            state=choice.state,
            sort=_ORDERS[choice.order],
            page=choice.page,
        )
        return console.page(
            call.request,
            "streams.html",
            fragments=_FRAGMENTS,
            project=call.record,
            rows=[_row(record, call.presenter) for record in records.items],
            found=records,
            choice=choice,
        )

    @get("/new")
    async def new_page(self, call: ProjectCall, console: GivenConsole) -> Response[str]:
        """Show the form that adds a stream."""
        return console.page(call.request, "stream_new.html", project=call.record)


def _row(record: StreamRecord, presenter: Presenter) -> _Row:
    return _Row(record, state_of(record), poster_of(record, presenter.addresses))
