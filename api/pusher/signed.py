"""Publishing over HTTP, signed: `POST /apps/1/events` and `/apps/1/batch_events`.

For programs of the owner that send events of their own, with any server library of the Pusher
Channels protocol. The signature covers method, path, parameters and the digest of the body, and is
valid for ten minutes around its timestamp; within them a request can be replayed, since the
protocol has no nonce.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from litestar import Request, Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from api.http.errors import ApiError
from api.http.json_body import read_raw_body
from api.pusher.limits import MAX_CHANNELS, MAX_DATA_BYTES, MAX_NAME
from api.pusher.protocol import APP, is_channel, is_socket_id, signature
from media.ticks import MICROSECONDS
from storage.catalog.events.broadcast import BroadcastOutbox, OutboxEvent
from storage.wall_clock import wall_clock_us

_WINDOW: Final = 600  # seconds
_MAX_BATCH: Final = 10
# Ten events of 10 KiB with their names, every quotation mark escaped.
_MAX_BODY: Final = 1 << 18
_MAX_PARAMETERS: Final = 50
_RESERVED: Final = ("pusher:", "pusher_internal:", "client-")

S = TypeVar("S", bound=msgspec.Struct)
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class _Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event; `info` requests statistics, which are not offered."""

    name: _Name
    data: str
    channel: str | None = None
    channels: Annotated[list[str], msgspec.Meta(max_length=MAX_CHANNELS)] = msgspec.field(
        default_factory=list[str]
    )
    socket_id: str | None = None
    info: str | None = None


class _Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    batch: Annotated[list[_Event], msgspec.Meta(max_length=_MAX_BATCH)]


def is_signed(
    *,
    method: str,
    path: str,
    parameters: Mapping[str, str],
    body: bytes,
    key: str,
    secret: str,
    now: float,
) -> bool:
    """Return True if the signature fits our secret, the body and the time `now` (seconds)."""
    signed = {name.lower(): value for name, value in parameters.items()}
    received = signed.pop("auth_signature", "")
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    text = "&".join(f"{name}={signed[name]}" for name in sorted(signed))
    expected = signature(secret, f"{method}\n{path}\n{text}")
    # All are checked, so that timing does not reveal which one failed.
    return all(
        [
            _is_equal(received, expected),
            _is_equal(signed.get("auth_key", ""), key),
            _is_equal(signed.get("body_md5", ""), digest),
            signed.get("auth_version") == "1.0",
            _is_recent(signed.get("auth_timestamp", ""), now),
        ]
    )


def _is_equal(received: str, expected: str) -> bool:
    return hmac.compare_digest(received.encode(errors="surrogatepass"), expected.encode())


def _is_recent(timestamp: str, now: float) -> bool:
    # Short ASCII digits only, so that `int` is cheap and accepts nothing else.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    return abs(int(now) - int(timestamp)) <= _WINDOW


def signed_event_handlers(
    publisher: BroadcastOutbox,
    *,
    key: str,
    secret: str,
    clock_us: Callable[[], int] = wall_clock_us,
) -> list[HTTPRouteHandler]:
    """Return the handlers; `key` and `secret` are those of the installation."""

    async def read(request: Request[Any, Any, Any], app: str, kind: type[S]) -> S:
        """Return the body of a signed request."""
        body = await read_raw_body(request)
        query = request.scope["query_string"].decode("latin-1")
        try:
            parameters = dict(parse_qsl(query, True, max_num_fields=_MAX_PARAMETERS))
        except ValueError:
            parameters = {}
        is_valid = is_signed(
            method="POST",
            path=request.scope["path"],
            parameters=parameters,
            body=body,
            key=key,
            secret=secret,
            now=clock_us() / MICROSECONDS,
        )
        if not is_valid:
            raise ApiError(HTTPStatus.UNAUTHORIZED, "The request is not signed as it must be.")
        if app != APP:
            raise ApiError(HTTPStatus.NOT_FOUND, "There is no such app.")
        return _converted(body, kind)

    async def publish_all(events: Sequence[_Event]) -> None:
        await publisher.publish([_outbox_event(event) for event in events], clock_us())

    @post("/apps/{app:str}/events", status_code=200, request_max_body_size=_MAX_BODY)
    async def publish(
        request: Request[Any, Any, Any], app: FromPath[str]
    ) -> Response[dict[str, object]]:
        """Publish one event."""
        await publish_all([await read(request, app, _Event)])
        return Response({})

    @post("/apps/{app:str}/batch_events", status_code=200, request_max_body_size=_MAX_BODY)
    async def publish_batch(
        request: Request[Any, Any, Any], app: FromPath[str]
    ) -> Response[dict[str, object]]:
        """Publish up to ten events."""
        await publish_all((await read(request, app, _Batch)).batch)
        return Response({})

    return [publish, publish_batch]


def _converted(body: bytes, kind: type[S]) -> S:
    try:
        # Decode first, to distinguish invalid JSON from a wrong shape.
        return msgspec.convert(msgspec.json.decode(body), kind)
    except msgspec.ValidationError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "The body is not valid JSON.") from error


def _outbox_event(event: _Event) -> OutboxEvent:
    """Return an event in the form of the catalog, with each channel once.

    Raises:
        ApiError: the event is invalid.
    """
    channels = tuple(dict.fromkeys([*event.channels, *filter(None, [event.channel])]))
    if not channels or not all(is_channel(channel) for channel in channels):
        raise _invalid("channels", "At least one name of a channel is needed, and no other text.")
    if event.name.startswith(_RESERVED):
        raise _invalid("name", "The names of events that begin so are the protocol's own.")
    if event.socket_id is not None and not is_socket_id(event.socket_id):
        raise _invalid("socket_id", "This is no name of a connection.")
    if len(event.data.encode(errors="replace")) > MAX_DATA_BYTES:
        raise ApiError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The data is over {MAX_DATA_BYTES} bytes."
        )
    if not _is_text(event.name + event.data):
        raise _invalid("data", "This is no text that can be stored.")
    return OutboxEvent(
        channels=channels, event=event.name, body=event.data, except_socket=event.socket_id
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return "\0" not in text


def _invalid(field: str, sentence: str) -> ApiError:
    message = f"The request is not valid: see {field}."
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, message, errors={field: [sentence]})
