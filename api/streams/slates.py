"""Slates: the picture that viewers get while no encoder is on air, of a stream or of a project.

A stream without a slate shows that of its project, and a project without one the picture that comes
with the service. A slate applies to encoders that connect after it was set.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Final

import msgspec
from litestar import Controller, delete, put
from litestar.di import NamedDependency, Provide

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import CHANGE_ERRORS, FORM_ERRORS
from api.http.errors import documented, invalid
from api.http.multipart_schemas import SlateForm
from api.http.parameters import missing
from api.intake.upload_intake import (
    MAX_PICTURE,
    PICTURE_FORM_BYTES,
    UploadIntake,
    received_file,
    token_holders,
)
from api.library.lookup import PROJECT
from api.schemas.presenter import Presenter
from api.streams.lookup import STREAM
from api.streams.presenter import present_settings
from api.streams.schemas import SettingsChanged
from media.stream_keys import new_hash
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord, StreamRecord
from storage.catalog.records.settings import OwnerSettings, SlateChange
from storage.catalog.streams.settings import SettingsRepository
from storage.errors import StorageError
from storage.file_intake import FileRefused
from storage.objects.addresses import slate_folder, slate_picture
from storage.objects.base import Objects
from storage.objects.incoming_file import IncomingFile

log = logging.getLogger(__name__)

_FIELD: Final = "picture"
_CHANGED: Final = "Slate updated."


class SlateOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The stream or the project (`noun`) whose slate a request of token `by` sets.

    `folder` is in the slate's address; the slate's name is among `settings`.
    """

    noun: str
    number: int
    project: int
    folder: str
    settings: SettingsRepository
    clock_us: Callable[[], int]
    by: int

    async def set_slate(self, name: str | None) -> SlateChange | None:
        """Record a slate by its name, None for no slate; None if the owner is gone."""
        return await self.settings.set_slate(self.number, name, Change(self.clock_us(), by=self.by))


def provide_stream_owner(
    request: ApiRequest,
    stream: NamedDependency[StreamRecord],
    catalog: NamedDependency[Catalog],
    clock_us: NamedDependency[Callable[[], int]],
) -> SlateOwner:
    """Return a stream as the owner of a slate."""
    return SlateOwner(
        noun="stream",
        number=stream.id,
        project=stream.project,
        folder=f"s-{stream.hash}",
        settings=catalog.stream_settings,
        clock_us=clock_us,
        by=request.auth.id,
    )


def provide_project_owner(
    request: ApiRequest,
    project: NamedDependency[ProjectRecord],
    catalog: NamedDependency[Catalog],
    clock_us: NamedDependency[Callable[[], int]],
) -> SlateOwner:
    """Return a project as the owner of a slate."""
    return SlateOwner(
        noun="project",
        number=project.id,
        project=project.id,
        folder=f"p-{project.key}",
        settings=catalog.project_settings,
        clock_us=clock_us,
        by=request.auth.id,
    )


_OF_STREAM: Final = {**STREAM, "owner": Provide(provide_stream_owner, sync_to_thread=False)}
_OF_PROJECT: Final = {**PROJECT, "owner": Provide(provide_project_owner, sync_to_thread=False)}


class StreamSlateController(Controller):
    """The slate of one stream."""

    path = "/streams/{stream_id:str}/slate"
    tags = ("streams",)
    dependencies = _OF_STREAM

    @put(
        guards=[needs_write],
        request_max_body_size=PICTURE_FORM_BYTES,
        operation_class=SlateForm,
        summary="Give a stream a slate",
        responses=documented(*FORM_ERRORS),
    )
    async def put_slate(
        self,
        request: ApiRequest,
        owner: NamedDependency[SlateOwner],
        presenter: NamedDependency[Presenter],
        intake: NamedDependency[UploadIntake],
    ) -> SettingsChanged:
        """Show a picture of the owner's while no encoder is on air, from the next encoder on."""
        return await _receive_slate(request, owner, presenter, intake)

    @delete(
        guards=[needs_write],
        summary="Remove a stream's slate",
        responses=documented(*CHANGE_ERRORS),
    )
    async def delete_slate(
        self, owner: NamedDependency[SlateOwner], intake: NamedDependency[UploadIntake]
    ) -> None:
        """Show what the project shows while no encoder is on air, from the next encoder on."""
        await _remove_old(intake.objects, owner, await owner.set_slate(None))


class ProjectSlateController(Controller):
    """The slate of a project's streams that have none of their own."""

    path = "/projects/{project_id:str}/slate"
    tags = ("projects",)
    dependencies = _OF_PROJECT

    @put(
        guards=[needs_write],
        request_max_body_size=PICTURE_FORM_BYTES,
        operation_class=SlateForm,
        summary="Give a project's streams a slate",
        responses=documented(*FORM_ERRORS),
    )
    async def put_project_slate(
        self,
        request: ApiRequest,
        owner: NamedDependency[SlateOwner],
        presenter: NamedDependency[Presenter],
        intake: NamedDependency[UploadIntake],
    ) -> SettingsChanged:
        """Show a picture while no encoder is on air, in streams that have none of their own."""
        return await _receive_slate(request, owner, presenter, intake)

    @delete(
        guards=[needs_write],
        summary="Remove a project's slate",
        responses=documented(*CHANGE_ERRORS),
    )
    async def delete_project_slate(
        self, owner: NamedDependency[SlateOwner], intake: NamedDependency[UploadIntake]
    ) -> None:
        """Show the service's default slate while no encoder is on air, from the next encoder on."""
        await _remove_old(intake.objects, owner, await owner.set_slate(None))


async def _receive_slate(
    request: ApiRequest, owner: SlateOwner, presenter: Presenter, intake: UploadIntake
) -> SettingsChanged:
    """Receive a picture and set it as the owner's slate.

    Raises:
        ApiError: the form is invalid, the picture cannot be decoded, or the disk is full.
    """
    async with received_file(
        request,
        intake,
        _FIELD,
        most=MAX_PICTURE,
        holders=token_holders(request.auth.id, owner.project),
    ) as file:
        slate = await _make_slate(intake, file)
        name = new_hash()
        address = slate_picture(owner.folder, name)
        await intake.objects.put(address, slate)
        await intake.objects.make_durable(address)
        try:
            recorded = await owner.set_slate(name)
        except StorageError:
            await _remove_unset(intake.objects, owner, address)
            raise
    record = await _remove_old(intake.objects, owner, recorded)
    settings = present_settings(record, owner.noun, presenter.addresses)
    return SettingsChanged(message=_CHANGED, settings=settings)


async def _make_slate(intake: UploadIntake, file: IncomingFile) -> bytes:
    """Return an uploaded picture as a slate.

    Raises:
        ApiError: 422 if it cannot be decoded.
    """
    await file.flush()
    try:
        return await intake.slate(file.path)
    except FileRefused as error:
        raise invalid({_FIELD: [error.reason]}) from error


async def _remove_unset(objects: Objects, owner: SlateOwner, address: str) -> None:
    """Delete a slate that was not recorded; keep it if the catalog does not answer."""
    with contextlib.suppress(StorageError):
        settings = await owner.settings.find(owner.number)
        if settings is None or settings.slate != address:
            await objects.delete(address)


async def _remove_old(
    objects: Objects, owner: SlateOwner, recorded: SlateChange | None
) -> OwnerSettings:
    """Delete the slate that is no longer shown, and return the settings.

    Raises:
        ApiError: 404 if the stream or the project was deleted meanwhile.
    """
    unused = slate_folder(owner.folder) if recorded is None else recorded.unused
    if unused is not None:
        try:
            await (objects.delete_tree if recorded is None else objects.delete)(unused)
        except StorageError as error:
            log.warning("picture not removed", extra={"address": unused, "cause": str(error)})
    if recorded is None:
        raise missing(owner.noun)
    return recorded.settings
