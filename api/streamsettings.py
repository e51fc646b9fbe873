"""What a stream's runs do: set for one stream, or for all of a project that say nothing themselves.

What is set counts for an encoder that connects from then on.
"""

from typing import Final

import msgspec
from litestar import get, put
from litestar.di import NamedDependency

from api.auth import needs_write
from api.bodies import described, read_body
from api.parameters import RecordId, missing
from api.projects import ProjectId, project_of
from api.streamforms import Failover, Settings, SettingsChanged, SettingsData, SettingsEdit
from api.streampaths import LOOKS, STREAM, WRITES, Call, stream_of
from storage.catalog import Catalog
from storage.catalog.streamsettings import Failover as FailoverRecord
from storage.catalog.streamsettings import FailoverChange

__all__ = ["HANDLERS"]

_STREAM: Final = f"{STREAM}/settings"
_PROJECT: Final = "/projects/{project_id:str}/settings"
_CHANGED: Final = "Settings updated."


def _shown(record: FailoverRecord | None, noun: str) -> Settings:
    if record is None:  # deleted since it was looked up
        raise missing(noun)
    return Settings(
        failover=Failover(
            reconnect_seconds=record.reconnect_seconds, goodbye_seconds=record.goodbye_seconds
        )
    )


async def _change(request: Call) -> FailoverChange:
    body = await read_body(request, SettingsEdit)
    if body.failover is msgspec.UNSET:
        return FailoverChange()
    return FailoverChange(
        reconnect_seconds=body.failover.reconnect_seconds,
        goodbye_seconds=body.failover.goodbye_seconds,
    )


@get(_STREAM, summary="Show a stream's settings", tags=["streams"], responses=LOOKS)
async def show_settings(
    request: Call, stream_id: RecordId, catalog: NamedDependency[Catalog]
) -> SettingsData:
    """Show what was set for a stream; null where its project's settings hold."""
    stream = await stream_of(catalog, request.auth, stream_id)
    return SettingsData(data=_shown(await catalog.streams.settings(stream.id), "stream"))


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
    now_us: NamedDependency[int],
) -> SettingsChanged:
    """Set how long a run waits for its encoder; null takes back what was set."""
    stream = await stream_of(catalog, request.auth, stream_id)
    change = await _change(request)
    record = await catalog.streams.set(stream.id, change, now_us=now_us, by=request.auth.id)
    return SettingsChanged(message=_CHANGED, settings=_shown(record, "stream"))


@get(_PROJECT, summary="Show a project's settings", tags=["projects"], responses=LOOKS)
async def show_project_settings(
    request: Call, project_id: ProjectId, catalog: NamedDependency[Catalog]
) -> SettingsData:
    """Show what was set for a project's streams; null where the service's own settings hold."""
    project = await project_of(catalog, request.auth, project_id)
    return SettingsData(data=_shown(await catalog.streams.project_settings(project.id), "project"))


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
    now_us: NamedDependency[int],
) -> SettingsChanged:
    """Set the same for all streams of a project that have no setting of their own."""
    project = await project_of(catalog, request.auth, project_id)
    change = await _change(request)
    record = await catalog.streams.set_project(
        project.id, change, now_us=now_us, by=request.auth.id
    )
    return SettingsChanged(message=_CHANGED, settings=_shown(record, "project"))


HANDLERS: Final = (
    show_settings,
    change_settings,
    show_project_settings,
    change_project_settings,
)
