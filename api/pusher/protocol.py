"""One client's session of the Pusher Channels protocol, version 7: text in, actions out; no I/O.

A message is a JSON object with `event` and usually `data`; in messages of the server, `data` is a
JSON text within the JSON. Any text from a client results in actions, never in an exception. The
range of a close code determines what the client does: 4000 to 4099 do not reconnect, 4100 to 4199
reconnect after a pause, 4200 to 4299 reconnect at once. Codes from 4300 on never close here.

Not offered: presence, encrypted and cache channels, client events, signing users in, watch lists.
"""

import hmac
import json
import re
from collections.abc import Callable, Collection, Container, Mapping
from typing import Any, Final, cast

import msgspec

from api.pusher.limits import MAX_MESSAGE_BYTES, MAX_NAME, PusherSettings

APP: Final = "1"  # an installation has one app
NO_SUCH_APP: Final = 4001
_BAD_VERSION: Final = 4006
_UNSUPPORTED: Final = 4007
_NO_PROTOCOL: Final = 4008
NOT_AUTHORISED: Final = 4009
OVER_CAPACITY: Final = 4100
RECONNECT: Final = 4200
PONG_MISSING: Final = 4201
_CLIENT_EVENT: Final = 4301  # an error that does not close the connection

# From 5 on, `data` is JSON within JSON; from 6 on, the error is in the close code only.
_PROTOCOLS: Final = range(5, 8)
_CHANNEL: Final = re.compile(rf"[-a-zA-Z0-9_=@,.;]{{1,{MAX_NAME}}}")
_SOCKET_ID: Final = re.compile(r"[0-9]{1,10}\.[0-9]{1,10}")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_GRANTED: Final = re.compile(r"[^:]*:[^:]*:([0-9]{1,19})(?:-([0-9a-f]{64}))?")
_PRIVATE: Final = "private-"
_ENDED: Final = "the token has been revoked, or the session has ended"
_NOT_OFFERED: Final = ("presence-", "private-encrypted-", "cache-", "private-cache-")


class ChannelGrant(msgspec.Struct, frozen=True):
    """What a subscription rests on and ends with: a token, or a browser's session of one.

    `token` is a number, `session` the digest of the session's secret.
    """

    token: int
    session: str | None = None

    @property
    def text(self) -> str:
        """The grant as it stands in the `auth` of a subscription, without a colon."""
        return str(self.token) if self.session is None else f"{self.token}-{self.session}"


class CheckGrant(msgspec.Struct, frozen=True):
    """Find out whether this grant still holds, and call `PusherSession.admit`."""

    channel: str
    grant: ChannelGrant


class SendText(msgspec.Struct, frozen=True):
    """Send this text to the client."""

    text: str


class Subscribe(msgspec.Struct, frozen=True):
    """Subscribe the client to this channel."""

    channel: str


class Unsubscribe(msgspec.Struct, frozen=True):
    """Unsubscribe the client from this channel."""

    channel: str


class CloseConnection(msgspec.Struct, frozen=True):
    """Send the reason to the client, and close the connection with this code."""

    code: int
    reason: str

    @property
    def text(self) -> str:
        """The error message that is sent before the close frame."""
        return _error(self.code, self.reason)


Action = SendText | Subscribe | Unsubscribe | CheckGrant | CloseConnection

# Signs a socket id and a channel with the secret; returns hexadecimal digits.
Sign = Callable[[str, str], str]


def signature(secret: str, text: str) -> str:
    """Return the signature of a text, in hexadecimal digits (HMAC with SHA-256)."""
    return hmac.new(secret.encode(), text.encode(errors="surrogatepass"), "sha256").hexdigest()


def granted_auth(key: str, sign: Sign, socket: str, channel: str, grant: ChannelGrant) -> str:
    """Return the `auth` with which a socket subscribes to a private channel by a grant.

    The protocol's has two parts, key and signature of socket and channel. Clients pass it on as it
    is, so the grant follows as a third; the signature covers it.
    """
    return f"{key}:{sign(socket, f'{channel}:{grant.text}')}:{grant.text}"


def is_channel(name: str) -> bool:
    """Return True if this is a valid channel name."""
    return _CHANNEL.fullmatch(name) is not None


def is_socket_id(text: str) -> bool:
    """Return True if this has the form of a socket id."""
    return _SOCKET_ID.fullmatch(text) is not None


def event_message(event: str, channel: str, data: str) -> str:
    """Return the message of an event; `data` is JSON, or any text of a publisher."""
    return json.dumps({"event": event, "channel": channel, "data": data}, separators=(",", ":"))


def connection_error(
    *, key: str, requested_key: str, protocol: str | None
) -> CloseConnection | None:
    """Return why a connection is refused, or None.

    `key` is that of our app, `requested_key` the one in the path, `protocol` the query parameter of
    that name.
    """
    if not hmac.compare_digest(key.encode(), requested_key.encode(errors="surrogatepass")):
        return CloseConnection(NO_SUCH_APP, "there is no app with this key")
    if not protocol:
        return CloseConnection(_NO_PROTOCOL, "the address names no protocol version")
    if not _NUMBER.fullmatch(protocol):
        return CloseConnection(_BAD_VERSION, "the protocol version is no number")
    if int(protocol) not in _PROTOCOLS:
        return CloseConnection(_UNSUPPORTED, "protocol versions 5 to 7 are spoken here")
    return None


def _message(event: str, data: Mapping[str, object], channel: str | None = None) -> str:
    outer: dict[str, object] = {"event": event}
    if channel is not None:
        outer["channel"] = channel
    outer["data"] = json.dumps(data, separators=(",", ":"))
    return json.dumps(outer, separators=(",", ":"))


def _error(code: int | None, message: str) -> str:
    return _message("pusher:error", {"code": code, "message": message})


def _object(value: object) -> dict[str, Any] | None:  # Any: JSON
    """Return the data of a message, sent as an object or as its JSON text; None if neither."""
    if isinstance(value, str):
        value = _decoded(value)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None  # JSON's keys


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class PusherSession:
    """The state of one connection; `now` is in seconds, on a monotonic clock."""

    def __init__(
        self, *, socket: str, key: str, sign: Sign, limits: PusherSettings, now: float
    ) -> None:
        self.socket = socket
        self._key = key
        self._sign = sign
        self._limits = limits
        self._channels: set[str] = set()
        self._grants: dict[str, ChannelGrant] = {}  # by channel
        self._last_received = now
        self._pinged_at: float | None = None  # when a still unanswered ping was sent
        self._allowance = float(limits.messages_at_once)
        self._allowance_at = now

    def greeting(self) -> SendText:
        """Return the first message, for which clients wait."""
        facts = {
            "socket_id": self.socket,
            # Whole seconds, since some clients accept nothing else.
            "activity_timeout": max(1, int(self._limits.activity_seconds)),
        }
        return SendText(_message("pusher:connection_established", facts))

    def tick(self, now: float) -> tuple[Action, ...]:
        """Return a ping if one is due, or a close if the last one was not answered in time."""
        if self._pinged_at is not None:
            if now - self._pinged_at >= self._limits.pong_seconds:
                return (CloseConnection(PONG_MISSING, "no pong came in time"),)
            return ()
        if now - self._last_received >= self._limits.activity_seconds:
            self._pinged_at = now
            return (SendText(_message("pusher:ping", {})),)
        return ()

    def receive(self, text: str, now: float) -> tuple[Action, ...]:
        """Process a message of the client."""
        self._last_received = now
        self._pinged_at = None
        if not self._spend_allowance(now):
            return (CloseConnection(OVER_CAPACITY, "too many messages"),)
        if len(text) > MAX_MESSAGE_BYTES or (
            not text.isascii() and len(text.encode(errors="replace")) > MAX_MESSAGE_BYTES
        ):
            return (CloseConnection(NOT_AUTHORISED, "the message is too long"),)
        message = _object(text)
        event = None if message is None else message.get("event")
        if message is None or not isinstance(event, str):
            return (SendText(_error(None, "a message is a JSON object with an event")),)
        return self._handle(event, message)

    def _handle(self, event: str, message: dict[str, Any]) -> tuple[Action, ...]:  # Any: JSON
        match event:
            case "pusher:ping":
                return (SendText(_message("pusher:pong", {})),)
            case "pusher:pong":
                return ()
            case "pusher:subscribe":
                return self._subscribe(_object(message.get("data")) or {})
            case "pusher:unsubscribe":
                return self._unsubscribe(_object(message.get("data")) or {})
            case _ if event.startswith("client-"):
                return (SendText(_error(_CLIENT_EVENT, "client events are not offered")),)
            case _:
                return (SendText(_error(None, "this event is not known here")),)

    def _spend_allowance(self, now: float) -> bool:
        earned = (now - self._allowance_at) * self._limits.messages_per_second
        self._allowance = min(self._allowance + earned, self._limits.messages_at_once)
        self._allowance_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    def _subscribe(self, data: Mapping[str, object]) -> tuple[Action, ...]:
        channel = data.get("channel")
        if not isinstance(channel, str) or not is_channel(channel):
            return (SendText(_error(None, "a subscription needs the name of a channel")),)
        if channel.startswith(_NOT_OFFERED):
            return (_refused(channel, "NotOffered", "this kind of channel is not offered", 501),)
        if not channel.startswith(_PRIVATE):
            return self._join(channel, None)
        auth = data.get("auth")
        if not isinstance(auth, str) or not self._is_authorised(channel, auth):
            return (_refused(channel, "AuthError", "the signature is not valid", 401),)
        # Programs that know the secret sign by themselves, by no token.
        match = _GRANTED.fullmatch(auth)
        if match is None:
            return self._join(channel, None)
        return (CheckGrant(channel, ChannelGrant(int(match[1]), match[2])),)

    def admit(self, check: CheckGrant, *, holds: bool) -> tuple[Action, ...]:
        """Subscribe to a private channel if the grant of the subscription holds."""
        if not holds:
            return (_refused(check.channel, "AuthError", _ENDED, 401),)
        return self._join(check.channel, check.grant)

    @property
    def grants(self) -> Collection[ChannelGrant]:
        """What the subscriptions to private channels rest on."""
        return self._grants.values()

    def end_grants(self, ended: Container[ChannelGrant]) -> tuple[Action, ...]:
        """End the subscriptions that rest on these grants; others go on."""
        actions: list[Action] = []
        for channel, grant in tuple(self._grants.items()):
            if grant in ended:
                refusal = _refused(channel, "AuthError", _ENDED, 401)
                actions += [*self._unsubscribe({"channel": channel}), refusal]
        return tuple(actions)

    def _join(self, channel: str, grant: ChannelGrant | None) -> tuple[Action, ...]:
        confirmation = SendText(_message("pusher_internal:subscription_succeeded", {}, channel))
        if channel in self._channels:
            self._rest_on(channel, grant)
            return (confirmation,)
        if len(self._channels) >= self._limits.channels:
            return (_refused(channel, "LimitReached", "too many channels", 403),)
        self._channels.add(channel)
        self._rest_on(channel, grant)
        # The confirmation comes first: clients drop events that arrive before it.
        return (confirmation, Subscribe(channel))

    def _rest_on(self, channel: str, grant: ChannelGrant | None) -> None:
        self._grants.pop(channel, None)
        if grant is not None:
            self._grants[channel] = grant

    def _unsubscribe(self, data: Mapping[str, object]) -> tuple[Action, ...]:
        channel = data.get("channel")
        if not isinstance(channel, str) or channel not in self._channels:
            return ()
        self._channels.remove(channel)
        self._grants.pop(channel, None)
        return (Unsubscribe(channel),)

    def _is_authorised(self, channel: str, auth: str) -> bool:
        key, _, signed = auth.partition(":")
        digits, colon, grant = signed.partition(":")
        # No channel's name has a colon: neither kind of signature can stand for the other.
        expected = f"{self._key}:{self._sign(self.socket, f'{channel}{colon}{grant}')}"
        actual = f"{key}:{digits}"
        return hmac.compare_digest(expected.encode(), actual.encode(errors="surrogatepass"))


def _refused(channel: str, kind: str, error: str, status: int) -> SendText:
    facts = {"type": kind, "error": error, "status": status}
    return SendText(_message("pusher:subscription_error", facts, channel))
