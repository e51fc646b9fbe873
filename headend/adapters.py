"""Ingest's ports on storage and engines: what the ingest room needs, in the words of the others."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from ingest.ports import Grant, LiveState, PacketSink, PortError
from media.keys import Slot, StreamKey
from storage.catalog import Catalog
from storage.errors import StorageError
from transcode.live import LiveTranscoding

__all__ = ["CatalogChronicle", "CatalogDirectory", "CatalogJournal", "EngineSinks"]


class CatalogDirectory:
    """The catalog as a directory of keys; the seconds are for streams whose owners set none."""

    def __init__(self, catalog: Catalog, *, window: float, goodbye: float) -> None:
        self._catalog = catalog
        self._window = window
        self._goodbye = goodbye

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        """Look the key up, whatever the application: each refusal costs the same."""
        try:
            record = await self._catalog.find_ingest(key)
        except StorageError as error:
            raise PortError(str(error)) from error
        slot = Slot.of_application(application)
        if record is None or slot is None or slot.number not in record.slots:
            return None
        return Grant(
            stream=record.id,
            hash=record.hash,
            slot=slot,
            active=record.active,
            window=_set_or(record.reconnect_seconds, self._window),
            goodbye=_set_or(record.goodbye_seconds, self._goodbye),
            proof=record.proof,
        )


def _set_or(own: float | None, default: float) -> float:
    return default if own is None else own


class CatalogJournal:
    """The catalog as the place where streams' states are written."""

    def __init__(self, catalog: Catalog, now_us: Callable[[], int]) -> None:
        self._catalog = catalog
        self._now_us = now_us

    async def changed(self, state: LiveState) -> None:
        """Write the state of one stream."""
        try:
            await self._catalog.set_live_state(
                state.stream,
                live=state.live,
                processing=state.processing,
                on_air=state.on_air.number if state.on_air is not None else None,
                sending=frozenset(slot.number for slot in state.sending),
                no_audio=state.no_audio,
                now_us=self._now_us(),
            )
        except StorageError as error:
            raise PortError(str(error)) from error

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        """Write an event of the stream with this hash."""
        try:
            await self._catalog.add_event(stream, kind, facts, self._now_us())
        except StorageError as error:
            raise PortError(str(error)) from error


class CatalogChronicle:
    """The catalog as the place where events are written."""

    def __init__(self, catalog: Catalog, now_us: Callable[[], int]) -> None:
        self._catalog = catalog
        self._now_us = now_us

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        """Write an event of the stream with this hash.

        Raises:
            StorageError: it could not be written.
        """
        await self._catalog.add_event(stream, kind, facts, self._now_us())


class EngineSinks:
    """Engines as the sinks of runs."""

    def __init__(self, transcoding: LiveTranscoding) -> None:
        self._transcoding = transcoding

    def run(
        self, grant: Grant, notify: Callable[[], None]
    ) -> AbstractAsyncContextManager[PacketSink]:
        """Open a run of the stream."""
        return self._transcoding.run(
            stream=grant.hash, active=grant.active, window=grant.window, notify=notify
        )
