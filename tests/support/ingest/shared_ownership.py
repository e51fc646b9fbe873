"""An in-memory table of stream ownership, shared by several registries of one process."""

import asyncio

from ingest.stream.ports import Grant, Ownership, PortError


class OwnershipTable:
    """Which host owns which stream; hosts are named by their addresses.

    `dead` hosts own nothing. While `answering` is clear, claims wait; with `down`, they fail.
    """

    def __init__(self) -> None:
        self.owners: dict[int, tuple[str | None, int]] = {}  # stream: host, generation
        self.dead: set[str] = set()
        self.claims: list[tuple[str, int | None]] = []
        self.silent: list[int | None] = []  # the argument of each call
        self.released: list[tuple[str, int]] = []
        self.answering = asyncio.Event()
        self.answering.set()
        self.down = False

    def host(self, address: str) -> "HostOwnership":
        """Return the port of one host."""
        return HostOwnership(self, address)


class HostOwnership:
    """One host's `StreamOwnership`."""

    def __init__(self, table: OwnershipTable, address: str) -> None:
        self._table = table
        self.address = address
        self.cut_off = False  # from the table

    async def claim(
        self, grant: Grant, *, ended_owner: int | None = None, silent_owner: int | None = None
    ) -> Ownership:
        table = self._table
        table.claims.append((self.address, ended_owner))
        table.silent.append(silent_owner)
        await table.answering.wait()
        if table.down or self.cut_off:
            raise PortError("the table does not answer")
        owner, generation = table.owners.get(grant.stream, (None, 0))
        if owner == self.address:
            return Ownership(generation=generation, address=None)
        if owner is None or owner in table.dead or generation == ended_owner:
            table.owners[grant.stream] = (self.address, generation + 1)
            return Ownership(generation=generation + 1, address=None)
        return Ownership(generation=generation, address=owner)

    async def release(self, grant: Grant, generation: int) -> None:
        table = self._table
        await table.answering.wait()
        if table.down or self.cut_off:
            raise PortError("the table does not answer")
        if table.owners.get(grant.stream) == (self.address, generation):
            table.owners[grant.stream] = (None, generation)
            table.released.append((self.address, generation))
