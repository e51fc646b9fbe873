"""Players: how the page that plays a stream or a video behaves and looks."""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response
from litestar.di import NamedDependency, Provide

from api.http.conditional import IfMatch, tagged, unless_edited
from api.http.operation import Call, PlainCall, adds, deletes, edits, shows
from api.http.parameters import RecordId, envelope, number_of
from api.library.lookup import (
    PROJECT,
    GivenQuery,
    ProjectCall,
    list_url,
    player_tag,
    provide_list_query,
)
from api.schemas.common import Listing, named_schema
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog.library.players import STANDARD
from storage.catalog.records.common import PlayerOptions, PlayerRecord

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


PlayerCall = NamedDependency[Call[PlayerRecord]]


async def provide_player(plain: PlainCall, player_id: RecordId) -> Call[PlayerRecord]:
    """Return the call with the player that a path names.

    Raises:
        ApiError: 404 if there is no such player, or if the caller's token does not reach it.
    """
    player = await plain.catalog.players.find(number_of(player_id, "player"))
    return plain.to(player, player and player.project, "player")


_OF_PROJECT: Final = {**PROJECT, "list_query": provide_list_query(_COLUMNS)}
_OF_ONE: Final = {"call": Provide(provide_player)}


class PlayersController(Controller):
    """The players of a project."""

    path = "/projects/{project_id:str}/players"
    tags = ("players",)
    dependencies = _OF_PROJECT

    @shows("List players")
    async def list_players(
        self, call: ProjectCall, list_query: GivenQuery
    ) -> Annotated[Listing[Player], named_schema("Listing_api.players.Player_")]:
        """List a project's players in pages of ten, newest first unless a column is named."""
        page = await call.catalog.players.find_page(
            call.record.id, search=list_query.search, sort=list_query.sort, page=list_query.page
        )
        return envelope(
            page,
            [_player(record) for record in page.items],
            path=list_url(call, "players"),
            filters=list_query.filters,
        )

    @adds("Add a player", PlayerAddition)
    async def add_player(self, call: ProjectCall) -> PlayerAnswer:
        """Make a player, which streams and videos can then be shown in."""
        body = await call.body(PlayerAddition)
        options = msgspec.convert(body, PlayerOptions, from_attributes=True)
        record = await call.catalog.players.add(
            call.record.id, str(body.name), options, call.change()
        )
        return PlayerAnswer(message="Player added.", player=_player(record))


class PlayerController(Controller):
    """One player."""

    path = "/players/{player_id:str}"
    tags = ("players",)
    dependencies = _OF_ONE

    @shows("Show a player")
    async def show_player(self, call: PlayerCall) -> Response[PlayerShown]:
        """Show a player; `ETag` names this version of it."""
        return tagged(PlayerShown(data=_player(call.record)), player_tag(call.record))

    @edits("Edit a player", PlayerEdit, errors=[HTTPStatus.PRECONDITION_FAILED])
    async def edit_player(
        self, call: PlayerCall, if_match: IfMatch = None
    ) -> Response[PlayerAnswer]:
        """Change a player, and with it every page that shows a record in it; keys not sent stay."""
        body = await call.body(PlayerEdit)
        options = {
            key: value
            for key, value in msgspec.structs.asdict(body).items()
            if key != "name" and value is not msgspec.UNSET
        }
        record = await call.catalog.players.edit(
            call.record.id,
            call.change(),
            name=None if body.name is msgspec.UNSET else str(body.name),
            options=options,
            check=unless_edited(if_match, player_tag),
        )
        record = call.still_there(record)
        changed = PlayerAnswer(message="Player updated.", player=_player(record))
        return tagged(changed, player_tag(record))

    @deletes("Delete a player")
    async def delete_player(self, call: PlayerCall) -> None:
        """Delete a player; what was shown in it is shown in the page's own."""
        if not await call.catalog.players.remove(call.record.id, call.change()):
            raise call.missing()
