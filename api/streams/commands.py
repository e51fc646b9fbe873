"""What a stream's run is told: to end, to pause, to switch; and what ends its key and itself.

Each is a change in the database and a command to the process that takes encoders in; the answer
comes when that has done its part, or when it is clear that there is none.
"""

from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import msgspec
from litestar import delete, post
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import ApiError, documented
from api.http.parameters import RecordId, missing
from api.schemas.presenter import Presenter
from api.streams.command_client import DRILL_SECONDS, Ingest
from api.streams.lookup import CHANGES, STREAM, Call, found, stream_of
from api.streams.schemas import Drill, Drilled, StreamChanged
from storage.catalog import Catalog
from storage.catalog.streams.commands import Standing
from storage.errors import StreamStateConflict

__all__ = ["HANDLERS"]

_NOTHING: Final = "The stream has no run and no encoder: there is nothing to end."
_NO_INGEST: Final = "No process takes encoders in now, so nothing was ended; try again in a moment."
_NO_DRILL: Final = "No process takes encoders in now, so nothing was tried; try again in a moment."
_SLOW_DRILL: Final = "No other encoder has taken over so far; the events tell if one does."
_OVER: Final = "The stream's run is over: there is nothing to pause."
_RETRY_SECONDS: Final = "5"
_HOLDS: Final = {**CHANGES, **documented(HTTPStatus.CONFLICT)}
_ORDERS: Final = {
    **CHANGES,
    **documented(HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
}


def _unavailable(sentence: str) -> ApiError:
    return ApiError(
        HTTPStatus.SERVICE_UNAVAILABLE, sentence, headers={"Retry-After": _RETRY_SECONDS}
    )


@post(
    f"{STREAM}/end",
    guards=[needs_write],
    status_code=200,
    summary="End a stream's run",
    tags=["streams"],
    responses=_ORDERS,
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
    command = await catalog.streams.ask_end(
        stream.id, now_us=now_us, deadline_us=ingest.deadline_us(now_us), by=request.auth.id
    )
    if command is None:
        raise missing("stream")
    came = await ingest.carried_out(command, now_us)
    if came is None or came.standing is Standing.LATE:
        raise _unavailable(_NO_INGEST)
    if came.standing is Standing.DONE and not came.answer.get("ended"):
        raise ApiError(HTTPStatus.CONFLICT, _NOTHING)
    message = "Stream ended." if came.standing is Standing.DONE else "Stream is ending."
    record = found(await catalog.streams.find(stream.id))
    return StreamChanged(message=message, stream=presenter.stream(record))


@post(
    f"{STREAM}/pause",
    guards=[needs_write],
    status_code=200,
    summary="Pause a stream",
    tags=["streams"],
    responses=_HOLDS,
)
async def pause_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    ingest: NamedDependency[Ingest],
    now_us: NamedDependency[int],
) -> StreamChanged:
    """Show viewers the slate until the stream is resumed; its encoders stay connected."""
    stream = await stream_of(catalog, request.auth, stream_id)
    with _as_it_stands():
        command = await catalog.streams.pause(stream.id, now_us=now_us, by=request.auth.id)
    if command is None:
        raise missing("stream")
    came = await ingest.answer(command)
    if came is not None and came.standing is Standing.DONE and not came.answer.get("done"):
        raise ApiError(HTTPStatus.CONFLICT, _OVER)
    record = found(await catalog.streams.find(stream.id))
    return StreamChanged(message="Stream paused.", stream=presenter.stream(record))


@post(
    f"{STREAM}/resume",
    guards=[needs_write],
    status_code=200,
    summary="Resume a stream",
    tags=["streams"],
    responses=_HOLDS,
)
async def resume_stream(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    ingest: NamedDependency[Ingest],
    now_us: NamedDependency[int],
) -> StreamChanged:
    """Show viewers the encoder on air again, in the same playlist."""
    stream = await stream_of(catalog, request.auth, stream_id)
    with _as_it_stands():
        command = await catalog.streams.resume(stream.id, now_us=now_us, by=request.auth.id)
    if command is None:
        raise missing("stream")
    # Where its run has ended meanwhile, it is not paused any more all the same.
    await ingest.answer(command)
    record = found(await catalog.streams.find(stream.id))
    return StreamChanged(message="Stream resumed.", stream=presenter.stream(record))


@contextmanager
def _as_it_stands() -> Generator[None, None, None]:
    """Turn what a stream cannot do now into an answer."""
    try:
        yield
    except StreamStateConflict as error:
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error


@post(
    f"{STREAM}/failover-drill",
    guards=[needs_write],
    status_code=200,
    summary="Drill a failover",
    tags=["streams"],
    responses=_ORDERS,
)
async def drill_failover(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    ingest: NamedDependency[Ingest],
    now_us: NamedDependency[int],
) -> Drilled:
    """Have the encoder on air count as lost until another has taken over, and say how that went.

    The answer comes when viewers get the other one, 20 s at the latest. The encoder stays
    connected, and comes back on air as the stream's settings say.
    """
    stream = await stream_of(catalog, request.auth, stream_id)
    with _as_it_stands():
        command = await catalog.streams.ask_drill(
            stream.id, now_us=now_us, deadline_us=ingest.deadline_us(now_us), by=request.auth.id
        )
    if command is None:
        raise missing("stream")
    came = await ingest.carried_out(command, now_us, done_seconds=DRILL_SECONDS)
    if came is None or came.standing in (Standing.LATE, Standing.WAITING):
        raise _unavailable(_NO_DRILL)
    if came.standing is Standing.TAKEN:
        raise _unavailable(_SLOW_DRILL)
    refused = came.answer.get("refused")
    if refused is not None:
        raise ApiError(HTTPStatus.CONFLICT, _sentence(str(refused)))
    return Drilled(message="Failover drilled.", drill=msgspec.convert(came.answer, Drill))


def _sentence(reason: str) -> str:
    """Return a reason as one that stands by itself."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."


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
    record = found(await catalog.streams.find(stream.id))
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


HANDLERS: Final = (
    end_stream,
    pause_stream,
    resume_stream,
    drill_failover,
    rotate_key,
    delete_stream,
)
