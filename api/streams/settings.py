"""What the runs of a stream do: set for one stream, or as the default of a project's streams.

A setting applies to encoders that connect after it was changed. `ETag` names a version of all but
the slate.
"""

from http import HTTPStatus
from typing import Final

from litestar import Controller, Response, get, put
from litestar.di import NamedDependency

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import BODY_ERRORS, READ_ERRORS
from api.http.errors import documented
from api.http.json_body import described, read_body
from api.http.preconditions import IfMatch, quoted, unless_edited
from api.library.lookup import PROJECT
from api.schemas.presenter import Presenter
from api.streams.lookup import STREAM
from api.streams.presenter import present_settings, settings_tag
from api.streams.schemas import SettingsChanged, SettingsData, SettingsEdit
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord, StreamRecord
from storage.catalog.records.settings import OwnerSettings

_CHANGED: Final = "Settings updated."


class StreamSettingsController(Controller):
    """The settings of one stream."""

    path = "/streams/{stream_id:str}/settings"
    tags = ("streams",)
    dependencies = STREAM

    @get(summary="Show a stream's settings", responses=documented(*READ_ERRORS))
    async def show_settings(
        self,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
    ) -> Response[SettingsData]:
        """Show what was set for a stream; null where its project's settings hold."""
        record = await catalog.stream_settings.find(stream.id)
        shown = SettingsData(data=present_settings(record, "stream", presenter.addresses))
        return Response(shown, headers=_version(record))

    @put(
        guards=[needs_write],
        operation_class=described(SettingsEdit),
        summary="Set what a stream's runs do",
        responses=documented(*BODY_ERRORS, HTTPStatus.PRECONDITION_FAILED),
    )
    async def change_settings(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[SettingsChanged]:
        """Set who is on air, how long a run waits, what is recorded, how late viewers are and how
        far they may go back; null takes back what was set.
        """
        change = await read_body(request, SettingsEdit)
        record = await catalog.stream_settings.change(
            stream.id,
            change,
            Change(now_us, by=request.auth.id),
            check=unless_edited(if_match, settings_tag),
        )
        settings = present_settings(record, "stream", presenter.addresses)
        changed = SettingsChanged(message=_CHANGED, settings=settings)
        return Response(changed, headers=_version(record))


class ProjectSettingsController(Controller):
    """The settings of all streams of a project."""

    path = "/projects/{project_id:str}/settings"
    tags = ("projects",)
    dependencies = PROJECT

    @get(summary="Show a project's settings", responses=documented(*READ_ERRORS))
    async def show_project_settings(
        self,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
    ) -> Response[SettingsData]:
        """Show what was set for a project's streams; null where the service's own settings hold."""
        record = await catalog.project_settings.find(project.id)
        shown = SettingsData(data=present_settings(record, "project", presenter.addresses))
        return Response(shown, headers=_version(record))

    @put(
        guards=[needs_write],
        operation_class=described(SettingsEdit),
        summary="Set what the runs of a project's streams do",
        responses=documented(*BODY_ERRORS, HTTPStatus.PRECONDITION_FAILED),
    )
    async def change_project_settings(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[SettingsChanged]:
        """Set the same for all streams of a project that have no setting of their own."""
        change = await read_body(request, SettingsEdit)
        record = await catalog.project_settings.change(
            project.id,
            change,
            Change(now_us, by=request.auth.id),
            check=unless_edited(if_match, settings_tag),
        )
        settings = present_settings(record, "project", presenter.addresses)
        changed = SettingsChanged(message=_CHANGED, settings=settings)
        return Response(changed, headers=_version(record))


def _version(record: OwnerSettings | None) -> dict[str, str]:
    return {} if record is None else {"ETag": quoted(settings_tag(record))}
