"""What a live run needs from its environment; `transcode.live.service` implements it."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from delivery.run.publication import Publication
from media.loop_lag import LoopLag
from media.run_policy import DEFAULTS, ResolvedPolicy
from media.stream_events import StreamEvent
from transcode.live.engine_deaths import EngineDeaths
from transcode.protocol.engine_process import EngineProcess


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for a run when it begins; a change applies to the next run.

    `policy` is what its owner set. An interrupted run whose last step is older than the policy's
    `reconnect_seconds` does not continue. `part_seconds` is the target duration of a partial
    segment. `generation` rises with each owner of the stream.
    """

    policy: ResolvedPolicy = DEFAULTS
    part_seconds: float = 0.5
    generation: int = 0


class RunServices(Protocol):
    """The services of the process that a live run uses; `lag` is that of its event loop."""

    lag: LoopLag

    def wall_us(self) -> int:
        """Return the time of day, in microseconds since the Unix epoch."""
        ...

    async def open_publication(
        self, stream: str, settings: RunSettings, *, picture: bool
    ) -> Publication:
        """Resume the stream's newest run if a restart interrupted it, else begin another.

        `picture` is True if the source has video; a run keeps what it began with.
        """
        ...

    async def read_slate_image(self, stream: str, address: str) -> bytes | None:
        """Return the JPEG of a slate, or None if it cannot be read."""
        ...

    def engine(self, stream: str) -> AbstractAsyncContextManager[EngineProcess]:
        """Run an engine for the length of a block."""
        ...

    def engine_deaths(self, stream: str) -> EngineDeaths:
        """Return the recent deaths of a stream's engines, to which its run adds."""
        ...

    def on_stored(self, stream: str, until_us: int, /) -> None:
        """Handle that media which arrived until `until_us` (since 1970) are stored."""
        ...

    def record_event(self, stream: str, event: StreamEvent, /) -> None:
        """Record an event for the stream's owner, without waiting."""
        ...
