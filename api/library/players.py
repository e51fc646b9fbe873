"""The operations on players: how the page that plays behaves and looks."""

from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from litestar import Request, delete, get, post, put
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import documented
from api.http.json_body import described, read_body
from api.http.paging import envelope, read_query
from api.http.parameters import (
    PageNumber,
    RecordId,
    Search,
    SortOrder,
    missing,
    number_of,
    sort_columns,
)
from api.library.projects import ProjectId, project_of
from api.schemas.common import Listing
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog import Catalog
from storage.catalog.library.players import STANDARD
from storage.catalog.records.common import PlayerOptions, PlayerRecord, Principal

__all__ = ["HANDLERS"]

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open
_PATH: Final = "/projects/{project_id:str}/players"
_ONE: Final = "/players/{player_id:str}"
_COLUMNS: Final = ("id", "name")
SortColumn = Annotated[str | None, sort_columns(_COLUMNS)]
Color = Annotated[str, msgspec.Meta(pattern="^#[0-9A-Fa-f]{6}$", max_length=7)]


class PlayerAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a player; `color` is `#rrggbb`, null for the page's own."""

    name: Name
    autoplay: bool = STANDARD.autoplay
    muted: bool = STANDARD.muted
    loop: bool = STANDARD.loop
    controls: bool = STANDARD.controls
    color: Color | None = STANDARD.color


class PlayerEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a player is to change."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    autoplay: bool | msgspec.UnsetType = msgspec.UNSET
    muted: bool | msgspec.UnsetType = msgspec.UNSET
    loop: bool | msgspec.UnsetType = msgspec.UNSET
    controls: bool | msgspec.UnsetType = msgspec.UNSET
    color: Color | msgspec.UnsetType | None = msgspec.UNSET


class Player(msgspec.Struct, frozen=True, kw_only=True):
    """A player; `color` is `#rrggbb`, null for the page's own."""

    id: int
    name: str
    autoplay: bool
    muted: bool
    loop: bool
    controls: bool
    color: str | None
    created_at: str
    updated_at: str


class PlayerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a player."""

    message: str
    player: Player


_READS: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_WRITES: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_DELETES: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
)


def _shown(record: PlayerRecord) -> Player:
    options = record.options
    return Player(
        id=record.id,
        name=record.name,
        autoplay=options.autoplay,
        muted=options.muted,
        loop=options.loop,
        controls=options.controls,
        color=options.color,
        created_at=format_timestamp(record.created_us),
        updated_at=format_timestamp(record.updated_us),
    )


async def _player_of(catalog: Catalog, caller: Principal, text: str) -> PlayerRecord:
    """Return the player of a path.

    Raises:
        ApiError: 404 where there is none, or none that the caller may know of.
    """
    record = await catalog.players.find(number_of(text, "player"))
    if record is None or not caller.reaches(record.project):
        raise missing("player")
    return record


@get(_PATH, summary="List players", tags=["players"], responses=_READS)
async def list_players(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    search: Search = None,
    sort_column: SortColumn = None,
    sort_order: SortOrder = None,
    page: PageNumber = None,
) -> Listing[Player]:
    """List a project's players in pages of ten, newest first unless a column is named."""
    project = await project_of(catalog, request.auth, project_id)
    query = read_query(
        search=search,
        sort_column=sort_column,
        sort_order=sort_order,
        page=page,
        columns=_COLUMNS,
    )
    found = await catalog.players.find_page(
        project.id, search=query.search, sort=query.sort, page=query.page
    )
    return envelope(
        found,
        [_shown(record) for record in found.items],
        path=f"{presenter.addresses.http}/api/projects/{quote(project_id, safe='')}/players",
        filters=query.filters,
    )


@post(
    _PATH,
    guards=[needs_write],
    operation_class=described(PlayerAddition),
    summary="Add a player",
    tags=["players"],
    responses=_WRITES,
)
async def add_player(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> PlayerAnswer:
    """Make a player, which streams and videos can then be shown in."""
    project = await project_of(catalog, request.auth, project_id)
    body = await read_body(request, PlayerAddition)
    options = PlayerOptions(
        autoplay=body.autoplay,
        muted=body.muted,
        loop=body.loop,
        controls=body.controls,
        color=body.color,
    )
    record = await catalog.players.add(
        project.id, str(body.name), options, by=request.auth.id, now_us=now_us
    )
    return PlayerAnswer(message="Player added.", player=_shown(record))


@put(
    _ONE,
    guards=[needs_write],
    operation_class=described(PlayerEdit),
    summary="Edit a player",
    tags=["players"],
    responses=_WRITES,
)
async def edit_player(
    request: Call,
    player_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> PlayerAnswer:
    """Change a player, and with it every page that shows a record in it; keys not sent stay."""
    player = await _player_of(catalog, request.auth, player_id)
    body = await read_body(request, PlayerEdit)
    sent: dict[str, bool | str | msgspec.UnsetType | None] = {
        "autoplay": body.autoplay,
        "muted": body.muted,
        "loop": body.loop,
        "controls": body.controls,
        "color": body.color,
    }
    record = await catalog.players.edit(
        player.id,
        name=None if body.name is msgspec.UNSET else str(body.name),
        options={key: value for key, value in sent.items() if value is not msgspec.UNSET},
        by=request.auth.id,
        now_us=now_us,
    )
    if record is None:
        raise missing("player")
    return PlayerAnswer(message="Player updated.", player=_shown(record))


@delete(_ONE, guards=[needs_write], summary="Delete a player", tags=["players"], responses=_DELETES)
async def delete_player(
    request: Call,
    player_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> None:
    """Delete a player; what was shown in it is shown in the page's own."""
    player = await _player_of(catalog, request.auth, player_id)
    if not await catalog.players.remove(player.id, by=request.auth.id, now_us=now_us):
        raise missing("player")


HANDLERS: Final = (list_players, add_player, edit_player, delete_player)
