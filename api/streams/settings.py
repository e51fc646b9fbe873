"""What a stream's runs do: set for one stream, or for all of a project that say nothing themselves.

What is set counts for an encoder that connects from then on.
"""

from typing import Final

import msgspec
from litestar import get, put
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.json_body import described, read_body
from api.http.parameters import RecordId, missing
from api.library.projects import ProjectId, project_of
from api.schemas.presenter import Presenter
from api.schemas.urls import Addresses
from api.streams.lookup import LOOKS, STREAM, WRITES, Call, stream_of
from api.streams.schemas import (
    Failover,
    Recording,
    Settings,
    SettingsChanged,
    SettingsData,
    SettingsEdit,
    Slate,
)
from storage.catalog import Catalog
from storage.catalog.records.settings import (
    FailoverChange,
    OwnerSettings,
    RecordingChange,
    SettingsChange,
)

__all__ = ["HANDLERS", "shown"]

_STREAM: Final = f"{STREAM}/settings"
_PROJECT: Final = "/projects/{project_id:str}/settings"
_CHANGED: Final = "Settings updated."


def shown(record: OwnerSettings | None, noun: str, addresses: Addresses) -> Settings:
    """Return what was set, for a stream or a project that was there a moment ago.

    Raises:
        ApiError: 404 where it was deleted meanwhile.
    """
    if record is None:
        raise missing(noun)
    picture = None if record.slate is None else addresses.slate(record.slate)
    return Settings(
        failover=Failover(**msgspec.structs.asdict(record.failover)),
        slate=Slate(picture=picture),
        recording=Recording(**msgspec.structs.asdict(record.recording)),
    )


async def _change(request: Call) -> SettingsChange:
    body = await read_body(request, SettingsEdit)
    change = SettingsChange()
    if body.failover is not msgspec.UNSET:
        failover = FailoverChange(**msgspec.structs.asdict(body.failover))
        change = msgspec.structs.replace(change, failover=failover)
    if body.recording is not msgspec.UNSET:
        recording = RecordingChange(**msgspec.structs.asdict(body.recording))
        change = msgspec.structs.replace(change, recording=recording)
    return change


@get(_STREAM, summary="Show a stream's settings", tags=["streams"], responses=LOOKS)
async def show_settings(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
) -> SettingsData:
    """Show what was set for a stream; null where its project's settings hold."""
    stream = await stream_of(catalog, request.auth, stream_id)
    return SettingsData(
        data=shown(await catalog.settings.find_stream(stream.id), "stream", presenter.addresses)
    )


@put(
    _STREAM,
    guards=[needs_write],
    operation_class=described(SettingsEdit),
    summary="Set what a stream's runs do",
    tags=["streams"],
    responses=WRITES,
)
async def change_settings(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> SettingsChanged:
    """Set who is on air, how long a run waits, what is recorded; null takes back what was set."""
    stream = await stream_of(catalog, request.auth, stream_id)
    change = await _change(request)
    record = await catalog.settings.change_stream(
        stream.id, change, now_us=now_us, by=request.auth.id
    )
    return SettingsChanged(message=_CHANGED, settings=shown(record, "stream", presenter.addresses))


@get(_PROJECT, summary="Show a project's settings", tags=["projects"], responses=LOOKS)
async def show_project_settings(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
) -> SettingsData:
    """Show what was set for a project's streams; null where the service's own settings hold."""
    project = await project_of(catalog, request.auth, project_id)
    return SettingsData(
        data=shown(await catalog.settings.find_project(project.id), "project", presenter.addresses)
    )


@put(
    _PROJECT,
    guards=[needs_write],
    operation_class=described(SettingsEdit),
    summary="Set what the runs of a project's streams do",
    tags=["projects"],
    responses=WRITES,
)
async def change_project_settings(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
) -> SettingsChanged:
    """Set the same for all streams of a project that have no setting of their own."""
    project = await project_of(catalog, request.auth, project_id)
    change = await _change(request)
    record = await catalog.settings.change_project(
        project.id, change, now_us=now_us, by=request.auth.id
    )
    return SettingsChanged(message=_CHANGED, settings=shown(record, "project", presenter.addresses))


HANDLERS: Final = (
    show_settings,
    change_settings,
    show_project_settings,
    change_project_settings,
)
