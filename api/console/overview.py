"""The first page: what is live, what is being made, and what needs attention."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.console.page import GivenConsole
from api.console.stream_states import poster_of
from api.console.stream_states import state_of as viewers_get
from api.http.operation import PlainCall
from api.http.parameters import read_query
from api.operations.report import Finding, OperationsReporter, StreamRoom
from storage.catalog.records.common import StreamRecord

# Sentences about what the service cannot do at the moment.
Problems = Callable[[], Awaitable[list[str]]]

_FRAGMENTS: Final = {
    "attention": "_overview_attention.html",
    "live": "_overview_live.html",
    "working": "_overview_working.html",
    "projects": "_overview_projects.html",
}
_KINDS: Final = {"live": "good", "backup": "warn", "paused": "warn", "slate": "bad"}
PageOf = Annotated[str | None, QueryParameter(name="page")]


class ViewersState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a live stream in a word; `kind` is one of good, warn, bad."""

    kind: str
    word: str


@get("/")
async def overview_page(
    plain: PlainCall,
    console: GivenConsole,
    problems: NamedDependency[Problems],
    room: NamedDependency[StreamRoom],
    operations: NamedDependency[OperationsReporter | None],
    page: PageOf = None,
) -> Response[str]:
    """Show what happens in the projects that the token reaches."""
    query = read_query(page=page)
    reach = plain.caller.project
    overview = await plain.catalog.overviews.find(reach=reach)
    projects = await plain.catalog.projects.find_page(reach=reach, page=query.page)
    return console.page(
        plain.request,
        "overview.html",
        fragments=_FRAGMENTS,
        projects=projects,
        channels=" ".join(f"project.{each.key}" for each in projects.items),
        overview=overview,
        states={record.id: state_of(record) for record in overview.live},
        posters={record.id: poster_of(record, plain.addresses) for record in overview.live},
        troubled={record.id: state_of(record) for record in overview.troubled},
        room=room(),
        # For operators only.
        problems=await problems() if reach is None else [],
        concerns=await _concerns(operations) if reach is None else [],
    )


async def _concerns(operations: OperationsReporter | None) -> Sequence[Finding]:
    """Return the known findings that need an operator; none if this process cannot report any."""
    return [] if operations is None else await operations.concerns()


def state_of(record: StreamRecord) -> ViewersState:
    """Return the state of a live stream, as its viewers see it."""
    word = viewers_get(record)
    if word == "live" and record.on_air:
        word = "backup"
    return ViewersState(kind=_KINDS[word], word=word)
