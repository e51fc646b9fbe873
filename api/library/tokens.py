"""The operations on tokens: who may call.

A token for all projects that may write manages every token; one of a project that may write those
of its own project, and can make none that opens more than it does itself.
"""

from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, delete, get, post
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import ApiError, documented, invalid
from api.http.json_body import described, read_body
from api.http.paging import envelope, read_query
from api.http.parameters import PageNumber, RecordId, missing, number_of
from api.schemas.common import Listing
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from api.schemas.timestamps import format_timestamp
from storage.catalog import Catalog
from storage.catalog.records.common import Principal, TokenRecord

__all__ = ["HANDLERS"]

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open


class TokenAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a token; `project` is a project's number, null for all projects.

    Without `project` the token is for what the caller's own is for; without `write` it may read.
    """

    name: Name
    project: int | msgspec.UnsetType | None = msgspec.UNSET
    write: bool = False


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without itself; `project` null is for all projects, `revoked_at` ends its use."""

    id: int
    name: str
    project: int | None
    write: bool
    created_at: str
    revoked_at: str | None


class TokenAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding a token; `secret` is the token itself, which is nowhere else."""

    message: str
    token: Token
    secret: str


_READS: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_WRITES: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
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


def _shown(record: TokenRecord) -> Token:
    return Token(
        id=record.id,
        name=record.name,
        project=record.project,
        write=record.write,
        created_at=format_timestamp(record.created_us),
        revoked_at=None if record.revoked_us is None else format_timestamp(record.revoked_us),
    )


@get("/tokens", guards=[needs_write], summary="List tokens", tags=["tokens"], responses=_READS)
async def list_tokens(
    request: Call,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    page: PageNumber = None,
) -> Listing[Token]:
    """List the tokens that the caller may manage in pages of ten, newest first, revoked ones too.

    This takes a token that may write.
    """
    query = read_query(search=None, sort_column=None, sort_order=None, page=page, columns=())
    found = await catalog.tokens.find_page(reach=request.auth.project, page=query.page)
    return envelope(
        found,
        [_shown(record) for record in found.items],
        path=f"{presenter.addresses.http}/api/tokens",
        filters=(),
    )


async def _project(catalog: Catalog, caller: Principal, body: TokenAddition) -> int | None:
    """Return the project that a new token is for.

    Raises:
        ApiError: 403 where it would open more than the caller's, 422 where there is none.
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


@post(
    "/tokens",
    guards=[needs_write],
    operation_class=described(TokenAddition),
    summary="Add a token",
    tags=["tokens"],
    responses=_WRITES,
)
async def add_token(
    request: Call, catalog: NamedDependency[Catalog], now_us: NamedDependency[int]
) -> TokenAdded:
    """Make a token; it is in this answer (`secret`) and can be read nowhere else."""
    body = await read_body(request, TokenAddition)
    project = await _project(catalog, request.auth, body)
    record, secret = await catalog.tokens.add(
        str(body.name), project, write=body.write, now_us=now_us, by=request.auth.id
    )
    return TokenAdded(message="Token added.", token=_shown(record), secret=secret)


@delete(
    "/tokens/{token_id:str}",
    guards=[needs_write],
    summary="Revoke a token",
    tags=["tokens"],
    responses=_DELETES,
)
async def revoke_token(
    request: Call,
    token_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> None:
    """End a token's use at once; it stays in the list, with the moment. Once more does nothing."""
    record = await catalog.tokens.find(number_of(token_id, "token"))
    mine = request.auth.project
    if record is None or (mine is not None and record.project != mine):
        raise missing("token")
    await catalog.tokens.revoke(record.id, now_us, by=request.auth.id)


HANDLERS: Final = (list_tokens, add_token, revoke_token)
