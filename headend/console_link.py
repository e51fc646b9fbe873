"""Addresses that sign a browser in to the console once, for operators with a shell."""

from typing import Final

from api.schemas.urls import SIGN_IN
from storage.catalog import Catalog
from storage.catalog.records.common import TokenRecord
from storage.errors import TokenRevoked

_NO_OWNER: Final = "there is no token for all projects that may write: `headend token create`"


class NoSuchToken(Exception):
    """There is no token to sign in with; the message gives the cause."""


async def console_link(catalog: Catalog, http: str, now_us: int, token: int | None = None) -> str:
    """Return an address that signs a browser in with a token, by default the oldest owner's.

    `http` is the base URL of the service.

    Raises:
        NoSuchToken: there is no such token, or it has been revoked.
    """
    if token is None:
        token = next((each.id for each in await catalog.tokens.find_all() if _is_owner(each)), None)
    if token is None:
        raise NoSuchToken(_NO_OWNER)
    try:
        secret = await catalog.sessions.add_link(token, now_us)
    except TokenRevoked as error:
        raise NoSuchToken(f"there is no token {token}, or it has been revoked") from error
    # Behind the "#", no server's or proxy's log has it: a browser keeps this part to itself.
    return f"{http}{SIGN_IN}#link={secret}"


async def first_link(catalog: Catalog, http: str, now_us: int) -> str | None:
    """Return an address for the oldest owner; None once a browser has signed in, or without one."""
    if await catalog.sessions.has_any():
        return None
    try:
        return await console_link(catalog, http, now_us)
    except NoSuchToken:
        return None


def _is_owner(token: TokenRecord) -> bool:
    return token.write and token.project is None and token.revoked_us is None
