"""The trash: what was deleted or replaced, restored or removed for good.

A project's trash has its streams, its videos and the files that its videos had. Deleted projects
are in the trash of the installation, which takes a token for all projects.
"""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency, Provide

from api.http.auth import needs_all_projects
from api.http.errors import ApiError, documented
from api.http.operation import READ_ERRORS, Call, PlainCall, commands, deletes, shows
from api.http.parameters import PageNumber, RecordId, envelope, missing, number_of, read_query
from api.library.lookup import PROJECT, ProjectCall, list_url
from api.library.quotas import GivenQuotas
from api.ports import MediaRemover
from api.schemas.common import Listing, named_schema
from api.schemas.timestamps import format_timestamp
from storage.catalog.trash.repository import TrashRecord
from storage.errors import NoFormerFile, NoSuchProject, UploadInProgress

_NOUN: Final = "record in the trash"
_RESTORED: Final = {
    "stream": "Stream restored.",
    "video": "Video restored.",
    "file": "The former file is back.",
    "project": "Project restored.",
}

_WITH_MEDIA: Final = ("stream", "video")  # others are deleted in the background


class TrashItem(msgspec.Struct, frozen=True, kw_only=True):
    """What can be restored until `until`.

    `kind` is stream, video, file or project. `record` is the number that it had and will have
    again; a file has the number, the hash and the title of its video. `size` is in bytes, and
    counts for the project's quota until it is removed for good.
    """

    id: int
    kind: str
    record: int
    hash: str
    title: str
    size: int
    deleted_at: str
    until: str


class TrashAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to restoring something."""

    message: str
    trash: TrashItem


def _item(record: TrashRecord) -> TrashItem:
    return TrashItem(
        id=record.id,
        kind=record.kind,
        record=record.record,
        hash=record.hash,
        title=record.title,
        size=record.size,
        deleted_at=format_timestamp(record.deleted_us),
        until=format_timestamp(record.until_us),
    )


TrashCall = NamedDependency[Call[TrashRecord]]


async def provide_trash(plain: PlainCall, trash_id: RecordId) -> Call[TrashRecord]:
    """Return the call with what a path names in the trash.

    Raises:
        ApiError: 404 if it is not there, or if the caller's token does not reach it.
    """
    found = await plain.catalog.trash.find(number_of(trash_id, _NOUN), plain.now_us())
    if found is not None and found.kind == "project" and plain.caller.project is not None:
        raise missing(_NOUN)
    return plain.to(found, found and found.project, _NOUN)


_OF_ONE: Final = {"call": Provide(provide_trash)}


class ProjectTrashController(Controller):
    """What a project can restore."""

    path = "/projects/{project_id:str}/trash"
    tags = ("trash",)
    dependencies = PROJECT

    @shows("List a project's trash")
    async def list_trash(
        self, call: ProjectCall, page: PageNumber = None
    ) -> Annotated[Listing[TrashItem], named_schema("Listing_api.trash.TrashItem_")]:
        """List deleted streams and videos, and replaced files, in pages of thirty, newest first.

        They count for the project's quota until they are removed for good.
        """
        number = read_query(page=page).page
        found = await call.catalog.trash.find_page(call.record.id, number, call.now_us())
        data = [_item(record) for record in found.items]
        return envelope(found, data, path=list_url(call, "trash"), filters=())


class TrashController(Controller):
    """Deleted projects, and what is in any trash."""

    path = "/trash"
    tags = ("trash",)

    @get(
        guards=[needs_all_projects],
        summary="List deleted projects",
        responses=documented(*READ_ERRORS, HTTPStatus.FORBIDDEN),
    )
    async def list_deleted_projects(
        self, plain: PlainCall, page: PageNumber = None
    ) -> Annotated[Listing[TrashItem], named_schema("Listing_api.trash.TrashItem_")]:
        """List the deleted projects that can be restored; this takes a token for all projects."""
        found = await plain.catalog.trash.find_projects(read_query(page=page).page, plain.now_us())
        path = f"{plain.addresses.http}/api/trash"
        return envelope(found, [_item(record) for record in found.items], path=path, filters=())


class TrashItemController(Controller):
    """Something in the trash."""

    path = "/trash/{trash_id:str}"
    tags = ("trash",)
    dependencies = _OF_ONE

    @commands("Restore from the trash", "/restore", errors=[HTTPStatus.CONFLICT])
    async def restore_trash(self, call: TrashCall, quotas: GivenQuotas) -> TrashAnswer:
        """Restore a stream, a video or a project with its number, its addresses and its keys.

        A file takes the place of the video's present one, which is in the trash then. A project
        takes a token for all projects.
        """
        record = call.record
        if record.kind == "file":
            await _restore_file(call, quotas)
        else:
            try:
                restored = await call.catalog.trash.restore(record.id, call.change())
            except NoSuchProject as error:  # deleted meanwhile
                raise call.missing() from error
            call.still_there(restored)
        return TrashAnswer(message=_RESTORED[record.kind], trash=_item(record))

    @deletes("Remove from the trash for good")
    async def delete_trash(
        self, call: TrashCall, media: NamedDependency[MediaRemover | None]
    ) -> None:
        """Delete something for good: it cannot be restored any more, and its media are deleted."""
        removed = call.still_there(await call.catalog.trash.remove(call.record.id, call.change()))
        if media is not None and removed.kind in _WITH_MEDIA:
            await media.remove([removed.hash])


async def _restore_file(call: Call[TrashRecord], quotas: GivenQuotas) -> None:
    """Give a video a file again that it had.

    Raises:
        ApiError: 404 if the video or the file is gone, 409 if the video waits for its first file,
            403 if the project may have no more minutes transcoded.
    """
    record = call.record
    async with quotas.taking_back(record.project):
        try:
            whole = await call.catalog.former_files.take_back(
                record.record, call.change(), number=record.id
            )
        except NoFormerFile as error:
            raise call.missing() from error
        except UploadInProgress as error:
            message = "The video's first file is still coming."
            raise ApiError(HTTPStatus.CONFLICT, message) from error
    call.still_there(whole)
