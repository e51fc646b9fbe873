"""What the ingest room needs of the world; `headend.roles.wiring` binds it.

Nothing here knows of a database or an engine: a directory answers who may publish, a sink takes
what is on air, a journal is told what changed.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from ingest.stream.failover import Policy
from media.packet import MediaPacket
from media.stream_keys import Slot, StreamKey
from media.track import Track

__all__ = [
    "Grant",
    "Happened",
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
    the stream's key is. `paused` says that its owner holds the output of a run that a stop cut
    off, `slate` is the address of its slate's picture among the objects (None: the card). `record`
    says that its runs are kept as videos, for `keep_days` days.
    """

    stream: int
    hash: str
    slot: Slot
    active: frozenset[str]
    window: float
    goodbye: float
    policy: Policy = Policy()
    proof: str = ""
    paused: bool = False
    slate: str | None = None
    record: bool = False
    keep_days: int = 30


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

    def begin(self, tracks: tuple[Track, ...], late: float, *, splice: bool = False) -> None:
        """A source starts or starts again, with these tracks (at most one of each kind).

        Its first packet came `late` seconds ago. With `splice` it replaces at once the source that
        is on, which was not finished, and goes on where that ended, without a seam where that can
        be.
        """
        ...

    def offer(self, packet: MediaPacket) -> None:
        """Take a packet of the source that began last."""
        ...

    def slate(self, late: float) -> None:
        """Nobody is on air since `late` seconds ago; called in place of `finish`.

        From then on viewers get the last picture, then the slate, silent, on the wall clock, until
        another source begins or the run ends. A run that is paused from its beginning on has begun
        a source, of which nothing was offered.
        """
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

    `on_air` is the slot that viewers get, None on the slate too; `sending` the slots whose encoders
    send now. `paused`: the owner holds the run's output; `slate`: viewers get the slate.
    """

    stream: int
    hash: str
    live: bool
    processing: bool
    on_air: Slot | None
    sending: frozenset[Slot]
    no_audio: bool
    paused: bool = False
    slate: bool = False


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream's owner may want to know: a fixed phrase, and facts that are fit for JSON."""

    kind: str
    facts: dict[str, object]


class LiveJournal(Protocol):
    """Writes down how streams stand."""

    async def changed(self, state: LiveState, told: tuple[Happened, ...]) -> None:
        """Keep the state, and what happened up to it, both or neither; the newest state wins.

        Raises:
            PortError: it could not be written.
        """
        ...
