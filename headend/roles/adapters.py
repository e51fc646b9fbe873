"""Adapters of the catalog and the engines to the ports of `ingest.stream`."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from ingest.stream.failover import Mode, Policy
from ingest.stream.ports import Grant, LiveEvent, LiveState, PacketSink, PortError
from media.stream_keys import Slot, StreamKey
from storage.catalog import Catalog
from storage.catalog.records.settings import StreamFailover
from storage.errors import StorageError
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding

__all__ = ["CatalogDirectory", "CatalogEventLog", "CatalogJournal", "EngineSinks"]

T = TypeVar("T")


class CatalogDirectory:
    """Looks up stream keys in the catalog.

    Settings of a stream or its project take precedence over the defaults given here: how long a run
    waits for an encoder that was lost (`reconnect_seconds`) or ended properly (`goodbye_seconds`),
    the failover policy, whether and for how many days runs are recorded, and whether playlists are
    low-latency HLS.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        reconnect_seconds: float,
        goodbye_seconds: float,
        policy: Policy | None = None,
        record: bool = False,
        keep_days: int = 30,
        low_latency: bool = True,
    ) -> None:
        self._catalog = catalog
        self._reconnect_seconds = reconnect_seconds
        self._goodbye_seconds = goodbye_seconds
        self._policy = Policy() if policy is None else policy
        self._record = record
        self._keep_days = keep_days
        self._low_latency = low_latency

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        """Look up the key whatever the application, so that all refusals take the same time."""
        try:
            record = await self._catalog.live_state.find_ingest(key)
        except StorageError as error:
            raise PortError(str(error)) from error
        slot = Slot.of_application(application)
        if record is None or slot is None or slot.number not in record.slots:
            return None
        settings = record.settings
        failover, recording = settings.failover, settings.recording
        return Grant(
            stream=record.id,
            hash=record.hash,
            slot=slot,
            active=record.active,
            reconnect_seconds=_set_or(failover.reconnect_seconds, self._reconnect_seconds),
            goodbye_seconds=_set_or(failover.goodbye_seconds, self._goodbye_seconds),
            policy=_policy(failover, self._policy),
            proof=record.proof,
            paused=record.paused,
            slate=record.slate,
            record=_set_or(recording.enabled, self._record),
            keep_days=_set_or(recording.keep_days, self._keep_days),
            low_latency=self._low_latency
            if settings.latency is None
            else settings.latency == "low",
            dvr_seconds=_set_or(settings.dvr_seconds, 0.0),
        )


def _policy(own: StreamFailover, default: Policy) -> Policy:
    return Policy(
        mode=default.mode if own.mode is None else Mode(own.mode),
        detect_seconds=_set_or(own.detect_seconds, default.detect_seconds),
        return_seconds=_set_or(own.return_seconds, default.return_seconds),
    )


def _set_or(own: T | None, default: T) -> T:
    return default if own is None else own


class CatalogJournal:
    """Writes the states of streams to the catalog."""

    def __init__(self, catalog: Catalog, now_us: Callable[[], int]) -> None:
        self._catalog = catalog
        self._now_us = now_us

    async def write(self, state: LiveState, events: tuple[LiveEvent, ...]) -> None:
        """Write the state of a stream and the events that led to it in one transaction."""
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
                happened=[(each.kind, each.facts) for each in events],
            )
        except StorageError as error:
            raise PortError(str(error)) from error


class CatalogEventLog:
    """Writes events to the catalog."""

    def __init__(self, catalog: Catalog, now_us: Callable[[], int]) -> None:
        self._catalog = catalog
        self._now_us = now_us

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        """Add an event of the stream with this hash.

        Raises:
            StorageError: it could not be written.
        """
        await self._catalog.events.add(stream, kind, facts, self._now_us())


class EngineSinks:
    """Opens a live transcoding run as the sink of a stream's packets.

    `part_seconds` is the target duration of a partial segment.
    """

    def __init__(self, transcoding: LiveTranscoding, *, part_seconds: float = 0.5) -> None:
        self._transcoding = transcoding
        self._part_seconds = part_seconds

    def run(
        self, grant: Grant, notify: Callable[[], None]
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
            ),
            notify=notify,
            slate=grant.slate,
            record=grant.record,
            keep_days=grant.keep_days,
        )
