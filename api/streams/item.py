"""One stream: shown, edited, published and unpublished."""

from typing import Final

import msgspec
from litestar import get, post, put
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import invalid
from api.http.json_body import described, read_body
from api.http.parameters import RecordId
from api.library.countries import read_countries
from api.library.labels import wanted_tags
from api.schemas.presenter import Presenter
from api.streams.lookup import CHANGES, LOOKS, STREAM, WRITES, Call, found, stream_of
from api.streams.schemas import StreamChanged, StreamData, StreamEdit
from media.ladder import SELECTABLE_BOXES
from storage.catalog import Catalog
from storage.catalog.streams.repository import StreamChange

__all__ = ["HANDLERS"]

_CHOICES: Final = frozenset(box.number for box in SELECTABLE_BOXES)


def _resolutions(numbers: list[int]) -> frozenset[int]:
    unknown = sorted(set(numbers) - _CHOICES)
    if unknown:
        faults = [f"There is no resolution {str(number)[:20]}." for number in unknown]
        raise invalid({"resolutions": faults})
    return frozenset(numbers)


def _change(body: StreamEdit) -> StreamChange:
    """Return what a body asks for; null is the empty list where it stands for one."""
    change = StreamChange(
        title=body.title if body.title is msgspec.UNSET else str(body.title),
        description=(
            body.description if body.description is msgspec.UNSET else str(body.description)
        ),
        category=body.category,
        player=body.player,
    )
    if body.countries is not msgspec.UNSET:
        countries = read_countries(body.countries or [])
        change = msgspec.structs.replace(change, countries=countries)
    if body.tags is not msgspec.UNSET:
        change = msgspec.structs.replace(change, tags=wanted_tags(body.tags or []))
    if body.resolutions is not msgspec.UNSET:
        resolutions = _resolutions(body.resolutions)
        change = msgspec.structs.replace(change, resolutions=resolutions)
    return change


@get(STREAM, summary="Show a stream", tags=["streams"], responses=LOOKS)
async def show_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
) -> StreamData:
    """Show a stream in full, its key included."""
    record = await stream_of(catalog, request.auth, stream_id)
    return StreamData(data=presenter.stream(record))


@put(
    STREAM,
    guards=[needs_write],
    operation_class=described(StreamEdit),
    summary="Edit a stream",
    tags=["streams"],
    responses=WRITES,
)
async def edit_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> StreamChanged:
    """Change what is sent of a stream; resolutions count from its next run."""
    stream = await stream_of(catalog, request.auth, stream_id)
    body = await read_body(request, StreamEdit)
    record = await catalog.streams.edit(stream.id, _change(body), now_us=now_us, by=request.auth.id)
    return StreamChanged(message="Stream updated.", stream=presenter.stream(found(record)))


@post(
    f"{STREAM}/publish",
    guards=[needs_write],
    status_code=200,
    summary="Publish a stream",
    tags=["streams"],
    responses=CHANGES,
)
async def publish_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> StreamChanged:
    """Show a stream to viewers; before its first run its pages wait for it."""
    stream = await stream_of(catalog, request.auth, stream_id)
    record = await catalog.streams.publish(stream.id, now_us=now_us, by=request.auth.id)
    return StreamChanged(message="Stream published.", stream=presenter.stream(found(record)))


@post(
    f"{STREAM}/unpublish",
    guards=[needs_write],
    status_code=200,
    summary="Unpublish a stream",
    tags=["streams"],
    responses=CHANGES,
)
async def unpublish_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> StreamChanged:
    """Hide a stream from viewers until it is published again, whatever runs meanwhile."""
    stream = await stream_of(catalog, request.auth, stream_id)
    record = await catalog.streams.unpublish(stream.id, now_us=now_us, by=request.auth.id)
    return StreamChanged(message="Stream unpublished.", stream=presenter.stream(found(record)))


HANDLERS: Final = (show_stream, edit_stream, publish_stream, unpublish_stream)
