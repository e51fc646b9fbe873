"""What this package needs of the rest of the service; `headend.roles.ingest_role` binds it.

No database and no engine is known here: a directory grants permission to publish, a sink receives
the media on air, a journal stores what changed.
"""

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Protocol

import msgspec

from ingest.stream.failover import Policy
from media.packet import MediaPacket
from media.run_policy import DEFAULTS, ResolvedPolicy
from media.source_comparison import SourceComparison
from media.source_fault import SourceFault
from media.source_mark import FindMarks, no_marks
from media.stream_events import StreamEvent
from media.stream_keys import Slot, StreamKey
from media.track import AudioTrack, Track, VideoTrack


class PortError(Exception):
    """The service behind a port does not answer; the call can be retried."""


class PublishRefused(Exception):
    """An encoder may not publish; the message is for the encoder.

    `cause` is a fixed phrase, for the log and the metrics.
    """

    cause: ClassVar[str]


class StreamEnded(PublishRefused):
    """The owner ended the stream with this `hash`: encoders are refused.

    `seconds` is for how long if there is no further attempt.
    """

    cause = "ended"

    def __init__(self, hash_: str, seconds: float) -> None:
        super().__init__(
            "the stream was ended by its owner: stop this encoder, and start it again after"
            f" {math.ceil(seconds)} s, or at once if the owner presses 'Go live again'"
        )
        self.hash = hash_


class StreamDeleted(PublishRefused):
    """The key is that of a stream that was deleted and can be restored."""

    cause = "deleted"

    def __init__(self) -> None:
        super().__init__(
            "the stream of this key was deleted: its owner can restore it from the trash"
        )


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to publish into one slot of a stream.

    `stream` is the stream's number, `hash` its public name, `active` the labels of its enabled
    resolutions. `reconnect_seconds` is how long a run waits for a lost encoder, `goodbye_seconds`
    the same for one that said goodbye. `proof` changes with the stream's key. `paused`: the owner
    had paused the output of a run that a restart interrupted. `slate` is the object address of the
    slate's picture (None: the default card). `run` is all that is set for a run, which keeps
    what it began with; the seconds and the `policy` follow from it.
    """

    stream: int
    hash: str
    slot: Slot
    active: frozenset[str]
    reconnect_seconds: float
    goodbye_seconds: float
    policy: Policy = Policy()
    proof: str = ""
    paused: bool = False
    slate: str | None = None
    run: ResolvedPolicy = DEFAULTS


class KeyDirectory(Protocol):
    """Looks stream keys up."""

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        """Return permission to publish, or None; unknown and wrong keys take the same time.

        Raises:
            StreamEnded: the key is right, but encoders of the stream are refused for a while.
            PortError: keys cannot be looked up at present.
        """
        ...


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """The host that owns a stream: it alone opens its runs.

    `generation` rises with each owner of a stream. `address` is where the owner accepts what other
    hosts relay to it: None if this host is the owner, empty if the owner accepts nothing.
    """

    generation: int
    address: str | None


class StreamOwnership(Protocol):
    """Decides which of several hosts owns a stream."""

    async def claim(
        self, grant: Grant, *, ended_owner: int | None = None, silent_owner: int | None = None
    ) -> Ownership:
        """Return the stream's owner, which is this host if no other living host owns it.

        If this host has no room for another stream, the owner may be another host that has room.

        `ended_owner` and `silent_owner` are generations. The process of the first is known to have
        ended: it does not count as alive. That of the second has sent nothing to this host for
        seconds: it ceases to count as alive at the first further sign of its end.

        Raises:
            PortError: the owner cannot be determined at present.
        """
        ...

    async def release(self, grant: Grant, generation: int) -> None:
        """Release a stream, unless the owner of another generation has it by now.

        Raises:
            PortError: it could not be stored.
        """
        ...


class PacketSink(Protocol):
    """Receives the media on air of one run. No call waits, so a slow engine delays no publisher."""

    @property
    def playable(self) -> bool:
        """True once viewers have been given a segment of this run."""
        ...

    def begin(
        self,
        tracks: tuple[Track, ...],
        late: float,
        *,
        splice: bool = False,
        continues: bool = False,
        new_clock: bool = False,
        show_from: int | None = None,
        show_until: int | None = None,
        marks: FindMarks = no_marks,
    ) -> None:
        """Begin a source, or begin it anew, with at most one track of each kind.

        Its first packet arrived `late` seconds ago. With `splice` it replaces the present source,
        which was not finished, and continues where that ended, if possible without a seam. With
        `continues` its next packet is the one that its encoder sent after the last packet that was
        offered, if in the middle of a GOP: only its sound has changed, or with `new_clock` its
        clock has restarted, or viewers got the slate meanwhile.

        With `show_from`, its packets begin with a keyframe, but it is shown from its picture with
        that `pts` on, right after the present source; those before only lead up to it. The packets
        up to that picture are offered at once. It is a wish: if decoding them would take too long
        (`media.preroll`), it is shown from its keyframe on.

        `show_until` is the `pts` of the present source's first picture that is not shown: it came,
        as all of those after it, before one that it should follow. None: all are shown.

        `marks` finds by what another host knows the encoders again, at any time while the run's
        newest media are of this source.
        """
        ...

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        """Add packets of the source that began last."""
        ...

    def slate(self, late: float) -> None:
        """Show the slate, since no source has been on air for `late` seconds (instead of `finish`).

        From then on viewers get the last picture, then the silent slate, on the wall clock, until
        another source begins or the run ends. `late` is below 0 if what they have got so far
        reaches beyond now. In a run that is paused from its start on, a source has begun, but none
        of its packets was offered.
        """
        ...

    def finish(self) -> None:
        """End the source; another one may begin later in the same run."""
        ...

    def end(self) -> None:
        """End the run for its viewers: nothing begins in it any more."""
        ...


class SourceObserved(msgspec.Struct, frozen=True):
    """What follows is of a source with these tracks, from its beginning or from a keyframe on."""

    tracks: tuple[Track, ...]


class SourceEnded(msgspec.Struct, frozen=True):
    """The source has ended: its encoder has left, or nothing is on air."""


ObservedItem = SourceObserved | Sequence[MediaPacket] | SourceEnded


class PacketObserver(Protocol):
    """Observes packets: those of one slot, on air or not, or those on air (see `LiveStream`)."""

    async def observe(self, items: AsyncIterator[ObservedItem]) -> None:
        """Observe until the items end, or return before. What is taken too late is dropped."""
        ...


class SourceComparer(Protocol):
    """Compares sources of one programme; each has a number that its user gives it."""

    def begin(
        self,
        source: int,
        audio: AudioTrack | None,
        video: VideoTrack | None = None,
        *,
        judged: bool = False,
    ) -> None:
        """Begin a source, or begin it anew with another clock or sound.

        Only one that is to be `judged` needs a picture.
        """
        ...

    def add(self, source: int, packets: Sequence[MediaPacket]) -> None:
        """Add what a source has sent."""
        ...

    def remove(self, source: int) -> None:
        """Forget a source."""
        ...

    async def compare(
        self, reference: int, other: int, *, seconds: float, near: float | None
    ) -> SourceComparison | None:
        """Compare the newest `seconds` of two sources, `near` an offset or everywhere.

        None: there is no answer, and never will be.
        """
        ...

    async def judge(
        self, offsets: Mapping[int, float | None]
    ) -> Mapping[int, Sequence[SourceFault]] | None:
        """Return what each source shows that may be a fault; those that show nothing are left out.

        `offsets` are those of the sources that are to be judged, from one of them, in seconds; None
        is unknown. It is asked once a second. None: there is no answer, and never will be.
        """
        ...


# Compares sources of the stream with this public name for the length of a block. OSError: nothing
# can be compared at present.
OpenComparer = Callable[[str], AbstractAsyncContextManager[SourceComparer]]


class SinkFactory(Protocol):
    """Opens runs."""

    def run(
        self, grant: Grant, notify: Callable[[], None], generation: int
    ) -> AbstractAsyncContextManager[PacketSink]:
        """Open a run, or continue one of the same stream that a restart interrupted.

        `generation` is that of this host's `Ownership` of the stream. `notify` is called when
        `playable` becomes true and when the engine is lost for good. At the end of the block all
        offered media are processed, within a bounded time. A run whose `end` was not called stays
        open, so that it can continue after a restart. A block that is cancelled processes no more.
        """
        ...

    def expect(self, hash_: str) -> None:
        """Prepare for a run of the stream with this public name, which may begin in seconds."""
        ...


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a stream, as its record shows it.

    `on_air` is the slot that viewers get, None also during the slate; `sending` are the slots whose
    encoders send, not those that are connected and silent. `paused`: the owner holds the run's
    output; `slate`: viewers get the slate. `generation` is that of this host's `Ownership`.
    `opening`: this host has only begun to serve the stream, and may continue a run that viewers
    already get; until the run is open they get what its last owner stored.
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
    generation: int = 0
    opening: bool = False


class LiveJournal(Protocol):
    """Stores the states of streams."""

    async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None:
        """Store a state and the events up to it, both or neither; the newest state wins.

        Raises:
            PortError: it could not be written.
        """
        ...
