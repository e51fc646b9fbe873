"""Players: how the page that plays a stream or a video behaves and looks."""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response, delete, get, post, put
from litestar.di import NamedDependency, Provide

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import BODY_ERRORS, CHANGE_ERRORS, READ_ERRORS
from api.http.errors import documented
from api.http.json_body import described, read_body
from api.http.paging import ListQuery, envelope
from api.http.parameters import RecordId, missing, number_of, still_there
from api.http.preconditions import IfMatch, quoted, unless_edited
from api.library.lookup import PROJECT, ProjectId, list_url, player_tag, provide_list_query
from api.schemas.common import Listing, named_schema
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog import Catalog
from storage.catalog.library.players import STANDARD
from storage.catalog.records.common import Change, PlayerOptions, PlayerRecord, ProjectRecord

_PATH: Final = "/projects/{project_id:str}/players"
_ONE: Final = "/players/{player_id:str}"
_COLUMNS: Final = ("id", "name")
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


class PlayerShown(msgspec.Struct, frozen=True, kw_only=True):
    """One player."""

    data: Player


class PlayerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a player."""

    message: str
    player: Player


def _player(record: PlayerRecord) -> Player:
    return Player(
        id=record.id,
        name=record.name,
        **msgspec.structs.asdict(record.options),
        created_at=format_timestamp(record.created_us),
        updated_at=format_timestamp(record.updated_us),
    )


async def provide_player(
    request: ApiRequest, player_id: RecordId, catalog: NamedDependency[Catalog]
) -> PlayerRecord:
    """Return the player that a path names.

    Raises:
        ApiError: 404 if there is no such player, or if the caller's token does not reach it.
    """
    player = await catalog.players.find(number_of(player_id, "player"))
    if player is None or not request.auth.reaches(player.project):
        raise missing("player")
    return player


_DEPENDENCIES: Final = {
    **PROJECT,
    "player": Provide(provide_player),
    "list_query": provide_list_query(_COLUMNS),
}


class PlayersController(Controller):
    """The players of a project."""

    tags = ("players",)
    dependencies = _DEPENDENCIES

    @get(_PATH, summary="List players", responses=documented(*READ_ERRORS))
    async def list_players(
        self,
        project: NamedDependency[ProjectRecord],
        project_id: ProjectId,
        list_query: NamedDependency[ListQuery],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
    ) -> Annotated[Listing[Player], named_schema("Listing_api.players.Player_")]:
        """List a project's players in pages of ten, newest first unless a column is named."""
        page = await catalog.players.find_page(
            project.id, search=list_query.search, sort=list_query.sort, page=list_query.page
        )
        return envelope(
            page,
            [_player(record) for record in page.items],
            path=list_url(presenter.addresses, project_id, "players"),
            filters=list_query.filters,
        )

    @post(
        _PATH,
        guards=[needs_write],
        operation_class=described(PlayerAddition),
        summary="Add a player",
        responses=documented(*BODY_ERRORS),
    )
    async def add_player(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> PlayerAnswer:
        """Make a player, which streams and videos can then be shown in."""
        body = await read_body(request, PlayerAddition)
        options = PlayerOptions(
            autoplay=body.autoplay,
            muted=body.muted,
            loop=body.loop,
            controls=body.controls,
            color=body.color,
        )
        record = await catalog.players.add(
            project.id, str(body.name), options, Change(now_us, by=request.auth.id)
        )
        return PlayerAnswer(message="Player added.", player=_player(record))

    @get(_ONE, summary="Show a player", responses=documented(*READ_ERRORS))
    async def show_player(self, player: NamedDependency[PlayerRecord]) -> Response[PlayerShown]:
        """Show a player; `ETag` names this version of it."""
        shown = PlayerShown(data=_player(player))
        return Response(shown, headers={"ETag": quoted(player_tag(player))})

    @put(
        _ONE,
        guards=[needs_write],
        operation_class=described(PlayerEdit),
        summary="Edit a player",
        responses=documented(*BODY_ERRORS, HTTPStatus.PRECONDITION_FAILED),
    )
    async def edit_player(
        self,
        request: ApiRequest,
        player: NamedDependency[PlayerRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[PlayerAnswer]:
        """Change a player, and with it every page that shows a record in it; keys not sent stay."""
        body = await read_body(request, PlayerEdit)
        options = {
            key: value
            for key, value in msgspec.structs.asdict(body).items()
            if key != "name" and value is not msgspec.UNSET
        }
        record = await catalog.players.edit(
            player.id,
            Change(now_us, by=request.auth.id),
            name=None if body.name is msgspec.UNSET else str(body.name),
            options=options,
            check=unless_edited(if_match, player_tag),
        )
        record = still_there(record, "player")
        changed = PlayerAnswer(message="Player updated.", player=_player(record))
        return Response(changed, headers={"ETag": quoted(player_tag(record))})

    @delete(
        _ONE,
        guards=[needs_write],
        summary="Delete a player",
        responses=documented(*CHANGE_ERRORS),
    )
    async def delete_player(
        self,
        request: ApiRequest,
        player: NamedDependency[PlayerRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> None:
        """Delete a player; what was shown in it is shown in the page's own."""
        if not await catalog.players.remove(player.id, Change(now_us, by=request.auth.id)):
            raise missing("player")
