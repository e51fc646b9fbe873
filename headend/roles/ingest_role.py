"""The ingest role: the RTMP listener, live transcoding, recordings, and their commands."""

import logging
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec
from prometheus_client.registry import Collector

from api.operations.report import SpareRoom
from api.schemas.filenames import slug
from delivery.recording.recorder import Recorder
from delivery.run.run_objects import require_versions
from delivery.run.run_state import LiveWindow
from headend.config.listen_sockets import ListenSockets
from headend.duties.command_executor import CommandExecutor
from headend.duties.media_remover import StoredMedia
from headend.hosts.ownership import CatalogOwnership, OrphanedRuns, OwnershipWatch, SoleRuns
from headend.hosts.presence import HostPresence
from headend.hosts.stale_streams import keep_resetting_unowned_streams
from headend.install.certificates import RtmpsCertificate
from headend.install.media_store import bucket_of
from headend.install.relay_key import relay_tls
from headend.roles.adapters import CatalogDirectory, CatalogJournal, EngineSinks, service_policy
from headend.roles.context import RoleContext
from headend.roles.edge_metrics import EdgeMetrics
from headend.roles.ingest_metrics import IngestMetrics
from headend.supervision import BackgroundTask, run_in_background
from ingest.server.listener import OtherHosts, RtmpListener, listening
from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS, VIDEO_SCALE
from storage.catalog import Catalog
from storage.errors import StorageError
from storage.objects.disk_check import room_problem
from storage.objects.disk_threads import LIVE
from storage.wall_clock import wall_clock_us
from transcode.live.event_queue import EventQueue
from transcode.live.posters import LivePosters
from transcode.live.room import RoomMeter
from transcode.live.service import LiveTranscoding
from transcode.live.source_comparer import open_comparer

log = logging.getLogger(__name__)


class IngestRole(msgspec.Struct, frozen=True, kw_only=True):
    """A running ingest role, for the other parts of the service."""

    metrics: tuple[Collector, ...]
    tls: RtmpsCertificate | None
    nudge: Callable[[], None]  # a command was added
    is_shedding: Callable[[], bool]  # live streams lack rungs for lack of CPU
    room: Callable[[], SpareRoom | None]  # for more streams; None: not known


@asynccontextmanager
async def run_ingest(
    context: RoleContext, presence: HostPresence | None = None
) -> AsyncGenerator[IngestRole, None]:
    """Accept encoders and execute commands for the length of the block.

    `presence` is that of this process where several hosts share the catalog.
    """
    settings, catalog, sockets = context.settings, context.catalog, context.sockets
    interrupted = await _reset_streams(catalog, presence)
    tls = (
        RtmpsCertificate(settings, context.folder / "tls", context.addresses)
        if sockets.rtmps
        else None
    )
    window = LiveWindow(
        listed_seconds=settings.live.listed_seconds, kept_seconds=settings.live.kept_seconds
    )
    posters = LivePosters(
        context.objects.using(LIVE),
        partial(_save_posters, catalog),
        every=round(settings.live.poster_seconds * VIDEO_SCALE),
    )
    fenced = presence is not None and bucket_of(settings) is not None
    if fenced:
        await require_versions(context.objects)
    now_us = catalog.clock.now_us
    recorder = _create_recorder(context, now_us)
    name = None if presence is None else presence.name
    journal = CatalogJournal(catalog, now_us, name)
    events = EventQueue(journal.happened)
    transcoding = LiveTranscoding(
        objects=context.objects.using(LIVE),
        edge=context.edges.writer,
        window=window,
        wall_us=wall_clock_us,
        now_us=now_us,
        record_event=events.add,
        posters=posters,
        observers=[recorder.observe],
        lag=context.lag,
        fenced=fenced,
    )
    ownership = None if presence is None else CatalogOwnership(catalog, presence)
    abandoned = () if presence is not None else await _abandoned(context, transcoding, interrupted)
    async with (
        run_in_background(
            *abandoned,
            BackgroundTask("load shedding", transcoding.shed_load),
            BackgroundTask("spare engines", transcoding.spares.run),
            BackgroundTask("posters of streams", posters.run),
            BackgroundTask("recordings", recorder.run),
            BackgroundTask("events of runs", events.run),
            *_reset_later(catalog, presence),
        ),
        events.written_at_exit(),
        listening(
            limits=settings.limits,
            directory=CatalogDirectory(
                catalog,
                service_policy(settings),
                now_us=now_us,
                end_holds_seconds=settings.live.end_holds_seconds,
                host=name,
                # What is on air goes on, since viewers have it.
                refuse=lambda hash_: "" if hash_ in transcoding.runs else context.lease.problem,
            ),
            sinks=EngineSinks(transcoding, part_seconds=settings.live.part_seconds),
            journal=journal,
            sockets=_listening_sockets(sockets, tls),
            drain_seconds=settings.drain_seconds,
            lag=context.lag,
            hosts=None if ownership is None else _other_hosts(context, ownership),
            open_comparer=open_comparer,
        ) as listener,
    ):
        execute = partial(
            CommandExecutor,
            catalog=catalog,
            streams=listener.streams,
            media=StoredMedia(
                context.objects, context.edges.drop_folder, context.catalog.removals.are_held
            ),
            now_us=now_us,
            end_holds_seconds=settings.live.end_holds_seconds,
        )
        tasks: tuple[BackgroundTask, ...] = ()
        if presence is None or ownership is None:
            executor = execute(unfinished_runs=SoleRuns(transcoding))
        else:
            watch = OwnershipWatch(listener.streams, context.edges.writer)
            transcoding.on_lost = watch.on_run_lost
            transcoding.on_stored = partial(_report_kept, listener)
            if context.edges.publishing is not None:
                context.edges.publishing.on_published = partial(_report_kept, listener)
            orphaned = OrphanedRuns(
                ownership,
                listener.streams,
                transcoding,
                reconnect_seconds=settings.live.reconnect_seconds,
            )
            presence.on_owned = partial(_report_owned, watch, orphaned)
            presence.on_lost = watch.on_unseen
            executor = execute(unfinished_runs=orphaned, presence=presence, hold=orphaned.holding)
            tasks = (
                BackgroundTask("ownership of streams", watch.run),
                BackgroundTask("runs of hosts that are gone", orphaned.run),
            )
        async with (
            run_in_background(BackgroundTask("commands", executor.run), *tasks),
            _closing(presence),
        ):
            yield IngestRole(
                metrics=(
                    IngestMetrics(listener, transcoding, context.lag),
                    EdgeMetrics(context.edges),
                ),
                tls=tls,
                nudge=executor.nudge,
                is_shedding=lambda: transcoding.is_shedding,
                room=partial(_spare_room, transcoding.room),
            )


def _spare_room(meter: RoomMeter) -> SpareRoom | None:
    more = meter.more
    return None if more is None else SpareRoom(more=more, basis=meter.basis)


@asynccontextmanager
async def _closing(presence: HostPresence | None) -> AsyncGenerator[None]:
    """Stop the other hosts from giving this one new streams at the end of the block."""
    try:
        yield
    finally:
        if presence is not None:
            await presence.close_to_new_streams()


def _other_hosts(context: RoleContext, ownership: CatalogOwnership) -> OtherHosts:
    """Return what this host needs to relay to the other hosts, and to accept what they relay."""
    tls = relay_tls(context.first.relay_secret.encode())
    sock = context.sockets.relay
    return OtherHosts(
        ownership=ownership,
        client_tls=tls.client,
        accepts=None if sock is None else (sock, tls.server),
        relay_memory_bytes=context.settings.hosts.relay_memory_bytes,
    )


def _report_owned(watch: OwnershipWatch, orphaned: OrphanedRuns, owned: Mapping[int, int]) -> None:
    """Pass the streams that this host owns to both parts that compare them with those served."""
    watch.on_owned(owned)
    orphaned.on_owned(owned)


def _report_kept(listener: RtmpListener, hash_: str, until_us: int) -> None:
    """Report to the hosts that relay a stream until when its media are stored, or in Redis."""
    if listener.relay is None:
        return
    seconds_ago = max(0.0, (wall_clock_us() - until_us) / MICROSECONDS)
    for stream, served in listener.streams.hashes.items():
        if served == hash_:
            listener.relay.media_stored(stream, seconds_ago)


async def _reset_streams(catalog: Catalog, presence: HostPresence | None) -> Collection[PublicHash]:
    """Mark the streams that a killed process left as off air, but not those of other hosts.

    Return them if this is the only host.
    """
    if presence is None:
        return await catalog.live_state.reset(catalog.clock.now_us())
    await catalog.live_state.reset_unowned(
        catalog.clock.now_us(), dead_seconds=presence.dead_seconds, besides=presence.host
    )
    return ()


def _reset_later(catalog: Catalog, presence: HostPresence | None) -> tuple[BackgroundTask, ...]:
    """Return the task that resets streams when another host is gone, if there may be others."""
    if presence is None:
        return ()
    resetting = partial(keep_resetting_unowned_streams, catalog, presence.dead_seconds)
    return (BackgroundTask("stale streams", resetting),)


def _create_recorder(context: RoleContext, now_us: Callable[[], int]) -> Recorder:
    """Return the recorder of this process's runs; it starts with `run`.

    `now_us` is the clock of all processes that record.
    """
    objects = context.objects
    return Recorder(
        objects=objects,
        catalog=context.catalog.recordings,
        find_lack=partial(
            room_problem, objects.scratch.root, context.settings.storage.min_free_bytes
        ),
        now_us=now_us,
        name_of=slug,
        write_event=CatalogJournal(context.catalog, now_us).happened,
    )


async def _save_posters(
    catalog: Catalog, hash_: PublicHash, labels: Sequence[str], size: tuple[int, int]
) -> bool:
    """Save that a stream has new posters (see `transcode.live.posters`)."""
    return await catalog.streams.set_posters(hash_, labels, size, now_us=catalog.clock.now_us())


async def _abandoned(
    context: RoleContext, transcoding: LiveTranscoding, interrupted: Collection[PublicHash]
) -> list[BackgroundTask]:
    """Return the tasks that end the runs of the only ingest if their encoders do not return.

    Those of the `interrupted` runs that are too old are ended before this returns.
    """
    catalog, default = context.catalog, context.settings.live.reconnect_seconds
    by_window: defaultdict[float, list[PublicHash]] = defaultdict(list)
    for hash_, window in (await catalog.live_state.find_reconnect_windows()).items():
        by_window[default if window is None else window].append(hash_)
    checked = frozenset(interrupted)
    for seconds, hashes in by_window.items():
        await transcoding.end_older(checked.intersection(hashes), seconds)
    return [
        BackgroundTask(
            "abandoned runs",
            partial(_end_abandoned, transcoding, catalog, hashes, checked, seconds),
        )
        for seconds, hashes in by_window.items()
    ]


async def _end_abandoned(
    transcoding: LiveTranscoding,
    catalog: Catalog,
    hashes: Collection[PublicHash],
    checked: Collection[PublicHash],
    window: float,
) -> None:
    """End the runs whose encoders did not return, and their pauses.

    The runs of the streams in `checked` are not older than `window`, which is in seconds.
    """
    await transcoding.end_older([each for each in hashes if each not in checked], window)
    await transcoding.end_abandoned(hashes, window)
    try:
        await catalog.live_state.end_pauses(hashes, catalog.clock.now_us())
    except StorageError as error:
        log.warning("pauses not taken back", extra={"cause": repr(error)})


def _listening_sockets(
    sockets: ListenSockets, tls: RtmpsCertificate | None
) -> list[tuple[socket.socket, ssl.SSLContext | None]]:
    listening: list[tuple[socket.socket, ssl.SSLContext | None]] = []
    if sockets.rtmp is not None:
        listening.append((sockets.rtmp, None))
    if sockets.rtmps is not None and tls is not None:
        listening.append((sockets.rtmps, tls.context))
    return listening
