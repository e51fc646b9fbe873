"""The page that adds videos: from files, from a web address, or through an upload link."""

from typing import Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromQuery

from api.console.page import GivenConsole
from api.http.auth import needs_write
from api.http.parameters import read_query
from api.intake.upload_intake import UploadIntake
from api.library.lookup import PROJECT, ProjectCall

_HOUR_US: Final = 3_600_000_000
_FRAGMENTS: Final = {"links": "_upload_links.html"}


@get("/{project_id:str}/upload", dependencies=PROJECT, guards=[needs_write])
async def upload_page(
    call: ProjectCall,
    intake: NamedDependency[UploadIntake | None],
    console: GivenConsole,
    links: FromQuery[str | None] = None,
) -> Response[str]:
    """Show the page; `links` is the page of the upload links."""
    query = read_query(page=links or None)
    return console.page(
        call.request,
        "upload.html",
        fragments=_FRAGMENTS,
        project=call.record,
        most_bytes=0 if intake is None else intake.most_upload,
        keep_hours=0 if intake is None else intake.keep_us / _HOUR_US,
        links=await call.catalog.links.find_page(call.record.id, query.page),
        now_us=call.now_us(),
    )
