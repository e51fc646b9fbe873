"""Every number that bounds an RTMP peer, each with its reason; all of them can be set.

Seconds are floats on a clock that never goes back; bytes, bits and counts are whole. Bytes on the
wire are the peer's: whatever it sends, memory, work and time stay within these numbers.
"""

from typing import Annotated, Final

import msgspec

__all__ = ["MAX_CHUNK_BYTES", "Bucket", "Limits"]

KIB: Final = 1 << 10
MIB: Final = 1 << 20

# A message cannot be longer (24-bit length), so neither need a chunk be: larger sizes mean this.
MAX_CHUNK_BYTES: Final = 0xFF_FFFF


def _about(description: str, unit: str, least: float, most: float | None = None) -> msgspec.Meta:
    return msgspec.Meta(description=description, extra={"unit": unit}, ge=least, le=most)


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a peer may take. Names carry their unit: `_bytes`, `_seconds`; others are counts."""

    # -- time ----------------------------------------------------------------------------------

    # Slow openings must not hold sockets: TLS, then C0 to C2, then everything up to `publish`.
    tls_handshake_seconds: Annotated[
        float, _about("from accept to the end of the TLS handshake", "s", 0.1)
    ] = 10.0
    handshake_seconds: Annotated[
        float, _about("from accept to the end of the RTMP handshake", "s", 0.1)
    ] = 5.0
    publish_seconds: Annotated[float, _about("from accept to the command publish", "s", 0.1)] = 15.0
    # SRS waits 20 s for the first packet; an encoder that was let in may still be warming up.
    first_media_seconds: Annotated[
        float, _about("from leave to publish to the first packet", "s", 0.1)
    ] = 20.0
    # A live encoder sends tens of packets a second; after this much nothing it is a zombie.
    idle_media_seconds: Annotated[
        float, _about("without a packet, once there was one", "s", 0.1)
    ] = 10.0
    # A half-open connection stays silent; a live peer answers the pings in between.
    ping_seconds: Annotated[float, _about("between two pings", "s", 0.1)] = 10.0
    silence_seconds: Annotated[float, _about("without a byte from the peer", "s", 0.1)] = 20.0

    # -- chunks and messages -------------------------------------------------------------------

    # Announced to the peer; ffmpeg takes the server's value for its own sending, and one chunk a
    # picture costs a sixth of what 4096-byte chunks cost.
    out_chunk_bytes: Annotated[
        int, _about("chunk size that is announced to the peer", "bytes", 128, MAX_CHUNK_BYTES)
    ] = 64 * KIB
    # 128-byte chunks at 40 Mbit/s are 39 000 a second; more is a "one-byte chunks" attack.
    chunks_per_second: Annotated[int, _about("chunks a peer may send, on average", "", 1)] = 50_000
    chunks_average_seconds: Annotated[
        float, _about("what that average is taken over", "s", 0.1)
    ] = 5.0
    # A 4K keyframe at 60 Mbit/s is below 4 MiB; nginx-rtmp's 1 MiB has cut real streams off.
    media_message_bytes: Annotated[
        int, _about("longest audio, video or aggregate message", "bytes", 1)
    ] = 8 * MIB
    # A command or a data message: real ones stay below 2 KiB.
    other_message_bytes: Annotated[int, _about("longest command or data message", "bytes", 1)] = (
        64 * KIB
    )
    # All messages of a connection that have begun and not ended.
    unfinished_bytes: Annotated[
        int, _about("messages that have begun and not ended", "bytes", 1)
    ] = 16 * MIB
    # nginx-rtmp's 32 was too few for real devices.
    chunk_streams: Annotated[int, _about("chunk streams of a connection", "", 1)] = 64
    # Encoders create one; a retry may create another before deleting the first.
    message_streams: Annotated[int, _about("message streams of a connection", "", 1)] = 4
    # What is told and asked for in the dialogue, as FMS and every server since do.
    window_bytes: Annotated[
        int, _about("acknowledgement window in both directions", "bytes", 1024, 1 << 30)
    ] = 2_500_000

    # -- dialogue ------------------------------------------------------------------------------

    # The longest real openings (rtmp2sink) have seven commands.
    commands_before_publish: Annotated[int, _about("commands up to leave to publish", "", 1)] = 64
    commands_per_second: Annotated[float, _about("commands from then on", "1/s", 0.1)] = 10.0
    # Media that comes before leave to publish: dropped, or held while the key is looked up.
    early_media_bytes: Annotated[int, _about("media before leave to publish", "bytes", 0)] = 1 * MIB
    amf_depth: Annotated[int, _about("nesting of AMF values", "", 1)] = 16
    amf_nodes: Annotated[int, _about("AMF values in a message", "", 1)] = 1_024
    amf_string_bytes: Annotated[int, _about("longest AMF string", "bytes", 1)] = 8 * KIB
    application_bytes: Annotated[int, _about("longest application name", "bytes", 1)] = 64
    name_bytes: Annotated[int, _about("longest publish name", "bytes", 1)] = 128
    query_bytes: Annotated[int, _about("longest query, all its places together", "bytes", 0)] = (
        1_024
    )
    address_bytes: Annotated[int, _about("longest tcUrl", "bytes", 1)] = 2_048

    # -- load ----------------------------------------------------------------------------------

    # An average over `media_average_seconds`; a burst may take `media_burst` times as much, since
    # an encoder that lost its network for some seconds sends what it kept all at once.
    media_bits_per_second: Annotated[
        int, _about("what a publisher may send, on average", "bit/s", 1)
    ] = 20_000_000
    media_average_seconds: Annotated[float, _about("what that average is taken over", "s", 0.1)] = (
        10.0
    )
    media_burst: Annotated[int, _about("how many times the average a burst may be", "", 1)] = 3

    # -- doors ---------------------------------------------------------------------------------

    connections: Annotated[int, _about("open connections", "", 1)] = 1_000
    # A studio behind one address; an office's NAT.
    connections_per_address: Annotated[int, _about("open connections of one address", "", 1)] = 20
    new_per_address_per_second: Annotated[
        int, _about("new connections of one address", "1/s", 1)
    ] = 10
    wrong_keys_per_minute: Annotated[
        int, _about("wrong keys of one address before it is shut out", "1/min", 1)
    ] = 10


class Bucket:
    """A budget that refills with time: `rate` a second, at most `size` saved up."""

    __slots__ = ("_left", "_rate", "_seen", "_size")

    def __init__(self, rate: float, size: float, now: float) -> None:
        self._rate = rate
        self._size = size
        self._left = size
        self._seen = now

    def take(self, amount: float, now: float) -> bool:
        """Spend `amount`; say whether the budget had it."""
        left = min(self._size, self._left + (now - self._seen) * self._rate) - amount
        self._left = left
        self._seen = now
        return left >= 0
