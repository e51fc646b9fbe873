"""What a run needs of the place that it belongs to; `transcode.live.service` is that place."""

from typing import Protocol

from storage.live.publication import Publication

__all__ = ["Home"]


class Home(Protocol):
    """What a run needs of the place it belongs to."""

    def wall_us(self) -> int:
        """Return the time of day, in microseconds since the Unix epoch."""
        ...

    async def open_publication(self, stream: str, window: float, *, picture: bool) -> Publication:
        """Go on with the stream's newest run where a restart cut it off, else begin another.

        `picture` says whether the source has one; a run keeps what it began with.
        """
        ...

    async def picture(self, stream: str, address: str) -> bytes | None:
        """Return an owner's picture; None where it cannot be had."""
        ...

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        """Write down what the stream's owner may want to know."""
        ...
