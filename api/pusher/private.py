"""Authorises private channels: `POST /broadcasting/auth` and `/pusher/auth`.

A client posts a form here before it subscribes, with a token in `Authorization`. The response is a
signature for this connection, this channel and this token, or the session of a browser. The
subscription ends with them (`api.pusher.socket`).

A token opens the private channels of the projects that it reaches: `private-stream.<hash>`,
`private-video.<hash>` and `private-project.<number or key>`. Pages on other origins may use it with
a token; the cookie of a browser's session is accepted from the console's own pages only.
"""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from litestar import Request, Response, route
from litestar.enums import HttpMethod
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler

from api.http.auth import Guard
from api.http.errors import HANDLERS, ApiError
from api.http.json_body import read_raw_body
from api.pusher.limits import MAX_NAME
from api.pusher.protocol import ChannelGrant, Sign, granted_auth, is_socket_id
from storage.catalog.events.broadcast import BroadcastOutbox
from storage.catalog.records.common import Principal

_CHANNEL: Final = re.compile(r"private-(stream|video|project)\.([0-9A-Za-z]{1,40})")
_MAX_BODY: Final = 4096  # two short fields
_JSON: Final = "application/json"
_MAX_FIELDS: Final = 20
_PREFLIGHT_HEADERS: Final = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, X-CSRF-TOKEN, X-Requested-With, X-Socket-ID"
    ),
    "Access-Control-Max-Age": "86400",
}


class _AuthRequest(msgspec.Struct, frozen=True):
    socket_id: str
    channel_name: str


def private_channel_handlers(
    owners: BroadcastOutbox,
    *,
    key: str,
    sign: Sign,
    guard: Guard,
    admits: Callable[[str | None], bool],
) -> list[HTTPRouteHandler]:
    """Return the handler.

    `guard` sets `auth` to the principal (see `api.http.auth.needs_token`); `admits` returns whether
    pages of an origin may use it.
    """

    async def answer(request: Request[Any, Any, Any]) -> dict[str, str]:
        await guard(request, request.route_handler)
        auth_request = await _read_request(request)
        match = _CHANNEL.fullmatch(auth_request.channel_name)
        project = await owners.find_project(match[1], match[2]) if match else None
        caller = request.scope["auth"]
        # Missing channels and those of other projects must look alike.
        if project is None or not isinstance(caller, Principal) or not caller.reaches(project):
            raise ApiError(HTTPStatus.FORBIDDEN, "This token does not open this channel.")
        socket, channel = auth_request.socket_id, auth_request.channel_name
        grant = ChannelGrant(token=caller.id, session=caller.session)
        return {"auth": granted_auth(key, sign, socket, channel, grant)}

    @route(
        ["/broadcasting/auth", "/pusher/auth"],
        http_method=[HttpMethod.POST, HttpMethod.OPTIONS],
        status_code=HTTPStatus.OK,
        request_max_body_size=_MAX_BODY,
    )
    async def authorise(request: Request[Any, Any, Any]) -> Response[Any]:
        """Sign a subscription to a private channel."""
        origin = request.headers.get("origin")
        shared = {"Access-Control-Allow-Origin": "*"} if admits(origin) else {}
        if request.method == HttpMethod.OPTIONS:
            headers = {**shared, **_PREFLIGHT_HEADERS} if shared else {}
            return Response(None, status_code=HTTPStatus.NO_CONTENT, headers=headers)
        try:
            if not shared:
                raise ApiError(HTTPStatus.FORBIDDEN, "Pages of this origin may not ask.")
            response: Response[Any] = Response(await answer(request), media_type=_JSON)
        except HTTPException as error:
            # Pages on other origins must be able to read the error, too.
            response = HANDLERS[HTTPException](request, error)
        response.headers.update({"Cache-Control": "no-store", **shared})
        return response

    return [authorise]


async def _read_request(request: Request[Any, Any, Any]) -> _AuthRequest:
    """Parse the request, sent as a form (as clients do) or as JSON.

    Raises:
        ApiError: 422 if it is neither, or invalid.
    """
    body = await read_raw_body(request)
    try:
        if request.content_type[0] == _JSON:
            auth_request = msgspec.json.decode(body, type=_AuthRequest)
        else:
            fields = dict(parse_qsl(body.decode(), max_num_fields=_MAX_FIELDS))
            auth_request = msgspec.convert(fields, _AuthRequest)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        message = "socket_id and channel_name are needed, as a form."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, message) from error
    if not is_socket_id(auth_request.socket_id) or len(auth_request.channel_name) > MAX_NAME:
        message = "socket_id is not the name of a connection, or channel_name is too long."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, message)
    return auth_request
