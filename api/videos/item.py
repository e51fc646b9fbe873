"""Videos: listed, shown, edited, deleted.

Files are taken in `api.uploads.single_request`; what happens to a video is asked and told in
`api.videos.state`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from litestar import Request, delete, get, put
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter

from api.http.auth import needs_write
from api.http.errors import ApiError, documented, invalid
from api.http.json_body import described, read_body
from api.http.paging import envelope, read_query
from api.http.parameters import PageNumber, RecordId, Search, missing, number_of
from api.library.countries import CountryReferences, read_countries
from api.library.labels import TagReferences, wanted_tags
from api.library.projects import ProjectId, project_of
from api.ports import MediaRemover
from api.schemas.common import Listing
from api.schemas.text_fields import Description, OptionalTitle
from api.videos.presenter import VideoPresenter
from api.videos.schemas import PlayerChoice, VideoChanged, VideoData, VideoItem
from storage.catalog import Catalog
from storage.catalog.records.common import Principal
from storage.catalog.records.videos import Phase, VideoQuery, WholeVideo
from storage.catalog.videos.edits import VideoChange
from storage.errors import NoSuchLabel

__all__ = ["HANDLERS", "still", "video_of"]

_LIST: Final = "/projects/{project_id:str}/videos"
_ONE: Final = "/videos/{video_id:str}"
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_RECENT: Final = timedelta(days=7)
_PHASES: Final[Mapping[str, Phase]] = {
    "completed": "completed",
    "inprogress": "inprogress",
    "failed": "failed",
}
_TYPES: Final = ("completed", "recent", "inprogress", "failed")
_FIELDS: Final = {"tag": "tags", "category": "category", "player": "player"}
_READ: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
_WRITE: Final = (*_READ, HTTPStatus.FORBIDDEN)
_BODY: Final = (
    *_WRITE,
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application
_STRING: Final = {"type": "string", "one_of": None}
Type = Annotated[
    str | None,
    QueryParameter(
        name="type",
        description="Which videos; recent are those of the last seven days.",
        schema_extra={**_STRING, "enum": _TYPES},
    ),
]
From = Annotated[
    str | None,
    QueryParameter(
        name="from",
        description="The first day of creation (UTC), as 2026-01-31; needs `to`.",
        schema_extra={**_STRING, "format": "date"},
    ),
]
To = Annotated[
    str | None,
    QueryParameter(
        description="The last day of creation (UTC); needs `from`.",
        schema_extra={**_STRING, "format": "date"},
    ),
]


class VideoEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a video is to change: the keys that are sent.

    A title of null or "" is the file's name; null clears what else may be empty.
    """

    title: OptionalTitle | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    category: int | msgspec.UnsetType | None = msgspec.UNSET
    countries: CountryReferences | msgspec.UnsetType | None = msgspec.UNSET
    tags: TagReferences | msgspec.UnsetType | None = msgspec.UNSET


async def video_of(catalog: Catalog, caller: Principal, text: str) -> WholeVideo:
    """Return the video of a path.

    Raises:
        ApiError: 404 where there is none, or none that the caller may know of.
    """
    found = await catalog.videos.find(number_of(text, "video"))
    if found is None or not caller.reaches(found.video.project):
        raise missing("video")
    return found


def still(found: WholeVideo | None) -> WholeVideo:
    """Return a video after a change.

    Raises:
        ApiError: 404 where it was deleted between two transactions.
    """
    if found is None:
        raise missing("video")
    return found


def _day(text: str) -> int | None:
    """Return when a day begins, in microseconds since the Unix epoch; None where it is no day."""
    try:
        day = datetime.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None
    return None if day is None else (day.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def _span(
    first: str | None, last: str | None, errors: dict[str, list[str]]
) -> tuple[int | None, int | None]:
    """Return from when on and until when days of a query reach, both whole.

    Where one is no day, or stands alone, that goes into `errors`.
    """
    if first is None and last is None:
        return None, None
    begins = None if first is None else _day(first)
    ends = None if last is None else _day(last)
    for name, other, sent, found in (("from", "to", first, begins), ("to", "from", last, ends)):
        if sent is None:
            errors[name] = [f"The {name} is required where there is a {other}."]
        elif found is None:
            errors[name] = [f"The {name} must be a day such as 2026-01-31."]
    if begins is None or ends is None:
        return None, None
    return begins, ends + timedelta(days=1) // _MICROSECOND


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a list was asked for; `filters` are its parameters as they were sent, less the page."""

    query: VideoQuery
    page: int
    filters: list[tuple[str, str]]


def _asked(
    now_us: NamedDependency[int],
    type_: Type = None,
    search: Search = None,
    from_: From = None,
    to: To = None,
    page: PageNumber = None,
) -> _Asked:
    """Return what the query parameters of a list ask for.

    Raises:
        ApiError: 422, with what is wrong.
    """
    errors: dict[str, list[str]] = {}
    if type_ is not None and type_ not in _TYPES:
        errors["type"] = [f"The type must be one of {', '.join(_TYPES)}."]
    from_us, until_us = _span(from_, to, errors)
    query = read_query(
        search=search, sort_column=None, sort_order=None, page=page, columns=(), faults=errors
    )
    if type_ == "recent":
        since_us = now_us - _RECENT // _MICROSECOND
        from_us = since_us if from_us is None else max(from_us, since_us)
    sent = (("type", type_), ("search", search), ("from", from_), ("to", to))
    return _Asked(
        query=VideoQuery(
            phase=_PHASES.get(type_ or ""),
            search=query.search,
            from_us=from_us,
            until_us=until_us,
        ),
        page=query.page,
        filters=[(name, value) for name, value in sent if value],
    )


@get(
    _LIST,
    dependencies={"asked": Provide(_asked, sync_to_thread=False)},
    summary="List videos",
    tags=["videos"],
    responses=documented(*_READ, HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY),
)
async def list_videos(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    asked: NamedDependency[_Asked],
) -> Listing[VideoItem]:
    """List a project's videos in pages of thirty, newest first."""
    project = await project_of(catalog, request.auth, project_id)
    found = await catalog.videos.page(project, asked.query, asked.page)
    return envelope(
        found,
        [video_presenter.item(record) for record in found.items],
        path=f"{video_presenter.addresses.http}/api/projects/{quote(project_id, safe='')}/videos",
        filters=asked.filters,
    )


@get(_ONE, summary="Show a video", tags=["videos"], responses=documented(*_READ))
async def show_video(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
) -> VideoData:
    """Show one video with its resolutions."""
    found = await video_of(catalog, request.auth, video_id)
    return VideoData(data=video_presenter.shown(found))


@put(
    _ONE,
    guards=[needs_write],
    operation_class=described(VideoEdit),
    summary="Edit a video",
    tags=["videos"],
    responses=documented(*_BODY),
)
async def edit_video(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    now_us: NamedDependency[int],
) -> VideoChanged:
    """Change what is sent; tags and countries replace the whole list."""
    number = (await video_of(catalog, request.auth, video_id)).video.id
    body = await read_body(request, VideoEdit)
    # What is unset stays so, and null is the empty value of its kind.
    unset = msgspec.UNSET
    change = VideoChange(
        title=unset if body.title is unset else str(body.title) or None,
        description=unset if body.description is unset else str(body.description),
        category=body.category,
        countries=unset if body.countries is unset else read_countries(body.countries or []),
        tags=unset if body.tags is unset else wanted_tags(body.tags or []),
    )
    try:
        changed = await catalog.videos.edit(number, change, now_us, by=request.auth.id)
    except NoSuchLabel as error:
        raise _refused(error) from error
    return VideoChanged(message="Video updated.", video=video_presenter.full(still(changed)))


def _refused(error: NoSuchLabel) -> ApiError:
    field = _FIELDS.get(error.kind, error.kind)
    return invalid({field: [f"There is no {error.kind} {error.number} in this project."]})


@put(
    f"{_ONE}/player",
    guards=[needs_write],
    operation_class=described(PlayerChoice),
    summary="Choose a video's player",
    tags=["videos"],
    responses=documented(*_BODY),
)
async def choose_player(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    now_us: NamedDependency[int],
) -> VideoChanged:
    """Have a video shown in a player of its project; null is the standard one."""
    number = (await video_of(catalog, request.auth, video_id)).video.id
    body = await read_body(request, PlayerChoice)
    try:
        changed = await catalog.videos.set_player(number, body.player, now_us, by=request.auth.id)
    except NoSuchLabel as error:
        raise _refused(error) from error
    return VideoChanged(message="Video updated.", video=video_presenter.full(still(changed)))


@delete(
    _ONE,
    guards=[needs_write],
    summary="Delete a video",
    tags=["videos"],
    responses=documented(*_WRITE),
)
async def delete_video(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    media: NamedDependency[MediaRemover | None],
    now_us: NamedDependency[int],
) -> None:
    """Delete a video and all that is kept of it."""
    number = (await video_of(catalog, request.auth, video_id)).video.id
    hash_ = await catalog.videos.remove(number, now_us, by=request.auth.id)
    if hash_ is None:
        raise missing("video")
    if media is not None:
        await media.remove([hash_])


HANDLERS: Final = (list_videos, show_video, edit_video, choose_player, delete_video)
