"""Videos whose files are fetched from an address on the web.

Here the address is only looked at, and written down with the video: who fetches it is a worker,
which looks its name up and checks where that leads. The address is shown by no operation.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import documented, invalid
from api.http.filenames import file_title, slug
from api.http.json_body import described, read_body
from api.library.countries import CountryReferences, read_countries
from api.library.labels import TagReferences, wanted_tags
from api.library.projects import ProjectId, project_of
from api.schemas.text_fields import Description, OptionalTitle
from api.videos.presenter import VideoPresenter
from api.videos.schemas import VideoAdded
from storage.catalog import Catalog
from storage.catalog.library.labels import TagById
from storage.catalog.records.common import Principal
from storage.catalog.records.uploads import Wanted
from storage.catalog.videos.imports import NewImport
from storage.errors import NoSuchLabel
from storage.fetch_policy import (
    BadWebAddress,
    Network,
    WebAddress,
    is_fetchable,
    is_ip_literal,
    parse_web_address,
)

__all__ = ["HANDLERS", "ImportRules"]

_NAMELESS: Final = "video"
_REFUSALS: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
)

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application


class ImportRules:
    """Where files may be fetched from: the ports, and networks that are not public.

    No struct: the framework would look into what it hands to an operation, and knows no networks.
    """

    def __init__(
        self, *, ports: frozenset[int] = frozenset({80, 443}), allowed: Sequence[Network] = ()
    ) -> None:
        self.ports = ports
        self.allowed = allowed


class ImportOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to have a file fetched; all but the address as in an upload."""

    url: str
    title: OptionalTitle | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    category: int | None = None
    countries: CountryReferences | None = None
    tags: TagReferences | None = None


def _address(url: str, rules: ImportRules) -> WebAddress:
    """Return the address.

    Raises:
        ApiError: 422 where it is none, or says itself that it leads into a private network.
    """
    try:
        address = parse_web_address(url, rules.ports)
    except BadWebAddress as error:
        raise invalid({"url": [error.reason]}) from None  # the address stays out of all texts
    if is_ip_literal(address.host) and not is_fetchable(address.host, rules.allowed):
        raise invalid({"url": ["The address leads to a private network."]})
    return address


@post(
    "/projects/{project_id:str}/imports",
    guards=[needs_write],
    operation_class=described(ImportOrder),
    summary="Import a video from an address",
    tags=["videos"],
    responses=documented(*_REFUSALS),
)
async def import_video(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    import_rules: NamedDependency[ImportRules],
    now_us: NamedDependency[int],
) -> VideoAdded:
    """Have a file fetched and made playable; its progress is told by web socket."""
    project = await project_of(catalog, request.auth, project_id)
    order = await read_body(request, ImportOrder)
    address = _address(order.url, import_rules)
    name = address.file_name or _NAMELESS
    new = NewImport(
        url=address.url,
        host=address.host,
        hash=await catalog.videos.free_hash(),
        file_title=file_title(name),
        slug=slug(name),
        wanted=_wanted(order),
    )
    try:
        whole = await catalog.imports.ask(project.id, new, now_us, by=request.auth.id)
    except NoSuchLabel as error:
        field = "tags" if error.kind == "tag" else error.kind
        reason = f"There is no {error.kind} {error.number} in this project."
        raise invalid({field: [reason]}) from error
    return video_presenter.added(whole)


def _wanted(order: ImportOrder) -> Wanted:
    unset = msgspec.UNSET
    tags = wanted_tags(order.tags or [])
    return Wanted(
        title=None if order.title is unset else str(order.title) or None,
        description="" if order.description is unset else str(order.description),
        category=order.category,
        countries=tuple(country.number for country in read_countries(order.countries or [])),
        tags=tuple(tag.id if isinstance(tag, TagById) else tag.name for tag in tags),
    )


HANDLERS: Final = (import_video,)
