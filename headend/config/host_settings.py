"""The settings of ingest hosts that share a database of PostgreSQL."""

from typing import Annotated

from headend.config.section import Section
from ingest.relay.media_ring import RINGS_BYTES
from media.setting import describe


class HostsSettings(Section, frozen=True, kw_only=True):
    """How a process that receives streams is known to the others, and when it counts as gone."""

    name: Annotated[
        str,
        describe(
            "unique name of this process; empty: the machine's name and the role",
            max_length=255,
        ),
    ] = ""
    streams: Annotated[
        int,
        describe(
            "most streams that this process runs; further ones go to hosts with room,"
            " or stay here if none has any; 0: no limit",
            reason="encoding takes about a core a stream",
            ge=0,
            le=100_000,
        ),
    ] = 0
    dead_seconds: Annotated[
        float,
        describe(
            "a process that was not seen for this long loses its streams to others",
            unit="s",
            reason="each is seen once a second; two may be late on a busy machine",
            ge=2,
            le=60,
        ),
    ] = 3.0
    relay_listen: Annotated[
        str,
        describe(
            "address where others relay encoders to this process; empty: they cannot",
            unit="HOST:PORT",
        ),
    ] = ""
    relay_address: Annotated[
        str,
        describe(
            "where the others connect to; empty: relay_listen",
            unit="HOST:PORT",
            max_length=255,
        ),
    ] = ""
    relay_memory_bytes: Annotated[
        int,
        describe(
            "media that this process keeps of all encoders that it relays, for when an"
            " owner fails; the largest loses its oldest first",
            unit="bytes",
            reason="40 encoders of 6 Mbit/s for 15 s, more than is kept of one",
            ge=64 << 20,
        ),
    ] = RINGS_BYTES
