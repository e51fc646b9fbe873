"""What the ingest room needs of the world; `headend.wiring` binds it.

Nothing here knows of a database or an engine: a directory answers who may publish, a sink takes
what is on air, a journal is told what changed.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from media.keys import Slot, StreamKey
from media.packet import MediaPacket
from media.track import Track

__all__ = [
    "Grant",
    "KeyDirectory",
    "LiveJournal",
    "LiveState",
    "PacketSink",
    "PortError",
    "SinkFactory",
]


class PortError(Exception):
    """What stands behind a port does not answer: nobody's fault here, worth another try."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Leave to publish into one slot of a stream.

    `stream` is the stream's number, `hash` its public name, `active` the labels of its resolutions
    that are on. `window` is how long a lost encoder may stay away before the run ends and
    `goodbye` the same for one that took its leave, both in seconds. `proof` is another one once
    the stream's key is.
    """

    stream: int
    hash: str
    slot: Slot
    active: frozenset[str]
    window: float
    goodbye: float
    proof: str = ""


class KeyDirectory(Protocol):
    """Knows the keys."""

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        """Return leave to publish, or None; unknown and wrong keys take the same time.

        Raises:
            PortError: the keys cannot be looked up now.
        """
        ...


class PacketSink(Protocol):
    """Where one run's packets on air go. No call waits: a slow engine holds no publisher up."""

    @property
    def playable(self) -> bool:
        """Whether viewers have been given a segment of this run."""
        ...

    def begin(self, tracks: tuple[Track, ...], late: float) -> None:
        """A source starts or starts again, with these tracks (at most one of each kind).

        Its first packet came `late` seconds ago.
        """
        ...

    def offer(self, packet: MediaPacket) -> None:
        """Take a packet of the source that began last."""
        ...

    def finish(self) -> None:
        """The source ended; another may begin later in the same run."""
        ...

    def end(self) -> None:
        """The run is over for its viewers: nothing begins in it any more."""
        ...


class SinkFactory(Protocol):
    """Opens runs."""

    def run(
        self, grant: Grant, notify: Callable[[], None]
    ) -> AbstractAsyncContextManager[PacketSink]:
        """Open a run, or go on with one of the same stream that a restart cut off.

        `notify` is called when `playable` has become true and when the engine is lost for good.
        Leaving the block makes everything out of what was offered, within a bounded time; where
        `end` was not called, the run stays open, so that a restart can go on with it.
        """
        ...


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream stands, as its record shows it.

    `on_air` is the slot that viewers get, `sending` the slots whose encoders send now.
    """

    stream: int
    hash: str
    live: bool
    processing: bool
    on_air: Slot | None
    sending: frozenset[Slot]
    no_audio: bool


class LiveJournal(Protocol):
    """Writes down how streams stand."""

    async def changed(self, state: LiveState) -> None:
        """Keep the state; the newest wins.

        Raises:
            PortError: it could not be written.
        """
        ...

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        """Keep what the owner of the stream with this hash may want to know.

        Raises:
            PortError: it could not be written.
        """
        ...
