"""The page that adds videos: from files, from a web address, or through an upload link."""

from typing import Final

from litestar import Controller, Response, get
from litestar.di import NamedDependency

from api.console.page import Console
from api.http.auth import ApiRequest, needs_write
from api.intake.upload_intake import UploadIntake
from api.library.lookup import PROJECT
from storage.catalog import Catalog
from storage.catalog.records.common import ProjectRecord

__all__ = ["UploadPage"]

_FRAGMENTS: Final = {"links": "_upload_links.html"}


class UploadPage(Controller):
    """The page that adds videos."""

    path = "/{project_id:str}/upload"
    dependencies = PROJECT

    @get(guards=[needs_write])
    async def show_upload(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        intake: NamedDependency[UploadIntake | None],
        now_us: NamedDependency[int],
        console: NamedDependency[Console],
    ) -> Response[str]:
        """Show the page."""
        return console.page(
            request,
            "upload.html",
            fragments=_FRAGMENTS,
            project=project,
            most_bytes=0 if intake is None else intake.most_upload,
            keep_hours=0 if intake is None else intake.keep_us // 3_600_000_000,
            links=await catalog.links.find_page(project.id, 1),
            now_us=now_us,
        )
