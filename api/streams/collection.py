"""The streams of a project: listed, added."""

from typing import Annotated, Final

from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import BODY_ERRORS, READ_ERRORS
from api.http.errors import documented, invalid
from api.http.json_body import described, read_body
from api.http.paging import ListQuery, envelope
from api.library.lookup import PROJECT, ProjectId, list_url, provide_list_query
from api.library.quotas import ProjectQuotas
from api.schemas.common import Listing, StreamAdded, StreamAddition, StreamItem, named_schema
from api.schemas.presenter import Presenter
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.streams.repository import STATES

_COLUMNS: Final = ("id", "title")
_DEPENDENCIES: Final = {**PROJECT, "list_query": provide_list_query(_COLUMNS, searched="title")}

# For the OpenAPI document alone: the handler checks the value.
State = Annotated[
    str | None,
    QueryParameter(
        name="state",
        description="Only streams that are live, that are idle (not live, and no encoder sends),"
        " or that their owner unpublished.",
        schema_extra={"type": "string", "one_of": None, "enum": STATES},
    ),
]


class StreamsController(Controller):
    """The streams of a project."""

    path = "/projects/{project_id:str}/streams"
    tags = ("streams",)
    dependencies = _DEPENDENCIES

    @get(summary="List streams", responses=documented(*READ_ERRORS))
    async def list_streams(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        project_id: ProjectId,
        list_query: NamedDependency[ListQuery],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        state_: State = None,
    ) -> Annotated[Listing[StreamItem], named_schema("Listing_api.schemas.StreamItem_")]:
        """List a project's streams in pages of ten, newest first unless a column is named.

        Stream keys are hidden from a token that may not write.
        """
        if state_ is not None and state_ not in STATES:
            raise invalid({"state": [f"The state must be one of {', '.join(STATES)}."]})
        page = await catalog.streams.find_page(
            project.id,
            search=list_query.search,
            state=state_ or "",
            sort=list_query.sort,
            page=list_query.page,
        )
        return envelope(
            page,
            [presenter.stream_item(record, show_key=request.auth.write) for record in page.items],
            path=list_url(presenter.addresses, project_id, "streams"),
            filters=[*list_query.filters, *([("state", state_)] if state_ else [])],
        )

    @post(
        guards=[needs_write],
        operation_class=described(StreamAddition),
        summary="Add a stream",
        responses=documented(*BODY_ERRORS),
    )
    async def add_stream(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        quotas: NamedDependency[ProjectQuotas],
        now_us: NamedDependency[int],
    ) -> StreamAdded:
        """Make a stream with a key and one backup; it goes on air when an encoder sends."""
        body = await read_body(request, StreamAddition)
        title, caller = str(body.title), request.auth.id
        async with quotas.adding_stream(project.id):
            record = await catalog.streams.add(project.id, title, Change(now_us, by=caller))
        return StreamAdded(message="Stream added.", stream=presenter.stream(record, show_key=True))
