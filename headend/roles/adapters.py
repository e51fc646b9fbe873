"""Adapters of the catalog and the engines to the ports of `ingest.stream`."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

import msgspec

from ingest.stream.failover import LEAST_PICTURE_SECONDS, LOW_LATENCY_POLICY, Mode, Policy
from ingest.stream.ports import (
    Grant,
    LiveState,
    PacketSink,
    PortError,
    StreamEnded,
)
from media.stream_events import RefusedEvent, StreamEvent
from media.stream_keys import PublicHash, Slot, StreamKey
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.records.common import IngestRecord
from storage.catalog.records.settings import StreamFailover
from storage.errors import StorageError
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding

__all__ = ["CatalogDirectory", "CatalogJournal", "EngineSinks", "GrantDefaults"]

T = TypeVar("T")

_ENDED: Final = "the stream was ended"


class GrantDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a grant for which neither the stream nor its project has a setting.

    If `detect_seconds` is None, it follows from the latency; the other fields are as in `Grant` and
    `Policy`.
    """

    reconnect_seconds: float = 60.0
    goodbye_seconds: float = 10.0
    mode: Mode = Mode.PREFER_PRIMARY
    detect_seconds: float | None = None
    return_seconds: float = 10.0
    record: bool = False
    keep_days: int = 30
    low_latency: bool = True


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
        defaults: GrantDefaults,
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
            PortError: the catalog does not answer, or `refuse` has a reason.
        """
        slot = Slot.of_application(application)
        try:
            record = await self._catalog.live_state.find_ingest(key)
            if record is None or slot is None or slot.number not in record.slots:
                return None
            await self._refuse_if_held(record, slot)
        except StorageError as error:
            raise PortError(str(error)) from error
        if reason := self._refuse(record.hash):
            raise PortError(reason)
        settings, defaults = record.settings, self._defaults
        failover, recording = settings.failover, settings.recording
        low_latency = (
            defaults.low_latency if settings.latency is None else settings.latency == "low"
        )
        return Grant(
            stream=record.id,
            hash=record.hash,
            slot=slot,
            active=record.active,
            reconnect_seconds=_set_or(failover.reconnect_seconds, defaults.reconnect_seconds),
            goodbye_seconds=_set_or(failover.goodbye_seconds, defaults.goodbye_seconds),
            policy=_policy(failover, defaults, low_latency=low_latency),
            proof=record.proof,
            paused=record.paused,
            slate=record.slate,
            record=_set_or(recording.enabled, defaults.record),
            keep_days=_set_or(recording.keep_days, defaults.keep_days),
            low_latency=low_latency,
            dvr_seconds=_set_or(settings.dvr_seconds, 0.0),
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


def _policy(failover: StreamFailover, defaults: GrantDefaults, *, low_latency: bool) -> Policy:
    policy = LOW_LATENCY_POLICY if low_latency else Policy()
    detect_seconds = _set_or(failover.detect_seconds, defaults.detect_seconds)
    if detect_seconds is not None:
        policy = Policy(detect_seconds=detect_seconds)
    return msgspec.structs.replace(
        policy,
        mode=defaults.mode if failover.mode is None else Mode(failover.mode),
        return_seconds=_set_or(failover.return_seconds, defaults.return_seconds),
        picture_seconds=max(
            LEAST_PICTURE_SECONDS,
            _set_or(failover.reconnect_seconds, defaults.reconnect_seconds),
        ),
    )


def _set_or(setting: T | None, default: T) -> T:
    return default if setting is None else setting


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
                resume_seconds=grant.reconnect_seconds,
                low_latency=grant.low_latency,
                part_seconds=self._part_seconds,
                dvr_seconds=grant.dvr_seconds,
                generation=generation,
            ),
            notify=notify,
            slate=grant.slate,
            record=grant.record,
            keep_days=grant.keep_days,
        )

    def expect(self, hash_: str) -> None:
        """Prepare an engine for a run of the stream that may begin soon."""
        self._transcoding.spares.expect(hash_)
