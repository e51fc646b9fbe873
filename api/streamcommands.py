"""What ends things: a stream's run, the use of its key, the stream itself.

Each is a change in the database and a command to the process that takes encoders in; the answer
comes when that has done its part, or when it is clear that there is none.
"""

from http import HTTPStatus
from typing import Final

from litestar import delete, post
from litestar.di import NamedDependency

from api.auth import needs_write
from api.errors import ApiError, documented
from api.ingest import Ingest
from api.parameters import RecordId, missing
from api.present import Presenter
from api.streamforms import StreamChanged
from api.streampaths import CHANGES, STREAM, Call, found, stream_of
from storage.catalog import Catalog
from storage.catalog.commands import Standing

__all__ = ["HANDLERS"]

_NOTHING: Final = "The stream has no run and no encoder: there is nothing to end."
_NO_INGEST: Final = "No process takes encoders in now, so nothing was ended; try again in a moment."
_RETRY_SECONDS: Final = "5"


@post(
    f"{STREAM}/end",
    guards=[needs_write],
    status_code=200,
    summary="End a stream's run",
    tags=["streams"],
    responses={
        **CHANGES,
        **documented(HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    },
)
async def end_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    ingest: NamedDependency[Ingest],
    now_us: NamedDependency[int],
) -> StreamChanged:
    """End the run that is on now, and disconnect its encoders; who connects then begins another.

    Viewers' playlists end. The message says whether it is over, or still ending.
    """
    stream = await stream_of(catalog, request.auth, stream_id)
    deadline_us = now_us + round(ingest.taken_seconds * 1_000_000)
    command = await catalog.streams.ask_end(
        stream.id, now_us=now_us, deadline_us=deadline_us, by=request.auth.id
    )
    if command is None:
        raise missing("stream")
    came = await ingest.ended(command, now_us)
    if came is None or came.standing is Standing.LATE:
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE, _NO_INGEST, headers={"Retry-After": _RETRY_SECONDS}
        )
    if came.standing is Standing.DONE and not came.answer.get("ended"):
        raise ApiError(HTTPStatus.CONFLICT, _NOTHING)
    message = "Stream ended." if came.standing is Standing.DONE else "Stream is ending."
    record = found(await catalog.stream(stream.id))
    return StreamChanged(message=message, stream=presenter.stream(record))


@post(
    f"{STREAM}/rotate-key",
    guards=[needs_write],
    status_code=200,
    summary="Change a stream's key",
    tags=["streams"],
    responses=CHANGES,
)
async def rotate_key(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    ingest: NamedDependency[Ingest],
    now_us: NamedDependency[int],
) -> StreamChanged:
    """Give a stream a fresh key; encoders with the old one are disconnected.

    The run goes on for an encoder that comes back with the new key in time.
    """
    stream = await stream_of(catalog, request.auth, stream_id)
    command = await catalog.streams.rotate(stream.id, now_us=now_us, by=request.auth.id)
    if command is None:
        raise missing("stream")
    await ingest.answer(command)
    record = found(await catalog.stream(stream.id))
    return StreamChanged(message="Stream key changed.", stream=presenter.stream(record))


@delete(
    STREAM,
    guards=[needs_write],
    summary="Delete a stream",
    tags=["streams"],
    responses=CHANGES,
)
async def delete_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    ingest: NamedDependency[Ingest],
    now_us: NamedDependency[int],
) -> None:
    """Delete a stream: its encoders are disconnected, its run ends, its media are removed."""
    stream = await stream_of(catalog, request.auth, stream_id)
    command = await catalog.streams.remove(stream.id, now_us=now_us, by=request.auth.id)
    if command is None:
        raise missing("stream")
    await ingest.forgotten(command, stream.hash)


HANDLERS: Final = (end_stream, rotate_key, delete_stream)
