"""What a live run needs from its environment; `transcode.live.service` implements it."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from delivery.run.publication import Publication
from media.loop_lag import LoopLag
from media.stream_events import StreamEvent
from transcode.live.engine_deaths import EngineDeaths
from transcode.protocol.engine_process import EngineProcess

__all__ = ["RunServices", "RunSettings"]


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for a run when it begins; a change applies to the next run.

    `resume_seconds` is how old the last step of an interrupted run may be for it to continue.
    `low_latency`: its playlists are low-latency HLS. `part_seconds` is the target duration of a
    partial segment. `dvr_seconds` is how far viewers may go back, if that is farther than the
    playlists of all runs reach. `generation` rises with each owner of the stream.
    """

    resume_seconds: float = 60.0
    low_latency: bool = True
    part_seconds: float = 0.5
    dvr_seconds: float = 0.0
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
