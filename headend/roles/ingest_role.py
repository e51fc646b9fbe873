"""The side of a service that takes encoders in: its listener, its runs, what is asked of it."""

import logging
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from headend.install.tls import Tls
from headend.roles.adapters import CatalogChronicle, CatalogDirectory, CatalogJournal, EngineSinks
from headend.roles.background import while_running
from headend.roles.command_executor import Orders
from headend.roles.context import Ground, wall_us
from headend.roles.ingest_metrics import Telemetry
from headend.roles.listen_sockets import Doors
from headend.roles.media_remover import StoredMedia
from headend.roles.recordings import recorder_on
from ingest.server.listener import listening
from ingest.stream.failover import Mode, Policy
from media.stream_keys import PublicHash
from media.ticks import VIDEO_SCALE
from storage.catalog import Catalog
from storage.errors import StorageError
from storage.live.publication import LiveWindow
from transcode.live.posters import LivePosters
from transcode.live.service import LiveTranscoding

__all__ = ["Encoders", "taking_encoders"]

log = logging.getLogger(__name__)


class Encoders(msgspec.Struct, frozen=True, kw_only=True):
    """The side of a service that takes encoders in."""

    figures: Callable[[], bytes]
    tls: Tls | None
    nudge: Callable[[], None]  # there is a command
    is_shedding: Callable[[], bool]  # whether live streams do without rungs


@asynccontextmanager
async def taking_encoders(ground: Ground) -> AsyncGenerator[Encoders, None]:
    """Take encoders in for the length of the block, and do what is asked of their streams."""
    settings, catalog, doors = ground.settings, ground.catalog, ground.doors
    await catalog.live_state.reset(wall_us())
    tls = Tls(settings, ground.folder / "tls", ground.addresses) if doors.rtmps else None
    window = LiveWindow(
        listed_seconds=settings.live.listed_seconds, kept_seconds=settings.live.kept_seconds
    )
    posters = LivePosters(
        ground.objects,
        partial(_pictured, catalog),
        every=round(settings.live.poster_seconds * VIDEO_SCALE),
    )
    recorder = recorder_on(ground)
    transcoding = LiveTranscoding(
        objects=ground.objects,
        edge=ground.edge,
        window=window,
        wall_us=wall_us,
        record_event=CatalogChronicle(catalog, wall_us).happened,
        posters=posters,
        recorder=recorder,
    )
    left: defaultdict[float, list[PublicHash]] = defaultdict(list)
    for hash_, window_seconds in (await catalog.live_state.find_reconnect_windows()).items():
        own = window_seconds is not None
        left[window_seconds if own else settings.live.reconnect_seconds].append(hash_)
    async with (
        while_running(
            *(
                _end_abandoned(transcoding, catalog, hashes, seconds)
                for seconds, hashes in left.items()
            ),
            transcoding.shed_load(),
            posters.run(),
            recorder.run(),
        ),
        listening(
            limits=settings.limits,
            directory=CatalogDirectory(
                catalog,
                window=settings.live.reconnect_seconds,
                goodbye=settings.live.goodbye_seconds,
                policy=Policy(
                    mode=Mode(settings.failover.mode),
                    detect_seconds=settings.failover.detect_seconds,
                    return_seconds=settings.failover.return_seconds,
                ),
                record=settings.recording.enabled,
                keep_days=settings.recording.keep_days,
            ),
            sinks=EngineSinks(transcoding),
            journal=CatalogJournal(catalog, wall_us),
            sockets=_ingest_doors(doors, tls),
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
                figures=Telemetry(listener, transcoding).text,
                tls=tls,
                nudge=orders.nudge,
                is_shedding=lambda: transcoding.is_shedding,
            )


async def _pictured(
    catalog: Catalog, hash_: PublicHash, labels: Sequence[str], size: tuple[int, int]
) -> bool:
    """Write down that a stream has new posters (see `transcode.live.posters.Note`)."""
    return await catalog.streams.set_posters(hash_, labels, size, now_us=wall_us())


async def _end_abandoned(
    transcoding: LiveTranscoding,
    catalog: Catalog,
    hashes: Collection[PublicHash],
    window: float,
) -> None:
    """End the runs that nobody came back to; then they are not paused any more."""
    await transcoding.end_abandoned(hashes, window)
    try:
        await catalog.live_state.end_pauses(hashes, wall_us())
    except StorageError as error:
        log.warning("pauses not taken back", extra={"cause": repr(error)})


def _ingest_doors(
    doors: Doors, tls: Tls | None
) -> list[tuple[socket.socket, ssl.SSLContext | None]]:
    found: list[tuple[socket.socket, ssl.SSLContext | None]] = []
    if doors.rtmp is not None:
        found.append((doors.rtmp, None))
    if doors.rtmps is not None and tls is not None:
        found.append((doors.rtmps, tls.context))
    return found
