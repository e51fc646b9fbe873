"""The limits of an RTMP peer, each with its reason; all are settings.

Seconds are floats of a monotonic clock; bytes, bits and counts are integers. Whatever a peer sends,
memory, work and time stay within these limits.
"""

from typing import Annotated, Final

import msgspec

from ingest.publishing.admission import AdmissionLimits

KIB: Final = 1 << 10
MIB: Final = 1 << 20

# No message is longer (24-bit length), so larger chunk sizes are treated as this one.
MAX_CHUNK_BYTES: Final = 0xFF_FFFF


def _meta(
    description: str, unit: str, least: float, most: float | None = None, *, reason: str
) -> msgspec.Meta:
    extra = {"unit": unit, "reason": reason}
    return msgspec.Meta(description=description, extra=extra, ge=least, le=most)


class Limits(AdmissionLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one peer, beside those of its admission.

    `_bytes` and `_seconds` are units, other numbers are counts.
    """

    # -- time ----------------------------------------------------------------------------------

    tls_handshake_seconds: Annotated[
        float,
        _meta(
            "from accept to the end of the TLS handshake",
            "s",
            0.1,
            reason="a slow opening must not hold a socket; TLS takes a few round trips",
        ),
    ] = 10.0
    handshake_seconds: Annotated[
        float,
        _meta(
            "from accept to the end of the RTMP handshake",
            "s",
            0.1,
            reason="the same; C0 to C2 are 3 KiB that every client has at hand",
        ),
    ] = 5.0
    publish_seconds: Annotated[
        float,
        _meta(
            "from accept to the command publish",
            "s",
            0.1,
            reason="the same; the dialogue is a few round trips",
        ),
    ] = 15.0
    first_media_seconds: Annotated[
        float,
        _meta(
            "from the permission to publish to the first packet",
            "s",
            0.1,
            reason="an encoder that was let in may still be warming up; SRS waits 20 s too",
        ),
    ] = 20.0
    idle_media_seconds: Annotated[
        float,
        _meta(
            "without a packet, once there was one",
            "s",
            0.1,
            reason="a live encoder sends tens of packets a second; after this it is a zombie",
        ),
    ] = 10.0
    ping_seconds: Annotated[
        float,
        _meta(
            "of silence before a ping, and between two pings",
            "s",
            0.1,
            reason="half of `silence_seconds`, so that a live peer has answered; a peer that"
            " sends is not pinged",
        ),
    ] = 10.0
    silence_seconds: Annotated[
        float,
        _meta(
            "without a byte from the peer",
            "s",
            0.1,
            reason="a half-open connection stays silent; a live peer answers pings",
        ),
    ] = 20.0

    # -- chunks and messages -------------------------------------------------------------------

    out_chunk_bytes: Annotated[
        int,
        _meta(
            "chunk size that is announced to the peer",
            "bytes",
            128,
            MAX_CHUNK_BYTES,
            reason="ffmpeg sends with the size that the server announces, and one chunk a picture"
            " costs a sixth of what 4096-byte chunks cost",
        ),
    ] = 64 * KIB
    chunks_per_second: Annotated[
        int,
        _meta(
            "chunks a peer may send, on average",
            "1/s",
            1,
            reason="128-byte chunks at 40 Mbit/s are 39 000 a second; more is an attack by one-byte"
            " chunks",
        ),
    ] = 50_000
    chunks_average_seconds: Annotated[
        float,
        _meta(
            "what that average is taken over",
            "s",
            0.1,
            reason="a burst after a lost network is no attack",
        ),
    ] = 5.0
    messages_per_second: Annotated[
        int,
        _meta(
            "messages a peer may send, on average; a burst may be ten times as many",
            "1/s",
            1,
            reason="60 pictures, two audio tracks and metadata are about 160 a second, and each"
            " message costs a packet's handling; a burst after a lost network is no attack",
        ),
    ] = 1_000
    media_message_bytes: Annotated[
        int,
        _meta(
            "longest audio, video or aggregate message",
            "bytes",
            1,
            reason="a 4K keyframe at 60 Mbit/s is below 4 MiB; nginx-rtmp's 1 MiB has cut real"
            " streams off",
        ),
    ] = 8 * MIB
    other_message_bytes: Annotated[
        int,
        _meta("longest command or data message", "bytes", 1, reason="real ones are below 2 KiB"),
    ] = 64 * KIB
    unfinished_bytes: Annotated[
        int,
        _meta(
            "messages that have begun and not ended",
            "bytes",
            1,
            reason="two of the longest: messages of sound and picture may be interleaved",
        ),
    ] = 16 * MIB
    chunk_streams: Annotated[
        int,
        _meta(
            "chunk streams of a connection",
            "",
            1,
            reason="nginx-rtmp's 32 was too few for real devices",
        ),
    ] = 64
    message_streams: Annotated[
        int,
        _meta(
            "message streams of a connection",
            "",
            1,
            reason="encoders create one; a retry may create another before deleting the first",
        ),
    ] = 4
    aggregate_messages: Annotated[
        int,
        _meta(
            "messages in an aggregate message",
            "",
            1,
            reason="a second of sound and picture is a few hundred; one of 8 MiB could hold half a"
            " million",
        ),
    ] = 1_024
    window_bytes: Annotated[
        int,
        _meta(
            "acknowledgement window in both directions",
            "bytes",
            1024,
            1 << 30,
            reason="what FMS said, and every server since",
        ),
    ] = 2_500_000

    # -- dialogue ------------------------------------------------------------------------------

    commands_before_publish: Annotated[
        int,
        _meta(
            "commands before publishing is permitted",
            "",
            1,
            reason="the longest real openings (rtmp2sink) have seven",
        ),
    ] = 64
    commands_per_second: Annotated[
        float,
        _meta(
            "commands from then on",
            "1/s",
            0.1,
            reason="a publisher on air has little to ask; a burst may be `commands_before_publish`",
        ),
    ] = 10.0
    early_media_bytes: Annotated[
        int,
        _meta(
            "media sent before publishing is permitted",
            "bytes",
            0,
            reason="some encoders do not wait for the answer; it takes as long as a look-up",
        ),
    ] = 1 * MIB
    amf_depth: Annotated[
        int,
        _meta("nesting of AMF values", "", 1, reason="real commands are nearly flat"),
    ] = 16
    amf_nodes: Annotated[
        int,
        _meta("AMF values in a message", "", 1, reason="real commands have a few dozen"),
    ] = 1_024
    amf_string_bytes: Annotated[
        int,
        _meta(
            "longest AMF string",
            "bytes",
            1,
            reason="four times the longest address, and no other text is longer",
        ),
    ] = 8 * KIB
    application_bytes: Annotated[
        int,
        _meta(
            "longest application name",
            "bytes",
            1,
            reason='"live-backup-" and six digits are 18; the rest is room',
        ),
    ] = 64
    name_bytes: Annotated[
        int,
        _meta("longest publish name", "bytes", 1, reason="a stream key has 49; the rest is room"),
    ] = 128
    query_bytes: Annotated[
        int,
        _meta(
            "longest query, all its places together",
            "bytes",
            0,
            reason="room for what tools append; nothing is read from it",
        ),
    ] = 1_024
    address_bytes: Annotated[
        int,
        _meta("longest tcUrl", "bytes", 1, reason="the longest application, name and query fit in"),
    ] = 2_048

    # -- load ----------------------------------------------------------------------------------

    media_bits_per_second: Annotated[
        int,
        _meta(
            "what a publisher may send, on average",
            "bit/s",
            1,
            reason="1080p60 encoders are usually set to 6 to 12 Mbit/s; raise it for 4K",
        ),
    ] = 20_000_000
    media_average_seconds: Annotated[
        float,
        _meta(
            "what that average is taken over",
            "s",
            0.1,
            reason="encoders hold their rate over a few seconds, not over one",
        ),
    ] = 10.0
    media_burst: Annotated[
        int,
        _meta(
            "how many times the average a burst may be",
            "",
            1,
            reason="an encoder that lost its network for some seconds sends what it kept at once",
        ),
    ] = 3

    read_seconds: Annotated[
        float,
        _meta(
            "between two reads from a publisher on air, not over TLS; 0: as it comes",
            "s",
            0.0,
            0.1,
            reason="each read wakes the process, whatever it brings; segments last seconds",
        ),
    ] = 0.05
    beginnings_per_minute: Annotated[
        int,
        _meta(
            "new configurations and clock jumps, on average; a burst may be as many",
            "1/min",
            1,
            reason="an encoder begins with two, and anew when its user changes something; each"
            " costs a decoder, encoders and a discontinuity",
        ),
    ] = 30


class TokenBucket:
    """A token bucket: `rate` tokens a second, at most `size` of them."""

    __slots__ = ("_rate", "_size", "_tokens", "_updated")

    def __init__(self, rate: float, size: float, now: float) -> None:
        self._rate = rate
        self._size = size
        self._tokens = size
        self._updated = now

    def spend(self, amount: float, now: float) -> bool:
        """Spend `amount` if it is available, and return whether it was."""
        tokens = min(self._size, self._tokens + (now - self._updated) * self._rate)
        self._updated = now
        is_available = tokens >= amount
        self._tokens = tokens - amount if is_available else tokens
        return is_available
