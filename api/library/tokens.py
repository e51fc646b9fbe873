"""API tokens.

A token for all projects that may write manages every token. One of a single project that may write
manages those of its project, and cannot make a token with more rights than it has itself.
"""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, get, post

from api.http.auth import needs_write, unauthenticated
from api.http.errors import ApiError, documented, invalid
from api.http.json_body import described
from api.http.operation import BODY_ERRORS, PlainCall, deletes
from api.http.parameters import (
    PageNumber,
    RecordId,
    envelope,
    missing,
    number_of,
    queried,
    read_query,
)
from api.schemas.common import Listing, named_schema
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog import Catalog
from storage.catalog.records.common import Principal, TokenRecord
from storage.errors import TokenRevoked

_BOOLEANS: Final = {None: False, "false": False, "true": True}
Descendants = Annotated[
    str | None,
    queried("Also revoke the tokens that were made with it, and with these.", type_="boolean"),
]


class TokenAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a token; `project` is a project's number, null for all projects.

    Without `project` the token is for what the caller's own is for; without `write` it may read.
    """

    name: Name
    project: int | msgspec.UnsetType | None = msgspec.UNSET
    write: bool = False


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret; `project` null is for all projects, `revoked_at` ends its use.

    `created_by` is the number of the token that made it, null if that is not known.
    """

    id: int
    name: str
    project: int | None
    write: bool
    created_at: str
    revoked_at: str | None
    created_by: int | None


class TokenAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding a token; `secret` is the token itself, which is shown only here."""

    message: str
    token: Token
    secret: str


def _token(record: TokenRecord) -> Token:
    return Token(
        id=record.id,
        name=record.name,
        project=record.project,
        write=record.write,
        created_at=format_timestamp(record.created_us),
        revoked_at=None if record.revoked_us is None else format_timestamp(record.revoked_us),
        created_by=record.created_by,
    )


async def _project(catalog: Catalog, caller: Principal, body: TokenAddition) -> int | None:
    """Return the project that a new token is for, None for all projects.

    Raises:
        ApiError: 403 if it would have more rights than the caller's, 422 if there is no such
            project.
    """
    if body.project is msgspec.UNSET:
        return caller.project
    if body.project is None:
        if caller.project is not None:
            message = "This token is for one project: it can make no token for all."
            raise ApiError(HTTPStatus.FORBIDDEN, message)
        return None
    if not caller.reaches(body.project) or await catalog.projects.find(str(body.project)) is None:
        raise invalid({"project": ["There is no such project."]})
    return body.project


class TokensController(Controller):
    """The tokens that the caller may manage."""

    tags = ("tokens",)

    @get(
        "/tokens",
        guards=[needs_write],
        summary="List tokens",
        responses=documented(HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY),
    )
    async def list_tokens(
        self, plain: PlainCall, page: PageNumber = None
    ) -> Annotated[Listing[Token], named_schema("Listing_api.tokens.Token_")]:
        """List the tokens that the caller may manage in pages of ten, newest first, revoked ones
        too.

        This takes a token that may write.
        """
        query = read_query(page=page)
        records = await plain.catalog.tokens.find_page(reach=plain.caller.project, page=query.page)
        return envelope(
            records,
            [_token(record) for record in records.items],
            path=f"{plain.addresses.http}/api/tokens",
            filters=(),
        )

    @post(
        "/tokens",
        guards=[needs_write],
        operation_class=described(TokenAddition),
        summary="Add a token",
        responses=documented(*(set(BODY_ERRORS) - {HTTPStatus.NOT_FOUND})),
    )
    async def add_token(self, plain: PlainCall) -> TokenAdded:
        """Make a token; it is in this answer (`secret`) and can be read nowhere else."""
        body = await plain.body(TokenAddition)
        project = await _project(plain.catalog, plain.caller, body)
        try:
            record, secret = await plain.catalog.tokens.add(
                str(body.name), project, plain.change(), write=body.write
            )
        except TokenRevoked as error:
            raise unauthenticated(sent=True) from error
        return TokenAdded(message="Token added.", token=_token(record), secret=secret)

    @deletes("Revoke a token", "/tokens/{token_id:str}", errors=[HTTPStatus.UNPROCESSABLE_ENTITY])
    async def revoke_token(
        self, plain: PlainCall, token_id: RecordId, descendants: Descendants = None
    ) -> None:
        """End a token's use at once; it stays in the list, with the time.

        Revoking it again has no effect.

        `descendants=true` also revokes the tokens that were made with it, and with these.
        """
        if descendants not in _BOOLEANS:
            raise invalid({"descendants": ["Must be true or false."]})
        record = await plain.catalog.tokens.find(number_of(token_id, "token"))
        reach = plain.caller.project
        if record is None or (reach is not None and record.project != reach):
            raise missing("token")
        await plain.catalog.tokens.revoke(
            record.id, plain.change(), descendants=_BOOLEANS[descendants]
        )
