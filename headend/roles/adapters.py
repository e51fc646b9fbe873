"""Adapters of the catalog and the engines to the ports of `ingest.stream`."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Final

import msgspec

from headend.config.settings import ServiceSettings
from ingest.stream.failover import LEAST_PICTURE_SECONDS, LOW_LATENCY_POLICY, Mode, Policy
from ingest.stream.ports import Grant, LiveState, PacketSink, PortError, StreamDeleted, StreamEnded
from media.run_policy import ResolvedPolicy, RunPolicy, resolve
from media.stream_events import RefusedEvent, StreamEvent
from media.stream_keys import PublicHash, Slot, StreamKey
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.records.common import IngestRecord
from storage.errors import StorageError
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding

_ENDED: Final = "the stream was ended"


def service_policy(settings: ServiceSettings) -> ResolvedPolicy:
    """Return what a run does where neither its stream nor its project has a setting.

    A setting of a run is one of the service if its section there, or `live`, has its name.
    """
    live = msgspec.structs.asdict(settings.live)
    sections = {
        "failover": live | msgspec.structs.asdict(settings.failover),
        "recording": msgspec.structs.asdict(settings.recording),
    }
    return resolve(msgspec.convert(live | sections, RunPolicy[None]))


class CatalogDirectory:
    """Looks up stream keys in the catalog.

    Settings of a stream or its project take precedence over the service's `defaults`. For
    `end_holds_seconds` after an end, and after each attempt in that time, encoders are refused;
    `host` is added to the event about it, as in `CatalogJournal`. `refuse` returns why the encoders
    of the stream with that hash are not admitted, "" if they are.
    """

    def __init__(
        self,
        catalog: Catalog,
        defaults: ResolvedPolicy,
        *,
        now_us: Callable[[], int] | None = None,
        end_holds_seconds: float = 0.0,
        host: str | None = None,
        refuse: Callable[[PublicHash], str] = lambda _: "",
    ) -> None:
        self._catalog = catalog
        self._refuse = refuse
        self._defaults = defaults
        self._now_us = catalog.clock.now_us if now_us is None else now_us
        self._hold_us = round(end_holds_seconds * MICROSECONDS)
        self._host = host

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        """Look up the key for every application, so that all refusals take the same time.

        Raises:
            StreamEnded: the owner ended the stream, and encoders are refused for a while.
            StreamDeleted: the owner deleted the stream, and can restore it.
            PortError: the catalog does not answer, or `refuse` has a reason.
        """
        slot = Slot.of_application(application)
        try:
            record = await self._catalog.live_state.find_ingest(key)
            # Asked for every key, so that it makes no difference to the time.
            if await self._catalog.live_state.is_deleted(key) and slot is not None:
                raise StreamDeleted
            if record is None or slot is None or slot.number not in record.slots:
                return None
            await self._refuse_if_held(record, slot)
        except StorageError as error:
            raise PortError(str(error)) from error
        if reason := self._refuse(record.hash):
            raise PortError(reason)
        run = resolve(record.settings, self._defaults)
        return Grant(
            stream=record.id,
            hash=record.hash,
            slot=slot,
            active=record.active,
            reconnect_seconds=run.failover.reconnect_seconds,
            goodbye_seconds=run.failover.goodbye_seconds,
            policy=_policy(run),
            proof=record.proof,
            paused=record.paused,
            slate=record.slate,
            run=run,
        )

    async def _refuse_if_held(self, record: IngestRecord, slot: Slot) -> None:
        if not self._hold_us:
            return
        now_us = self._now_us()
        event = RefusedEvent(slot=str(slot), reason=_ENDED)
        until_us = await self._catalog.holds.refuse(
            record, event, hold_us=self._hold_us, now_us=now_us, host=self._host
        )
        if until_us is not None:
            raise StreamEnded(record.hash, (until_us - now_us) / MICROSECONDS)


def _policy(run: ResolvedPolicy) -> Policy:
    failover = run.failover
    policy = LOW_LATENCY_POLICY if run.is_low_latency else Policy()
    if failover.detect_seconds is not None:
        policy = msgspec.structs.replace(
            policy, detect_seconds=failover.detect_seconds, hold_seconds=0.0
        )
    return msgspec.structs.replace(
        policy,
        mode=Mode(failover.mode),
        return_seconds=failover.return_seconds,
        align_wait_seconds=run.align_wait_seconds,
        quality_seconds=failover.quality_seconds if failover.quality == "switch" else inf,
        picture_seconds=max(LEAST_PICTURE_SECONDS, failover.reconnect_seconds),
    )


class CatalogJournal:
    """Writes the states of streams, and their events, to the catalog.

    `host` is the name of this process where several receive streams; it is added to its events.
    """

    def __init__(
        self, catalog: Catalog, now_us: Callable[[], int], host: str | None = None
    ) -> None:
        self._catalog = catalog
        self._now_us = now_us
        self._host = host

    async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None:
        """Write the state of a stream and the events that led to it in one transaction.

        Raises:
            PortError: they could not be written.
        """
        try:
            await self._catalog.live_state.set(
                state.stream,
                live=state.live,
                processing=state.processing,
                on_air=state.on_air.number if state.on_air is not None else None,
                sending=frozenset(slot.number for slot in state.sending),
                no_audio=state.no_audio,
                now_us=self._now_us(),
                paused=state.paused,
                generation=state.generation,
                opening=state.opening,
                happened=events,
                host=self._host,
            )
        except StorageError as error:
            raise PortError(str(error)) from error

    async def happened(self, stream: str, event: StreamEvent) -> None:
        """Announce an event of the stream with this hash.

        Raises:
            StorageError: it could not be written.
        """
        await self._catalog.events.add(stream, event, self._now_us(), host=self._host)


class EngineSinks:
    """Opens a live transcoding run as the sink of a stream's packets.

    `part_seconds` is the target duration of a partial segment.
    """

    def __init__(self, transcoding: LiveTranscoding, *, part_seconds: float = 0.5) -> None:
        self._transcoding = transcoding
        self._part_seconds = part_seconds

    def run(
        self, grant: Grant, notify: Callable[[], None], generation: int
    ) -> AbstractAsyncContextManager[PacketSink]:
        """Open a run of the stream for the length of a block."""
        return self._transcoding.run(
            stream=grant.hash,
            active=grant.active,
            settings=RunSettings(
                policy=grant.run, part_seconds=self._part_seconds, generation=generation
            ),
            notify=notify,
            slate=grant.slate,
        )

    def expect(self, hash_: str) -> None:
        """Prepare an engine for a run of the stream that may begin soon."""
        self._transcoding.spares.expect(hash_)
