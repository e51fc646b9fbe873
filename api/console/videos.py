"""The list of a project's videos: searched, sorted, and changed many at a time."""

from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import FromQuery, QueryParameter

from api.console.page import GivenConsole
from api.http.operation import Services
from api.library.lookup import PROJECT, ProjectCall
from api.videos.list_query import VideoListQuery, provide_list_query

_FRAGMENTS: Final = {"videos": "_videos.html"}
_NEWEST: Final = "newest"
# The orders that a person can choose, as the API names them: column and order.
_SORTS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    _NEWEST: (None, None),
    "oldest": ("id", "asc"),
    "title": ("title", "asc"),
    "longest": ("length", "desc"),
    "largest": ("size", "desc"),
}
State = Annotated[str | None, QueryParameter(name="type")]
First = Annotated[str | None, QueryParameter(name="from")]


class VideoFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of the list, as the form shows them; "" is not chosen."""

    state: str
    search: str
    sort: str
    first: str
    last: str
    query: VideoListQuery

    @property
    def is_narrow(self) -> bool:
        """True if the filters exclude videos."""
        return bool(self.state or self.search or self.first or self.last)

    def page(self, number: int) -> str:
        """Return the query of another page of the same list."""
        parameters = {
            "type": self.state,
            "search": self.search,
            "from": self.first,
            "to": self.last,
            "sort": "" if self.sort == _NEWEST else self.sort,
            "page": "" if number == 1 else str(number),
        }
        return "?" + urlencode({name: value for name, value in parameters.items() if value})


def provide_filters(
    services: NamedDependency[Services],
    type_: State = None,
    search: FromQuery[str | None] = None,
    from_: First = None,
    to: FromQuery[str | None] = None,
    sort: FromQuery[str | None] = None,
    page: FromQuery[str | None] = None,
) -> VideoFilters:
    """Read the query of the page; empty fields are not chosen.

    Raises:
        ApiError: 422 with every parameter that is wrong.
    """
    sort_name = sort if sort in _SORTS else _NEWEST
    column, order = _SORTS[sort_name]
    query = provide_list_query(
        services,
        type_ or None,
        search or None,
        from_ or None,
        to or None,
        column,
        order,
        page or None,
    )
    return VideoFilters(
        state=type_ or "",
        search=search or "",
        sort=sort_name,
        first=from_ or "",
        last=to or "",
        query=query,
    )


_DEPENDENCIES: Final = {
    **PROJECT,
    "filters": Provide(provide_filters, sync_to_thread=False),
}


@get("/{project_id:str}/videos", dependencies=_DEPENDENCIES)
async def videos_page(
    call: ProjectCall, filters: NamedDependency[VideoFilters], console: GivenConsole
) -> Response[str]:
    """Show a page of the list."""
    videos = await call.catalog.videos.find_page(
        call.record, filters.query.query, filters.query.page
    )
    return console.page(
        call.request,
        "videos.html",
        fragments=_FRAGMENTS,
        project=call.record,
        filters=filters,
        videos=videos,
    )
