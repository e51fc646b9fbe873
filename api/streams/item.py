"""One stream: shown, edited, published, unpublished, deleted; its backups."""

from http import HTTPStatus
from typing import Final

from litestar import Controller, Response, post

from api.http.auth import needs_write
from api.http.conditional import IfMatch, tagged, unless_edited
from api.http.errors import ApiError, documented
from api.http.operation import CHANGE_ERRORS, commands, deletes, edits, shows
from api.http.parameters import RecordId, missing, number_of
from api.library.references import read_details
from api.streams.command_client import GivenIngest
from api.streams.lookup import STREAM, StreamCall, stream_tag
from api.streams.presenter import stream_changed
from api.streams.schemas import BackupAdded, StreamChanged, StreamData, StreamEdit
from storage.catalog.records.details import StreamDetails
from storage.errors import BackupInUse, TooManyBackups

_BACKUPS: Final = "/backups"
_BACKUP: Final = "/backups/{backup_id:str}"


class StreamController(Controller):
    """One stream."""

    path = "/streams/{stream_id:str}"
    tags = ("streams",)
    dependencies = STREAM

    @shows("Show a stream")
    async def show_stream(self, call: StreamCall) -> Response[StreamData]:
        """Show a stream in full; its key is hidden from a token that may not write.

        `ETag` names this version of what can be edited.
        """
        shown = StreamData(data=call.presenter.stream(call.record, show_key=call.caller.write))
        return tagged(shown, stream_tag(call.record))

    @edits("Edit a stream", StreamEdit, errors=[HTTPStatus.PRECONDITION_FAILED])
    async def edit_stream(
        self, call: StreamCall, if_match: IfMatch = None
    ) -> Response[StreamChanged]:
        """Change what is sent of a stream; resolutions count from its next run."""
        edit = read_details(await call.body(StreamEdit), StreamDetails)
        check = unless_edited(if_match, stream_tag)
        edited = await call.catalog.streams.edit(call.record.id, edit, call.change(), check=check)
        answer = stream_changed(call, "Stream updated.", edited)
        return tagged(answer, stream_tag(call.still_there(edited)))

    @commands("Publish a stream", "/publish")
    async def publish_stream(self, call: StreamCall) -> StreamChanged:
        """Show a stream to viewers; before its first run its pages wait for it."""
        record = await call.catalog.streams.publish(call.record.id, call.change())
        return stream_changed(call, "Stream published.", record)

    @commands("Unpublish a stream", "/unpublish")
    async def unpublish_stream(self, call: StreamCall) -> StreamChanged:
        """Hide a stream from viewers until it is published again, whatever runs meanwhile."""
        record = await call.catalog.streams.unpublish(call.record.id, call.change())
        return stream_changed(call, "Stream unpublished.", record)

    @deletes("Delete a stream")
    async def delete_stream(self, call: StreamCall, ingest: GivenIngest) -> None:
        """Delete a stream: its encoders are disconnected, its run ends, nothing of it plays.

        It can be restored from the project's trash for some days (`trash.keep_days`).
        """
        change = call.change()
        command = call.still_there(await call.catalog.streams.remove(call.record.id, change))
        keeps_media = change.keep_us > 0
        await ingest.finish_removal(command, call.record.hash, keeps_media=keeps_media)

    @post(
        _BACKUPS,
        guards=[needs_write],
        summary="Add a backup",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def add_backup(self, call: StreamCall) -> BackupAdded:
        """Give a stream one more ingest address, with a number that it never had before."""
        try:
            added = await call.catalog.streams.add_backup(call.record.id, call.change())
        except TooManyBackups as error:
            message = f"A stream may have at most {error.limit} backups."
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        record, number = call.still_there(added)
        backup = next(
            each
            for each in call.presenter.stream(record, show_key=False).backups
            if each.id == number
        )
        return BackupAdded(message="Backup added.", backup=backup)

    @deletes("Delete a backup", _BACKUP, errors=[HTTPStatus.CONFLICT])
    async def delete_backup(self, call: StreamCall, backup_id: RecordId) -> None:
        """Remove a backup ingest address while no encoder sends to it."""
        backup = number_of(backup_id, "backup")
        try:
            removed = await call.catalog.streams.remove_backup(
                call.record.id, backup, call.change()
            )
        except BackupInUse as error:
            message = f"An encoder is sending to backup {error.number}: it cannot be deleted now."
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        if not removed:
            raise missing("backup")
