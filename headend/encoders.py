"""The side of a service that takes encoders in: its listener, its runs, what is asked of it."""

import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec

from headend.adapters import CatalogChronicle, CatalogDirectory, CatalogJournal, EngineSinks
from headend.chores import while_running
from headend.doors import Doors
from headend.ground import Ground, wall_us
from headend.media import StoredMedia
from headend.orders import Orders
from headend.telemetry import Telemetry
from headend.tls import Tls
from ingest.listener import listening
from media.keys import PublicHash
from storage.publication import Window
from transcode.live import LiveTranscoding

__all__ = ["Encoders", "taking_encoders"]


class Encoders(msgspec.Struct, frozen=True, kw_only=True):
    """The side of a service that takes encoders in."""

    figures: Callable[[], bytes]
    tls: Tls | None
    nudge: Callable[[], None]  # there is a command


@asynccontextmanager
async def taking_encoders(ground: Ground) -> AsyncGenerator[Encoders, None]:
    """Take encoders in for the length of the block, and do what is asked of their streams."""
    settings, catalog, doors = ground.settings, ground.catalog, ground.doors
    await catalog.reset_live_states(wall_us())
    tls = Tls(settings, ground.folder / "tls", ground.addresses) if doors.rtmps else None
    window = Window(listed=settings.live.listed_seconds, kept=settings.live.kept_seconds)
    transcoding = LiveTranscoding(
        objects=ground.objects,
        edge=ground.edge,
        window=window,
        wall_us=wall_us,
        chronicle=CatalogChronicle(catalog, wall_us).happened,
    )
    left: defaultdict[float, list[PublicHash]] = defaultdict(list)
    for hash_, window_seconds in (await catalog.reconnect_windows()).items():
        own = window_seconds is not None
        left[window_seconds if own else settings.live.reconnect_seconds].append(hash_)
    async with (
        while_running(
            *(transcoding.end_abandoned(hashes, seconds) for seconds, hashes in left.items()),
            transcoding.govern(),
        ),
        listening(
            limits=settings.limits,
            directory=CatalogDirectory(
                catalog,
                window=settings.live.reconnect_seconds,
                goodbye=settings.live.goodbye_seconds,
            ),
            sinks=EngineSinks(transcoding),
            journal=CatalogJournal(catalog, wall_us),
            doors=_ingest_doors(doors, tls),
            drain_seconds=settings.drain_seconds,
        ) as listener,
    ):
        orders = Orders(
            catalog=catalog,
            streams=listener.streams,
            left=transcoding,
            media=StoredMedia(ground.objects, ground.edge),
            now_us=wall_us,
        )
        async with while_running(orders.carry_out()):
            yield Encoders(
                figures=Telemetry(listener, transcoding).text, tls=tls, nudge=orders.nudge
            )


def _ingest_doors(
    doors: Doors, tls: Tls | None
) -> list[tuple[socket.socket, ssl.SSLContext | None]]:
    found: list[tuple[socket.socket, ssl.SSLContext | None]] = []
    if doors.rtmp is not None:
        found.append((doors.rtmp, None))
    if doors.rtmps is not None and tls is not None:
        found.append((doors.rtmps, tls.context))
    return found
