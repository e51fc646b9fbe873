"""Slates: the picture that viewers get while no encoder is on air, of a stream or of a project.

A stream without a slate shows that of its project, and a project without one the picture that comes
with the service. A slate applies to encoders that connect after it was set.
"""

import contextlib
import logging
from typing import Final

from litestar import Controller

from api.http.errors import invalid
from api.http.operation import deletes, takes_form
from api.intake.form_schemas import SlateForm
from api.intake.upload_intake import (
    MAX_PICTURE,
    PICTURE_FORM_BYTES,
    GivenIntake,
    UploadIntake,
    received_file,
    token_holders,
)
from api.library.lookup import PROJECT, ProjectCall
from api.streams.lookup import STREAM, OwnerCall, StreamCall, settings_of
from api.streams.presenter import present_settings
from api.streams.schemas import SettingsChanged
from media.stream_keys import new_hash
from storage.catalog.records.common import ProjectRecord, StreamRecord
from storage.catalog.records.settings import OwnerSettings, SlateChange
from storage.errors import StorageError
from storage.file_intake import FileRefused
from storage.objects.addresses import slate_picture
from storage.objects.base import Objects
from storage.objects.incoming_file import IncomingFile

log = logging.getLogger(__name__)

_FIELD: Final = "picture"


class StreamSlateController(Controller):
    """The slate of one stream."""

    path = "/streams/{stream_id:str}/slate"
    tags = ("streams",)
    dependencies = STREAM

    @takes_form("Give a stream a slate", SlateForm, most=PICTURE_FORM_BYTES)
    async def put_slate(self, call: StreamCall, intake: GivenIntake) -> SettingsChanged:
        """Show a picture of the owner's while no encoder is on air, from the next encoder on."""
        return await _receive(call, intake)

    @deletes("Remove a stream's slate")
    async def delete_slate(self, call: StreamCall, intake: GivenIntake) -> None:
        """Show what the project shows while no encoder is on air, from the next encoder on."""
        await _remove(call, intake.objects)


class ProjectSlateController(Controller):
    """The slate of a project's streams that have none of their own."""

    path = "/projects/{project_id:str}/slate"
    tags = ("projects",)
    dependencies = PROJECT

    @takes_form("Give a project's streams a slate", SlateForm, most=PICTURE_FORM_BYTES)
    async def put_project_slate(self, call: ProjectCall, intake: GivenIntake) -> SettingsChanged:
        """Show a picture while no encoder is on air, in streams that have none of their own."""
        return await _receive(call, intake)

    @deletes("Remove a project's slate")
    async def delete_project_slate(self, call: ProjectCall, intake: GivenIntake) -> None:
        """Show the service's default slate while no encoder is on air, from the next encoder on."""
        await _remove(call, intake.objects)


def _owner(record: StreamRecord | ProjectRecord) -> tuple[int, str]:
    """Return the project that a slate counts for, and the folder in the slate's address."""
    if isinstance(record, StreamRecord):
        return record.project, f"s-{record.hash}"
    return record.id, f"p-{record.key}"


async def _receive(call: OwnerCall, intake: UploadIntake) -> SettingsChanged:
    """Receive a picture and set it as the owner's slate.

    Raises:
        ApiError: the form is invalid, the picture cannot be decoded, or the disk is full.
    """
    project, folder = _owner(call.record)
    holders = token_holders(call.caller.id, project)
    async with received_file(
        call.request, intake, _FIELD, most=MAX_PICTURE, holders=holders
    ) as file:
        slate = await _make_slate(intake, file)
        name = new_hash()
        address = slate_picture(folder, name)
        await intake.objects.put(address, slate)
        await intake.objects.make_durable(address)
        try:
            recorded = await settings_of(call).set_slate(call.record.id, name, call.change())
        except StorageError:
            await _remove_unset(call, intake.objects, address)
            raise
    settings = present_settings(
        await _remove_old(call, intake.objects, recorded, address), call.addresses
    )
    return SettingsChanged(message="Slate updated.", settings=settings)


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


async def _remove(call: OwnerCall, objects: Objects) -> None:
    """Leave the owner without a slate."""
    recorded = await settings_of(call).set_slate(call.record.id, None, call.change())
    await _remove_old(call, objects, recorded, None)


async def _remove_unset(call: OwnerCall, objects: Objects, address: str) -> None:
    """Delete a slate that was not recorded; keep it if the catalog does not answer."""
    with contextlib.suppress(StorageError):
        settings = await settings_of(call).find(call.record.id)
        if settings is None or settings.slate != address:
            await objects.delete(address)


async def _remove_old(
    call: OwnerCall, objects: Objects, recorded: SlateChange | None, received: str | None
) -> OwnerSettings:
    """Delete the slate that is no longer shown, and return the settings.

    `received` is the address of the picture that came, if one did: it alone is deleted if the owner
    of the slate is gone, which may be in the trash.

    Raises:
        ApiError: 404 if the stream or the project was deleted meanwhile.
    """
    unused = received if recorded is None else recorded.unused
    if unused is not None:
        try:
            if not await call.catalog.removals.are_held():
                await objects.delete(unused)
        except StorageError as error:
            log.warning("picture not removed", extra={"address": unused, "cause": str(error)})
    return call.still_there(recorded).settings
