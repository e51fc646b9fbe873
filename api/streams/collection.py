"""The operations on live streams."""

from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.auth import needs_write
from api.http.errors import documented
from api.http.json_body import described, read_body
from api.http.paging import envelope, read_query
from api.library.projects import ProjectId, project_of
from api.schemas.common import Listing, StreamAdded, StreamAddition, StreamItem
from api.schemas.presenter import Presenter
from storage.catalog import Catalog
from storage.catalog.records.common import Principal

__all__ = ["HANDLERS"]

_PATH: Final = "/projects/{project_id:str}/streams"
_COLUMNS: Final = ("id", "title")
_STRING: Final = {"type": "string", "one_of": None}
_WHOLE: Final = {"type": "integer", "one_of": None}

Call = Request[Any, Principal, Any]

# `read_query` checks these, in words of ours; here they are only described.
Search = Annotated[
    str | None, QueryParameter(description="A part of the title.", schema_extra=_STRING)
]
SortColumn = Annotated[str | None, QueryParameter(schema_extra={**_STRING, "enum": _COLUMNS})]
SortOrder = Annotated[str | None, QueryParameter(schema_extra={**_STRING, "enum": ("asc", "desc")})]
PageNumber = Annotated[str | None, QueryParameter(schema_extra={**_WHOLE, "minimum": 1})]


@post(
    _PATH,
    guards=[needs_write],
    operation_class=described(StreamAddition),
    summary="Add a stream",
    tags=["streams"],
    responses=documented(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
)
async def add_stream(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> StreamAdded:
    """Make a stream with a key and one backup; it goes on air when an encoder sends."""
    project = await project_of(catalog, request.auth, project_id)
    body = await read_body(request, StreamAddition)
    record = await catalog.streams.add(project.id, str(body.title), now_us, by=request.auth.id)
    return StreamAdded(message="Stream added.", stream=presenter.stream(record))


@get(
    _PATH,
    summary="List streams",
    tags=["streams"],
    responses=documented(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
)
async def list_streams(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    search: Search = None,
    sort_column: SortColumn = None,
    sort_order: SortOrder = None,
    page: PageNumber = None,
) -> Listing[StreamItem]:
    """List a project's streams in pages of ten, newest first unless a column is named."""
    project = await project_of(catalog, request.auth, project_id)
    query = read_query(
        search=search,
        sort_column=sort_column,
        sort_order=sort_order,
        page=page,
        columns=_COLUMNS,
    )
    found = await catalog.streams.find_page(
        project.id, search=query.search, sort=query.sort, page=query.page
    )
    return envelope(
        found,
        [presenter.stream_item(record) for record in found.items],
        path=f"{presenter.addresses.http}/api/projects/{quote(project_id, safe='')}/streams",
        filters=query.filters,
    )


HANDLERS: Final = (add_stream, list_streams)
