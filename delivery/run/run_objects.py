"""Writes the objects of a run, where several hosts may believe that they own its stream.

A host that was frozen or cut off may wake up in the middle of a write, after another host has taken
its run over. Where runs are `fenced`, such a write changes nothing: media are only written where
there are none, and the run's state and playlists only in the place of the version that this host
knows. A host that takes a run over first writes its generation into the run's state. A host that
finds another version than it knows reads that state, and writes nothing more if the generation is
later than its own.

The former owner may have stored media that it never listed, or store them when it wakes up. Where
the next owner needs their address, it replaces them.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from delivery.run.run_state import rendition_names
from delivery.run.run_store import StoredRun, newest_run, read_state
from media.no_op import do_nothing
from storage.objects.addresses import live_playlist, live_state, live_variants
from storage.objects.at_once import do_each
from storage.objects.base import ObjectChanged, ObjectError, Objects, StoreFailed

log = logging.getLogger(__name__)

# How often a run's state may change while it is taken over, or a playlist while it is replaced: a
# host writes each once a step.
_ATTEMPTS: Final = 5

Versions = dict[str, str | None]  # by address; None: there is no such object


class RunOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A host as the owner of the runs of a stream.

    `generation` rises with each owner of the stream. With `fenced` other hosts may believe that
    they are the owner and write to the same store. `on_lost` is called when another host is
    found to have taken over.
    """

    generation: int = 0
    fenced: bool = False
    on_lost: Callable[[], None] = do_nothing

    def generation_after(self, previous: StoredRun | None) -> int:
        """Return the generation of a run that this host begins after the newest one.

        Raises:
            OwnershipLost: a host of a later generation has begun that run.
        """
        before = 0 if previous is None else previous.state.generation
        if previous is not None and self.fenced and before > self.generation:
            self.on_lost()
            raise OwnershipLost(live_state(previous.hash, previous.run))
        return max(before, self.generation)


SOLE_OWNER: Final = RunOwner()


class OwnershipLost(ObjectError):
    """Another host has taken over the run that the object belongs to."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "another host has taken over the stream")


class RunObjects:
    """The objects that a run of the stream `hash_` writes to a `store`, for the host that owns it.

    `versions` are those of state and playlists as far as they are known. A `claimed` run was
    another host's before.
    """

    def __init__(
        self,
        store: Objects,
        hash_: str,
        owner: RunOwner = SOLE_OWNER,
        versions: Mapping[str, str | None] | None = None,
        *,
        claimed: bool = False,
    ) -> None:
        self.store = store
        self.lost = False
        self._claimed = claimed
        self._hash = hash_
        self._owner = owner
        self._versions: Versions = dict(versions or {})

    @property
    def fenced(self) -> bool:
        """True if other hosts may write the run, too."""
        return self._owner.fenced

    @classmethod
    async def of_new_run(
        cls, store: Objects, hash_: str, run: str, owner: RunOwner
    ) -> "RunObjects":
        """Return the objects of a run that is to begin.

        Raises:
            ObjectError: the store failed.
        """
        if not owner.fenced:
            return cls(store, hash_)
        top = live_variants(hash_)
        versions = {live_state(hash_, run): None, top: await store.version(top)}
        return cls(store, hash_, owner, versions)

    @classmethod
    async def of_claimed_run(
        cls, store: Objects, run: StoredRun, owner: RunOwner
    ) -> tuple[StoredRun, "RunObjects"] | None:
        """Take over a run from the host that wrote it, whose writes are refused from now on.

        The result has the run as that host left it; None if the run has ended meanwhile.

        Raises:
            OwnershipLost: a host of a later generation has it, or another keeps writing it.
            ObjectError: the store failed.
        """
        if not owner.fenced:
            generation = max(run.state.generation, owner.generation)
            state = msgspec.structs.replace(run.state, generation=generation)
            return msgspec.structs.replace(run, state=state), cls(store, run.hash)
        address = live_state(run.hash, run.run)
        names = rendition_names(run.state.renditions)
        media = [live_playlist(run.hash, run.run, name) for name in names]
        for _ in range(_ATTEMPTS):
            # All at once, as viewers wait. A playlist that another host writes until the run
            # is claimed is noticed when it is replaced.
            versions = await _versions(store, (address, live_variants(run.hash), *media))
            version = versions[address]
            state = await read_state(store, run.hash, run.run)
            if state is None or state.ended:
                return None
            if state.generation > owner.generation:
                owner.on_lost()
                break
            state = msgspec.structs.replace(state, generation=owner.generation)
            try:
                claimed = await store.put_if(
                    address, msgspec.json.encode(state), version, vital=True
                )
            except ObjectChanged:  # the other host still writes
                continue
            known = {**versions, address: claimed}
            run_objects = cls(store, run.hash, owner, known, claimed=True)
            return msgspec.structs.replace(run, state=state), run_objects
        raise OwnershipLost(address)

    async def create(self, address: str, data: bytes) -> None:
        """Write a segment or an init section, whose address is used once.

        Raises:
            OwnershipLost: another host has taken over the run.
            ObjectError: the store failed, or this host has given that address to other media.
        """
        if not self._owner.fenced:
            await self.store.put(address, data)
            return
        self._check(address)
        try:
            await self.store.put_if(address, data, None)
        except ObjectChanged:
            # This host may have written it, in a request that seemed to fail.
            if await self.store.get(address) == data:
                return
            if not self._claimed:
                raise
            try:
                await self._replace(address, data)  # what the former owner has not listed
            finally:
                self._versions.pop(address, None)

    async def replace(self, objects: Mapping[str, bytes]) -> None:
        """Write the state or playlists of the run, by address; a failure does not stop the others.

        Raises:
            OwnershipLost: another host has taken over the run.
            ObjectError: the store failed.
        """
        if not self._owner.fenced:
            await self.store.put_all(objects, vital=True)
            return

        async def replace(address: str) -> None:
            await self._replace(address, objects[address])

        await do_each(objects, replace, at_once=len(objects))

    async def _replace(self, address: str, data: bytes) -> None:
        for _ in range(_ATTEMPTS):
            self._check(address)
            if address not in self._versions:
                await self._learn_version(address)
            try:
                self._versions[address] = await self.store.put_if(
                    address, data, self._versions[address], vital=True
                )
            except ObjectChanged:
                await self._learn_version(address)
            else:
                return
        raise ObjectChanged(address)

    async def _learn_version(self, address: str) -> None:
        """Learn the present version of an object, unless another host has taken over the run.

        In this order: a version that is learned after another host has taken over is never used.
        """
        version = await self.store.version(address)
        newest = await newest_run(self.store, self._hash)
        if newest is not None and newest.state.generation > self._owner.generation:
            if not self.lost:
                self.lost = True
                log.warning("another host has taken over", extra={"stream": self._hash})
                self._owner.on_lost()
            raise OwnershipLost(address)
        self._versions[address] = version

    def _check(self, address: str) -> None:
        if self.lost:
            raise OwnershipLost(address)


async def require_versions(store: Objects) -> None:
    """Check that several hosts can share a store: it replaces a named version of an object only.

    Raises:
        StoreFailed: it does not, or it cannot be reached.
    """
    address = f"checks/{secrets.token_hex(8)}"
    version = await store.put_if(address, b"1", None)
    try:
        heeds = (
            not await _replaces(store, address, b"2", None)
            and await _replaces(store, address, b"3", version)
            and not await _replaces(store, address, b"4", version)  # which is an older one now
        )
        if not heeds:
            reason = "it does not heed If-None-Match and If-Match: several hosts cannot share it"
            raise StoreFailed("the bucket", reason)
    finally:
        await store.delete(address)


async def _replaces(store: Objects, address: str, data: bytes, version: str | None) -> bool:
    try:
        await store.put_if(address, data, version)
    except ObjectChanged:
        return False
    return True


async def _versions(store: Objects, addresses: tuple[str, ...]) -> Versions:
    versions: Versions = {}

    async def learn(address: str) -> None:
        versions[address] = await store.version(address)

    await do_each(addresses, learn, at_once=len(addresses))
    return versions
