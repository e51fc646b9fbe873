"""The picture that viewers get while nobody is on air: set for a stream, or for a whole project.

A stream without one of its own shows its project's, and a project without one the card of the
service. It counts for an encoder that connects from then on.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec
from litestar import delete, put
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import documented, invalid
from api.http.multipart import MAX_TEXT_BYTES, FileField, read_form
from api.http.multipart_schemas import SlateForm
from api.http.parameters import RecordId, missing
from api.library.projects import ProjectId, project_of
from api.ports import FileRefused
from api.schemas.presenter import Presenter
from api.streams.lookup import CHANGES, STREAM, Call, stream_of
from api.streams.schemas import SettingsChanged
from api.streams.settings import shown
from api.uploads.single_request import (
    FRAME,
    MAX_POSTER,
    REFUSALS,
    Intake,
    announced,
    guarded,
    stored,
)
from media.stream_keys import new_hash
from storage.catalog import Catalog
from storage.catalog.records.settings import OwnerSettings, SlateChange
from storage.errors import StorageError
from storage.objects.addresses import slate_folder, slate_picture
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import IncomingFile, open_incoming_file

__all__ = ["HANDLERS"]

log = logging.getLogger(__name__)

_STREAM: Final = f"{STREAM}/slate"
_PROJECT: Final = "/projects/{project_id:str}/slate"
_FIELD: Final = "picture"
_MOST: Final = MAX_POSTER + MAX_TEXT_BYTES + FRAME
_CHANGED: Final = "Slate updated."


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Whose picture it is: `owner` as in its address, how it is set and looked at."""

    noun: str
    owner: str
    change: Callable[[str | None], Awaitable[SlateChange | None]]
    look: Callable[[], Awaitable[OwnerSettings | None]]


async def _of_stream(
    catalog: Catalog, request: Call, stream_id: str, clock_us: Callable[[], int]
) -> _Place:
    stream = await stream_of(catalog, request.auth, stream_id)

    async def change(name: str | None) -> SlateChange | None:
        return await catalog.settings.set_stream_slate(
            stream.id, name, now_us=clock_us(), by=request.auth.id
        )

    look = partial(catalog.settings.find_stream, stream.id)
    return _Place(noun="stream", owner=f"s-{stream.hash}", change=change, look=look)


async def _of_project(
    catalog: Catalog, request: Call, project_id: str, clock_us: Callable[[], int]
) -> _Place:
    project = await project_of(catalog, request.auth, project_id)

    async def change(name: str | None) -> SlateChange | None:
        return await catalog.settings.set_project_slate(
            project.id, name, now_us=clock_us(), by=request.auth.id
        )

    look = partial(catalog.settings.find_project, project.id)
    return _Place(noun="project", owner=f"p-{project.key}", change=change, look=look)


async def _put(request: Call, intake: Intake, place: _Place) -> OwnerSettings:
    """Take a picture in and have it shown; returns what is set then.

    Raises:
        ApiError: the form is wrong, it holds no picture that can be shown, or there is no room.
    """
    guarded(intake, announced(request))
    async with (
        stored(intake, request.auth.id),
        open_incoming_file(
            intake.objects, max_bytes=MAX_POSTER, min_free_bytes=intake.least_free
        ) as file,
    ):
        fields = {_FIELD: FileField(inflow=file, limit_text=f"{MAX_POSTER} bytes")}
        form = await read_form(request, texts={}, files=fields, stall_seconds=intake.quiet_seconds)
        if _FIELD not in form.files:
            raise invalid({_FIELD: ["The picture is required."]})
        picture = await _made(intake, file)
        name = new_hash()
        address = slate_picture(place.owner, name)
        await intake.objects.put(address, picture)
        try:
            made = await place.change(name)
        except StorageError:
            await _undone(intake.objects, place, address)
            raise
    return await _replaced(intake.objects, place, made)


async def _made(intake: Intake, file: IncomingFile) -> bytes:
    """Return a picture as it is to be shown.

    Raises:
        ApiError: 422 where it is none that can be.
    """
    await file.flush()
    try:
        return await intake.slate(file.path)
    except FileRefused as error:
        raise invalid({_FIELD: [error.reason]}) from error


async def _undone(objects: DiskObjects, place: _Place, address: str) -> None:
    """Remove a picture that was not set; where the catalog does not say so, it stays."""
    with contextlib.suppress(StorageError):
        chosen = await place.look()
        if chosen is None or chosen.slate != address:
            await objects.delete(address)


async def _replaced(objects: DiskObjects, place: _Place, made: SlateChange | None) -> OwnerSettings:
    """Remove what is not shown any more; returns what is set now.

    Raises:
        ApiError: 404 where the stream or the project was deleted meanwhile.
    """
    unused = slate_folder(place.owner) if made is None else made.unused
    if unused is not None:
        try:
            await (objects.delete_tree if made is None else objects.delete)(unused)
        except StorageError as error:
            log.warning("picture not removed", extra={"address": unused, "cause": str(error)})
    if made is None:
        raise missing(place.noun)
    return made.settings


def _answer(chosen: OwnerSettings, place: _Place, presenter: Presenter) -> SettingsChanged:
    settings = shown(chosen, place.noun, presenter.addresses)
    return SettingsChanged(message=_CHANGED, settings=settings)


@put(
    _STREAM,
    guards=[needs_write],
    request_max_body_size=_MOST,
    operation_class=SlateForm,
    summary="Give a stream a slate",
    tags=["streams"],
    responses=documented(*REFUSALS),
)
async def put_slate(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> SettingsChanged:
    """Show a picture of the owner's while nobody is on air, from the next encoder on."""
    place = await _of_stream(catalog, request, stream_id, clock_us)
    chosen = await _put(request, intake, place)
    return _answer(chosen, place, presenter)


@delete(
    _STREAM,
    guards=[needs_write],
    summary="Take a stream's slate back",
    tags=["streams"],
    responses=CHANGES,
)
async def delete_slate(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> None:
    """Show what the project shows while nobody is on air, from the next encoder on."""
    place = await _of_stream(catalog, request, stream_id, clock_us)
    await _replaced(intake.objects, place, await place.change(None))


@put(
    _PROJECT,
    guards=[needs_write],
    request_max_body_size=_MOST,
    operation_class=SlateForm,
    summary="Give a project's streams a slate",
    tags=["projects"],
    responses=documented(*REFUSALS),
)
async def put_project_slate(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> SettingsChanged:
    """Show a picture while nobody is on air in those streams that have none of their own."""
    place = await _of_project(catalog, request, project_id, clock_us)
    chosen = await _put(request, intake, place)
    return _answer(chosen, place, presenter)


@delete(
    _PROJECT,
    guards=[needs_write],
    summary="Take a project's slate back",
    tags=["projects"],
    responses=CHANGES,
)
async def delete_project_slate(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> None:
    """Show the card of the service while nobody is on air, from the next encoder on."""
    place = await _of_project(catalog, request, project_id, clock_us)
    await _replaced(intake.objects, place, await place.change(None))


HANDLERS: Final = (put_slate, delete_slate, put_project_slate, delete_project_slate)
