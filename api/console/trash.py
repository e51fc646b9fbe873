"""The trash of a project, and that of the installation: restored, deleted for good."""

from typing import Final

from litestar import Response, get
from litestar.params import FromQuery

from api.console.page import GivenConsole
from api.http.auth import needs_all_projects
from api.http.operation import PlainCall
from api.http.parameters import read_query
from api.library.lookup import PROJECT, ProjectCall

_PAGE: Final = "trash.html"
_FRAGMENTS: Final = {"trash": "_trash.html"}


def _link(number: int) -> str:
    return f"?page={number}"


@get("/{project_id:str}/trash", dependencies=PROJECT)
async def trash_page(
    call: ProjectCall, console: GivenConsole, page: FromQuery[str | None] = None
) -> Response[str]:
    """Show what a project can restore."""
    number = read_query(page=page or None).page
    found = await call.catalog.trash.find_page(call.record.id, number, call.now_us())
    return console.page(
        call.request, _PAGE, fragments=_FRAGMENTS, trash=found, link=_link, project=call.record
    )


@get("/trash", guards=[needs_all_projects])
async def deleted_projects_page(
    plain: PlainCall, console: GivenConsole, page: FromQuery[str | None] = None
) -> Response[str]:
    """Show the deleted projects, to tokens for all projects."""
    number = read_query(page=page or None).page
    found = await plain.catalog.trash.find_projects(number, plain.now_us())
    return console.page(plain.request, _PAGE, fragments=_FRAGMENTS, trash=found, link=_link)
