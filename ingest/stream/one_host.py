"""The ownership of streams where one host has them all."""

from typing import Final

from ingest.stream.ports import Grant, Ownership

_OWN: Final = Ownership(generation=0, address=None)


class OneHost:
    """Owns every stream; a `StreamOwnership`."""

    async def claim(
        self,
        grant: Grant,  # noqa: ARG002 # every stream is ours
        *,
        ended_owner: int | None = None,  # noqa: ARG002
        silent_owner: int | None = None,  # noqa: ARG002
    ) -> Ownership:
        """Return this host at once."""
        return _OWN

    async def release(self, grant: Grant, generation: int) -> None:
        """Do nothing, since no other host can own the stream."""
