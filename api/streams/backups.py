"""A stream's backups: further ingest addresses."""

from http import HTTPStatus
from typing import Final

from litestar import delete, post
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import ApiError, documented
from api.http.parameters import RecordId, missing, number_of
from api.schemas.presenter import Presenter
from api.streams.lookup import CHANGES, STREAM, Call, stream_of
from api.streams.schemas import BackupAdded
from storage.catalog import Catalog
from storage.errors import BackupInUse, TooManyBackups

__all__ = ["HANDLERS"]


@post(
    f"{STREAM}/backups",
    guards=[needs_write],
    summary="Add a backup",
    tags=["streams"],
    responses={**CHANGES, **documented(HTTPStatus.CONFLICT)},
)
async def add_backup(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> BackupAdded:
    """Give a stream one more ingest address, with a number that it never had before."""
    stream = await stream_of(catalog, request.auth, stream_id)
    try:
        added = await catalog.streams.add_backup(stream.id, now_us=now_us, by=request.auth.id)
    except TooManyBackups as error:
        message = f"A stream may have at most {error.limit} backups."
        raise ApiError(HTTPStatus.CONFLICT, message) from error
    if added is None:
        raise missing("stream")
    record, number = added
    backup = next(each for each in presenter.stream(record).backups if each.id == number)
    return BackupAdded(message="Backup added.", backup=backup)


@delete(
    f"{STREAM}/backups/{{backup_id:str}}",
    guards=[needs_write],
    summary="Delete a backup",
    tags=["streams"],
    responses={**CHANGES, **documented(HTTPStatus.CONFLICT)},
)
async def delete_backup(
    request: Call,
    stream_id: RecordId,
    backup_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> None:
    """Take an ingest address away, while no encoder sends to it."""
    stream = await stream_of(catalog, request.auth, stream_id)
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


HANDLERS: Final = (add_backup, delete_backup)
