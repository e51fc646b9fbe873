"""What the runs of a stream do: set for one stream, or as the default of a project's streams.

A setting applies to encoders that connect after it was changed. `ETag` names a version of all but
the slate.
"""

from http import HTTPStatus
from typing import Final

from litestar import Controller, Response

from api.http.conditional import IfMatch, tagged, unless_edited
from api.http.operation import edits, shows
from api.library.lookup import PROJECT, ProjectCall
from api.streams.lookup import STREAM, OwnerCall, StreamCall, settings_of
from api.streams.presenter import present_settings, settings_tag
from api.streams.schemas import SettingsChanged, SettingsData, SettingsEdit

_ERRORS: Final = (HTTPStatus.PRECONDITION_FAILED,)


class StreamSettingsController(Controller):
    """The settings of one stream."""

    path = "/streams/{stream_id:str}/settings"
    tags = ("streams",)
    dependencies = STREAM

    @shows("Show a stream's settings")
    async def show_settings(self, call: StreamCall) -> Response[SettingsData]:
        """Show what was set for a stream; null where its project's settings hold."""
        return await _show(call)

    @edits("Set what a stream's runs do", SettingsEdit, errors=_ERRORS)
    async def change_settings(
        self, call: StreamCall, if_match: IfMatch = None
    ) -> Response[SettingsChanged]:
        """Set who is on air, how long a run waits, what is recorded, how late viewers are and how
        far they may go back; null takes back what was set.
        """
        return await _change(call, if_match)


class ProjectSettingsController(Controller):
    """The settings of all streams of a project."""

    path = "/projects/{project_id:str}/settings"
    tags = ("projects",)
    dependencies = PROJECT

    @shows("Show a project's settings")
    async def show_project_settings(self, call: ProjectCall) -> Response[SettingsData]:
        """Show what was set for a project's streams; null where the service's own settings hold."""
        return await _show(call)

    @edits("Set what the runs of a project's streams do", SettingsEdit, errors=_ERRORS)
    async def change_project_settings(
        self, call: ProjectCall, if_match: IfMatch = None
    ) -> Response[SettingsChanged]:
        """Set the same for all streams of a project that have no setting of their own."""
        return await _change(call, if_match)


async def _show(call: OwnerCall) -> Response[SettingsData]:
    record = call.still_there(await settings_of(call).find(call.record.id))
    shown = SettingsData(data=present_settings(record, call.addresses))
    return tagged(shown, settings_tag(record))


async def _change(call: OwnerCall, if_match: str | None) -> Response[SettingsChanged]:
    edit = await call.body(SettingsEdit)
    check = unless_edited(if_match, settings_tag)
    changed = await settings_of(call).change(call.record.id, edit, call.change(), check=check)
    record = call.still_there(changed)
    settings = present_settings(record, call.addresses)
    answer = SettingsChanged(message="Settings updated.", settings=settings)
    return tagged(answer, settings_tag(record))
