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
from litestar import Controller

from api.http.errors import ApiError, unavailable
from api.http.operation import Call, commands
from api.streams.command_client import DRILL_SECONDS, GivenIngest
from api.streams.lookup import STREAM, StreamCall
from api.streams.presenter import stream_changed
from api.streams.schemas import Drill, Drilled, StreamChanged
from storage.catalog.records.common import StreamRecord
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

    @commands(
        "End a stream's run", "/end", errors=[HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE]
    )
    async def end_stream(self, call: StreamCall, ingest: GivenIngest) -> StreamChanged:
        """End the present run and disconnect its encoders.

        Viewers' playlists end. Encoders are refused until none has tried for 60 s (a setting of the
        service), or until they are allowed again; the next one begins a new run. The message says
        whether the run is over, or still ending.
        """
        change = call.change()
        deadline_us = ingest.deadline_us(change.now_us)
        command = call.still_there(
            await call.catalog.streams.request_end(call.record.id, change, deadline_us=deadline_us)
        )
        record = await ingest.wait_or_withdraw(command, change.now_us)
        if record is None or record.status is CommandStatus.LATE:
            raise unavailable(_NO_INGEST, _RETRY_SECONDS)
        is_done = record.status is CommandStatus.DONE
        if is_done and not record.answer.get("ended"):
            raise ApiError(HTTPStatus.CONFLICT, _NOTHING)
        message = "Stream ended." if is_done else "Stream is ending."
        return await _changed(call, message)

    @commands("Let a stream go live again", "/allow")
    async def allow_encoders(self, call: StreamCall) -> StreamChanged:
        """Let encoders connect again after the stream was ended, if they are refused."""
        found = await call.catalog.holds.allow(call.record.id, call.change())
        call.still_there(found or None)
        return await _changed(call, "Encoders are allowed.")

    @commands("Pause a stream", "/pause", errors=[HTTPStatus.CONFLICT])
    async def pause_stream(self, call: StreamCall, ingest: GivenIngest) -> StreamChanged:
        """Show viewers the slate until the stream is resumed; its encoders stay connected."""
        with _conflicts():
            command = await call.catalog.streams.pause(call.record.id, call.change())
        record = await ingest.wait(call.still_there(command))
        is_done = record is not None and record.status is CommandStatus.DONE
        if record is not None and is_done and not record.answer.get("done"):
            raise ApiError(HTTPStatus.CONFLICT, _OVER)
        return await _changed(call, "Stream paused.")

    @commands("Resume a stream", "/resume", errors=[HTTPStatus.CONFLICT])
    async def resume_stream(self, call: StreamCall, ingest: GivenIngest) -> StreamChanged:
        """Show viewers the encoder on air again, in the same playlist."""
        with _conflicts():
            command = await call.catalog.streams.resume(call.record.id, call.change())
        # The answer is of no interest: a run that ended meanwhile is not paused either.
        await ingest.wait(call.still_there(command))
        return await _changed(call, "Stream resumed.")

    @commands(
        "Drill a failover",
        "/failover-drill",
        errors=[HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE],
    )
    async def drill_failover(self, call: StreamCall, ingest: GivenIngest) -> Drilled:
        """Have the encoder on air count as lost until another has taken over, and say how that
        went.

        The answer comes when viewers get the other one, 20 s at the latest. The encoder stays
        connected, and comes back on air as the stream's settings say.
        """
        change = call.change()
        deadline_us = ingest.deadline_us(change.now_us)
        with _conflicts():
            requested = await call.catalog.streams.request_drill(
                call.record.id, change, deadline_us=deadline_us
            )
        command = call.still_there(requested)
        record = await ingest.wait_or_withdraw(command, change.now_us, done_seconds=DRILL_SECONDS)
        if record is None or record.status in (CommandStatus.LATE, CommandStatus.WAITING):
            raise unavailable(_NO_DRILL, _RETRY_SECONDS)
        if record.status is CommandStatus.TAKEN:
            raise unavailable(_SLOW_DRILL, _RETRY_SECONDS)
        refused = record.answer.get("refused")
        if refused is not None:
            raise ApiError(HTTPStatus.CONFLICT, _sentence(str(refused)))
        return Drilled(message="Failover drilled.", drill=msgspec.convert(record.answer, Drill))

    @commands("Change a stream's key", "/rotate-key")
    async def rotate_key(self, call: StreamCall, ingest: GivenIngest) -> StreamChanged:
        """Give a stream a fresh key; encoders with the old one are disconnected.

        The run goes on for an encoder that comes back with the new key in time.
        """
        command = call.still_there(await call.catalog.streams.rotate(call.record.id, call.change()))
        await ingest.wait(command)
        return await _changed(call, "Stream key changed.")


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


async def _changed(call: Call[StreamRecord], message: str) -> StreamChanged:
    return stream_changed(call, message, await call.catalog.streams.find(call.record.id))
