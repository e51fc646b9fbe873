"""One stream: shown, edited, published, unpublished, deleted; its backups."""

from http import HTTPStatus
from typing import Final

from litestar import Controller, Response, delete, get, post, put
from litestar.di import NamedDependency

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import BODY_ERRORS, CHANGE_ERRORS, READ_ERRORS
from api.http.errors import ApiError, documented
from api.http.json_body import described, read_body
from api.http.parameters import RecordId, missing, number_of, still_there
from api.http.preconditions import IfMatch, quoted, unless_edited
from api.library.references import read_details
from api.schemas.presenter import Presenter
from api.streams.command_client import IngestClient
from api.streams.lookup import STREAM, stream_tag
from api.streams.schemas import BackupAdded, StreamChanged, StreamData, StreamEdit
from storage.catalog import Catalog
from storage.catalog.records.common import StreamRecord
from storage.catalog.records.details import StreamDetails
from storage.errors import BackupInUse, TooManyBackups

_BACKUPS: Final = "/backups"
_BACKUP: Final = "/backups/{backup_id:str}"


class StreamController(Controller):
    """One stream."""

    path = "/streams/{stream_id:str}"
    tags = ("streams",)
    dependencies = STREAM

    @get(summary="Show a stream", responses=documented(*READ_ERRORS))
    async def show_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        presenter: NamedDependency[Presenter],
    ) -> Response[StreamData]:
        """Show a stream in full; its key is hidden from a token that may not write.

        `ETag` names this version of what can be edited.
        """
        shown = StreamData(data=presenter.stream(stream, show_key=request.auth.write))
        return Response(shown, headers={"ETag": quoted(stream_tag(stream))})

    @put(
        guards=[needs_write],
        operation_class=described(StreamEdit),
        summary="Edit a stream",
        responses=documented(*BODY_ERRORS, HTTPStatus.PRECONDITION_FAILED),
    )
    async def edit_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[StreamChanged]:
        """Change what is sent of a stream; resolutions count from its next run."""
        body = await read_body(request, StreamEdit)
        record = still_there(
            await catalog.streams.edit(
                stream.id,
                read_details(body, StreamDetails),
                now_us=now_us,
                by=request.auth.id,
                check=unless_edited(if_match, stream_tag),
            ),
            "stream",
        )
        changed = StreamChanged(
            message="Stream updated.", stream=presenter.stream(record, show_key=True)
        )
        return Response(changed, headers={"ETag": quoted(stream_tag(record))})

    @post(
        "/publish",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Publish a stream",
        responses=documented(*CHANGE_ERRORS),
    )
    async def publish_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
    ) -> StreamChanged:
        """Show a stream to viewers; before its first run its pages wait for it."""
        record = await catalog.streams.publish(stream.id, now_us=now_us, by=request.auth.id)
        return StreamChanged(
            message="Stream published.",
            stream=presenter.stream(still_there(record, "stream"), show_key=True),
        )

    @post(
        "/unpublish",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Unpublish a stream",
        responses=documented(*CHANGE_ERRORS),
    )
    async def unpublish_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
    ) -> StreamChanged:
        """Hide a stream from viewers until it is published again, whatever runs meanwhile."""
        record = await catalog.streams.unpublish(stream.id, now_us=now_us, by=request.auth.id)
        return StreamChanged(
            message="Stream unpublished.",
            stream=presenter.stream(still_there(record, "stream"), show_key=True),
        )

    @delete(guards=[needs_write], summary="Delete a stream", responses=documented(*CHANGE_ERRORS))
    async def delete_stream(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        ingest: NamedDependency[IngestClient],
        now_us: NamedDependency[int],
    ) -> None:
        """Delete a stream: its encoders are disconnected, its run ends, its media are removed."""
        command = still_there(
            await catalog.streams.remove(stream.id, now_us=now_us, by=request.auth.id), "stream"
        )
        await ingest.finish_removal(command, stream.hash)

    @post(
        _BACKUPS,
        guards=[needs_write],
        summary="Add a backup",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def add_backup(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
    ) -> BackupAdded:
        """Give a stream one more ingest address, with a number that it never had before."""
        try:
            added = await catalog.streams.add_backup(stream.id, now_us=now_us, by=request.auth.id)
        except TooManyBackups as error:
            message = f"A stream may have at most {error.limit} backups."
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        record, number = still_there(added, "stream")
        backup = next(
            each for each in presenter.stream(record, show_key=False).backups if each.id == number
        )
        return BackupAdded(message="Backup added.", backup=backup)

    @delete(
        _BACKUP,
        guards=[needs_write],
        summary="Delete a backup",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.CONFLICT),
    )
    async def delete_backup(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        backup_id: RecordId,
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> None:
        """Remove a backup ingest address while no encoder sends to it."""
        backup = number_of(backup_id, "backup")
        try:
            removed = await catalog.streams.remove_backup(
                stream.id, backup, now_us=now_us, by=request.auth.id
            )
        except BackupInUse as error:
            message = f"An encoder is sending to backup {error.number}: it cannot be deleted now."
            raise ApiError(HTTPStatus.CONFLICT, message) from error
        if not removed:
            raise missing("backup")
