"""The limits of an RTMP peer, each with its reason; those with a description are settings.

Seconds are floats of a monotonic clock; bytes, bits and counts are integers. Whatever a peer sends,
memory, work and time stay within these limits.
"""

from typing import Annotated, Final

from ingest.publishing.admission import AdmissionLimits
from media.setting import describe

KIB: Final = 1 << 10
MIB: Final = 1 << 20

# No message is longer (24-bit length), so larger chunk sizes are treated as this one.
MAX_CHUNK_BYTES: Final = 0xFF_FFFF


class Limits(AdmissionLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one peer, beside those of its admission.

    `_bytes` and `_seconds` are units, other numbers are counts.
    """

    # -- time ----------------------------------------------------------------------------------

    # A slow opening must not hold a socket; TLS takes a few round trips.
    tls_handshake_seconds: float = 10.0  # from accept to the end of the TLS handshake
    # The same; C0 to C2 are 3 KiB that every client has at hand.
    handshake_seconds: float = 5.0  # from accept to the end of the RTMP handshake
    # The same; the dialogue is a few round trips.
    publish_seconds: float = 15.0  # from accept to the command publish
    first_media_seconds: Annotated[
        float,
        describe(
            "from the permission to publish to the first packet",
            "s",
            0.1,
            reason="an encoder that was let in may still be warming up; SRS waits 20 s too",
        ),
    ] = 20.0
    idle_media_seconds: Annotated[
        float,
        describe(
            "without a packet, once there was one",
            "s",
            0.1,
            reason="a live encoder sends tens of packets a second; after this it is a zombie",
        ),
    ] = 10.0
    # Half of `silence_seconds`, so that a live peer has answered; a peer that sends is not pinged.
    ping_seconds: float = 10.0  # of silence before a ping, and between two pings
    # A half-open connection stays silent; a live peer answers pings.
    silence_seconds: float = 20.0  # without a byte from the peer

    # -- chunks and messages -------------------------------------------------------------------

    # ffmpeg sends with the size that the server announces, and one chunk a picture costs a sixth
    # of what 4096-byte chunks cost.
    out_chunk_bytes: int = 64 * KIB  # chunk size that is announced to the peer
    # 128-byte chunks at 40 Mbit/s are 39 000 a second; more is an attack by one-byte chunks.
    chunks_per_second: int = 50_000  # chunks a peer may send, on average
    # A burst after a lost network is no attack.
    chunks_average_seconds: float = 5.0  # what that average is taken over
    # 60 pictures, two audio tracks and metadata are about 160 a second, and each message costs a
    # packet's handling; a burst after a lost network is no attack.
    messages_per_second: int = 1_000  # messages a peer may send, on average; ten times as a burst
    media_message_bytes: Annotated[
        int,
        describe(
            "longest audio, video or aggregate message",
            "bytes",
            1,
            reason="a 4K keyframe at 60 Mbit/s is below 4 MiB; nginx-rtmp's 1 MiB has cut real"
            " streams off",
        ),
    ] = 8 * MIB
    # Real ones are below 2 KiB.
    other_message_bytes: int = 64 * KIB  # longest command or data message
    # Two of the longest by default, as messages of sound and picture may be interleaved; none is
    # longer than all of it (24-bit length).
    unfinished_bytes: int = 16 * MIB  # messages that have begun and not ended
    # nginx-rtmp's 32 was too few for real devices.
    chunk_streams: int = 64  # chunk streams of a connection
    # Encoders create one; a retry may create another before deleting the first.
    message_streams: int = 4  # message streams of a connection
    # A second of sound and picture is a few hundred; one of 8 MiB could hold half a million.
    aggregate_messages: int = 1_024  # messages in an aggregate message
    # What FMS said, and every server since.
    window_bytes: int = 2_500_000  # acknowledgement window in both directions

    # -- dialogue ------------------------------------------------------------------------------

    # The longest real openings (rtmp2sink) have seven.
    commands_before_publish: int = 64  # commands before publishing is permitted
    # A publisher on air has little to ask; a burst may be `commands_before_publish`.
    commands_per_second: float = 10.0  # commands from then on
    # Some encoders do not wait for the answer; it takes as long as a look-up.
    early_media_bytes: int = 1 * MIB  # media sent before publishing is permitted
    # Real commands are nearly flat.
    amf_depth: int = 16  # nesting of AMF values
    # Real commands have a few dozen.
    amf_nodes: int = 1_024  # AMF values in a message
    # Four times the longest address, and no other text is longer.
    amf_string_bytes: int = 8 * KIB  # longest AMF string
    # "live-backup-" and six digits are 18; the rest is room.
    application_bytes: int = 64  # longest application name
    # A stream key has 49; the rest is room.
    name_bytes: int = 128  # longest publish name
    # Room for what tools append; nothing is read from it.
    query_bytes: int = 1_024  # longest query, all its places together
    # The longest application, name and query fit in.
    address_bytes: int = 2_048  # longest tcUrl

    # -- load ----------------------------------------------------------------------------------

    media_bits_per_second: Annotated[
        int,
        describe(
            "what a publisher may send, on average",
            "bit/s",
            1,
            reason="1080p60 encoders are usually set to 6 to 12 Mbit/s; raise it for 4K",
        ),
    ] = 20_000_000
    # Encoders hold their rate over a few seconds, not over one.
    media_average_seconds: float = 10.0  # what that average is taken over
    # An encoder that lost its network for some seconds sends what it kept at once.
    media_burst: int = 3  # how many times the average a burst may be

    # Each read wakes the process, whatever it brings; segments last seconds.
    read_seconds: float = 0.05  # between reads from a publisher on air; 0: at once
    beginnings_per_minute: Annotated[
        int,
        describe(
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
