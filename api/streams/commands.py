"""Commands to a stream's run: end, pause, resume, drill a failover, change the key; and to allow
encoders again after an end.

Each but the last is a change in the database and a command to the ingest role. The response is sent
once the ingest role has executed the command, or once it is clear that it will not do so in time.
"""

from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import msgspec
from litestar import Controller, post
from litestar.di import NamedDependency

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import CHANGE_ERRORS
from api.http.errors import ApiError, documented, unavailable
from api.http.parameters import still_there
from api.schemas.presenter import Presenter
from api.streams.command_client import DRILL_SECONDS, IngestClient
from api.streams.lookup import STREAM
from api.streams.schemas import Drill, Drilled, StreamChanged
from storage.catalog import Catalog
from storage.catalog.records.common import Change, StreamRecord
from storage.catalog.streams.commands import CommandStatus
from storage.errors import StreamStateConflict

_NOTHING: Final = "The stream has no run and no encoder: there is nothing to end."
_NO_INGEST: Final = "No process receives encoders now, so nothing was ended; try again in a moment."
_NO_DRILL: Final = "No process receives encoders now, so nothing was tried; try again in a moment."
_SLOW_DRILL: Final = "No other encoder has taken over so far; the events tell if one does."
_OVER: Final = "The stream's run is over: there is nothing to pause."
_RETRY_SECONDS: Final = 5


class StreamCommandsController(Controller):
    """Commands to a stream's run."""

    path = "/streams/{stream_id:str}"
    tags = ("streams",)
    dependencies = STREAM

    @post(
        "/end",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="End a stream's run",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    async def end_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        ingest: NamedDependency[IngestClient],
        now_us: NamedDependency[int],
    ) -> StreamChanged:
        """End the present run and disconnect its encoders.

        Viewers' playlists end. Encoders are refused until none has tried for 60 s (a setting of the
        service), or until they are allowed again; the next one begins a new run. The message says
        whether the run is over, or still ending.
        """
        command = still_there(
            await catalog.streams.request_end(
                stream.id,
                Change(now_us, by=request.auth.id),
                deadline_us=ingest.deadline_us(now_us),
            ),
            "stream",
        )
        record = await ingest.wait_or_withdraw(command, now_us)
        if record is None or record.status is CommandStatus.LATE:
            raise unavailable(_NO_INGEST, _RETRY_SECONDS)
        is_done = record.status is CommandStatus.DONE
        if is_done and not record.answer.get("ended"):
            raise ApiError(HTTPStatus.CONFLICT, _NOTHING)
        message = "Stream ended." if is_done else "Stream is ending."
        return await _changed(catalog, presenter, stream, message)

    @post(
        "/allow",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Let a stream go live again",
        responses=documented(*CHANGE_ERRORS),
    )
    async def allow_encoders(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
    ) -> StreamChanged:
        """Let encoders connect again after the stream was ended, if they are refused."""
        found = await catalog.holds.allow(stream.id, Change(now_us, by=request.auth.id))
        still_there(found or None, "stream")
        return await _changed(catalog, presenter, stream, "Encoders are allowed.")

    @post(
        "/pause",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Pause a stream",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def pause_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        ingest: NamedDependency[IngestClient],
        now_us: NamedDependency[int],
    ) -> StreamChanged:
        """Show viewers the slate until the stream is resumed; its encoders stay connected."""
        with _conflicts():
            command = still_there(
                await catalog.streams.pause(stream.id, Change(now_us, by=request.auth.id)), "stream"
            )
        record = await ingest.wait(command)
        is_done = record is not None and record.status is CommandStatus.DONE
        if record is not None and is_done and not record.answer.get("done"):
            raise ApiError(HTTPStatus.CONFLICT, _OVER)
        return await _changed(catalog, presenter, stream, "Stream paused.")

    @post(
        "/resume",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Resume a stream",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def resume_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        ingest: NamedDependency[IngestClient],
        now_us: NamedDependency[int],
    ) -> StreamChanged:
        """Show viewers the encoder on air again, in the same playlist."""
        with _conflicts():
            command = still_there(
                await catalog.streams.resume(stream.id, Change(now_us, by=request.auth.id)),
                "stream",
            )
        # The answer is of no interest: a run that ended meanwhile is not paused either.
        await ingest.wait(command)
        return await _changed(catalog, presenter, stream, "Stream resumed.")

    @post(
        "/failover-drill",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Drill a failover",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    async def drill_failover(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        ingest: NamedDependency[IngestClient],
        now_us: NamedDependency[int],
    ) -> Drilled:
        """Have the encoder on air count as lost until another has taken over, and say how that
        went.

        The answer comes when viewers get the other one, 20 s at the latest. The encoder stays
        connected, and comes back on air as the stream's settings say.
        """
        with _conflicts():
            command = still_there(
                await catalog.streams.request_drill(
                    stream.id,
                    Change(now_us, by=request.auth.id),
                    deadline_us=ingest.deadline_us(now_us),
                ),
                "stream",
            )
        record = await ingest.wait_or_withdraw(command, now_us, done_seconds=DRILL_SECONDS)
        if record is None or record.status in (CommandStatus.LATE, CommandStatus.WAITING):
            raise unavailable(_NO_DRILL, _RETRY_SECONDS)
        if record.status is CommandStatus.TAKEN:
            raise unavailable(_SLOW_DRILL, _RETRY_SECONDS)
        refused = record.answer.get("refused")
        if refused is not None:
            raise ApiError(HTTPStatus.CONFLICT, _sentence(str(refused)))
        return Drilled(message="Failover drilled.", drill=msgspec.convert(record.answer, Drill))

    @post(
        "/rotate-key",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Change a stream's key",
        responses=documented(*CHANGE_ERRORS),
    )
    async def rotate_key(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        ingest: NamedDependency[IngestClient],
        now_us: NamedDependency[int],
    ) -> StreamChanged:
        """Give a stream a fresh key; encoders with the old one are disconnected.

        The run goes on for an encoder that comes back with the new key in time.
        """
        command = still_there(
            await catalog.streams.rotate(stream.id, Change(now_us, by=request.auth.id)), "stream"
        )
        await ingest.wait(command)
        return await _changed(catalog, presenter, stream, "Stream key changed.")


@contextmanager
def _conflicts() -> Generator[None, None, None]:
    """Answer 409 to a command that is impossible in the stream's present state."""
    try:
        yield
    except StreamStateConflict as error:
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error


def _sentence(reason: str) -> str:
    """Return the ingest role's reason as a sentence of its own."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."


async def _changed(
    catalog: Catalog, presenter: Presenter, stream: StreamRecord, message: str
) -> StreamChanged:
    record = still_there(await catalog.streams.find(stream.id), "stream")
    return StreamChanged(message=message, stream=presenter.stream(record, show_key=True))
