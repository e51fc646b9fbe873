"""What a live run needs from its environment; `transcode.live.service` implements it."""

from typing import Protocol

from media.loop_lag import LoopLag
from storage.live.publication import Publication
from transcode.live.engine_deaths import EngineDeaths

__all__ = ["RunServices"]


class RunServices(Protocol):
    """The services of the process that a live run uses; `lag` is that of its event loop."""

    lag: LoopLag

    def wall_us(self) -> int:
        """Return the time of day, in microseconds since the Unix epoch."""
        ...

    async def open_publication(self, stream: str, window: float, *, picture: bool) -> Publication:
        """Resume the stream's newest run if a restart interrupted it, else begin another.

        `picture` is True if the source has video; a run keeps what it began with.
        """
        ...

    async def read_slate_image(self, stream: str, address: str) -> bytes | None:
        """Return the JPEG of a slate, or None if it cannot be read."""
        ...

    def engine_deaths(self, stream: str) -> EngineDeaths:
        """Return the recent deaths of a stream's engines, to which its run adds."""
        ...

    def record_event(self, stream: str, kind: str, facts: dict[str, object], /) -> None:
        """Record an event for the stream's owner, without waiting."""
        ...
