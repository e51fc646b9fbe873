"""The limits of the web-socket broadcaster, each with its reason; all are settings.

Seconds are on a monotonic clock; bytes are those of the text of a message in UTF-8.
"""

from typing import Annotated, Final

import msgspec

from media.setting import describe

# Fixed by the protocol and known to its client and server libraries, so not settings.
MAX_NAME: Final = 200  # characters in the name of a channel or an event
MAX_DATA_BYTES: Final = 10_240  # bytes of the data of an event
MAX_CHANNELS: Final = 100  # per signed request

# The longest message of a client is a subscription, of about 400 bytes.
MAX_MESSAGE_BYTES: Final = 10_000


class PusherSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The web-socket broadcaster. Names carry their unit: `_bytes`, `_seconds`; others count."""

    origins: Annotated[
        str,
        describe(
            "origins whose pages may connect, with commas between; empty: all",
            reason="what public channels tell is public; programs name no origin anyway",
        ),
    ] = ""
    sockets: Annotated[
        int,
        describe(
            "connections that one process holds",
            "",
            1,
            reason="about 30 KB each; they count among `http.connections`, and one client holds at"
            " most as many as are free",
        ),
    ] = 10_000
    channels: Annotated[
        int,
        describe(
            "channels that one connection is subscribed to",
            "",
            1,
            reason="a page shows some streams, not hundreds; the protocol's usual bound",
        ),
    ] = 100
    waiting: Annotated[
        int,
        describe(
            "messages that wait for a slow connection; past them it is closed with 4100",
            "",
            8,
            reason="what is so far behind does better to connect again and ask the API",
        ),
    ] = 64
    waiting_bytes: Annotated[
        int,
        describe(
            "the same in bytes",
            "bytes",
            MAX_MESSAGE_BYTES * 2,
            reason="as many connections as there may be must not fill the memory with it",
        ),
    ] = 128 * 1024
    messages_per_second: Annotated[
        float,
        describe(
            "messages of one connection, over a longer time",
            "",
            1,
            reason="clients say little: a ping when it is silent, a subscription a channel",
        ),
    ] = 10.0
    messages_at_once: Annotated[
        int,
        describe(
            "the same at one moment",
            "",
            10,
            reason="after a reconnect a client subscribes to all its channels at once",
        ),
    ] = 250
    activity_seconds: Annotated[
        float,
        describe(
            "silence after which either side asks whether the other is there",
            "s",
            1,
            600,
            reason="proxies in between take what is silent for 60 s for dead",
        ),
    ] = 30.0
    pong_seconds: Annotated[
        float,
        describe(
            "time for the answer; then the connection is closed with 4201",
            "s",
            1,
            600,
            reason="as long as clients of this protocol wait themselves",
        ),
    ] = 30.0
