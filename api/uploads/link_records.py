"""Upload links as their project's people see them: listed, taken away.

How one is made and used is in `api.uploads.link_endpoints`. What its address holds is shown
nowhere again.
"""

import contextlib
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
from litestar import Request, delete, get
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import documented
from api.http.paging import envelope, read_query
from api.http.parameters import PageNumber, RecordId, missing, number_of
from api.library.projects import ProjectId, project_of
from api.schemas.common import Listing
from api.schemas.presenter import Presenter
from api.schemas.timestamps import format_timestamp
from api.uploads.single_request import Intake
from storage.catalog import Catalog
from storage.catalog.records.common import Principal
from storage.catalog.records.uploads import ListedLink
from storage.objects import addresses
from storage.objects.base import ObjectError

__all__ = ["HANDLERS"]

_LIST: Final = "/projects/{project_id:str}/upload-links"

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application


class ListedUploadLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link in a list; `title` is the one that its video gets, null where the uploader says it.

    `video_id` is the video whose file it replaces, null where it makes a new one.
    """

    id: int
    title: str | None
    state: Literal["open", "used", "expired"]
    most_bytes: int
    created_at: str
    expires_at: str
    used_at: str | None
    video_id: int | None


def _shown(record: ListedLink, now_us: int) -> ListedUploadLink:
    over: Literal["open", "expired"] = "expired" if record.expires_us <= now_us else "open"
    return ListedUploadLink(
        id=record.id,
        title=record.wanted.title,
        state=over if record.used_us is None else "used",
        most_bytes=record.most_bytes,
        created_at=format_timestamp(record.created_us),
        expires_at=format_timestamp(record.expires_us),
        used_at=None if record.used_us is None else format_timestamp(record.used_us),
        video_id=record.video,
    )


@get(
    _LIST,
    guards=[needs_write],
    summary="List upload links",
    tags=["videos"],
    responses=documented(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
)
async def list_upload_links(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    now_us: NamedDependency[int],
    page: PageNumber = None,
) -> Listing[ListedUploadLink]:
    """List a project's upload links in pages of ten, newest first; gone a week after their end.

    This takes a token that may write.
    """
    project = await project_of(catalog, request.auth, project_id)
    query = read_query(search=None, sort_column=None, sort_order=None, page=page, columns=())
    found = await catalog.links.page(project.id, query.page)
    where = f"{presenter.addresses.http}/api/projects/{quote(project_id, safe='')}/upload-links"
    items = [_shown(record, now_us) for record in found.items]
    return envelope(found, items, path=where, filters=())


@delete(
    f"{_LIST}/{{link_id:str}}",
    guards=[needs_write],
    summary="Delete an upload link",
    tags=["videos"],
    responses=documented(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
    ),
)
async def delete_upload_link(
    request: Call,
    project_id: ProjectId,
    link_id: RecordId,
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    now_us: NamedDependency[int],
) -> None:
    """End a link at once, and what is still coming through it; a video that has its file stays."""
    project = await project_of(catalog, request.auth, project_id)
    number = number_of(link_id, "upload link")
    ended = await catalog.uploads.end_link(project.id, number, now_us, by=request.auth.id)
    if ended is None:
        raise missing("upload link")
    for name in ended:
        with contextlib.suppress(ObjectError):  # goes with the uploads that nobody goes on with
            await intake.objects.delete(addresses.upload(name))


HANDLERS: Final = (list_upload_links, delete_upload_link)
