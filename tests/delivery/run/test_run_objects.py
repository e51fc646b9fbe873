"""What a host may write of a run that another host may have taken over."""

from pathlib import Path

import msgspec
import pytest

from delivery.run.run_objects import (
    SOLE_OWNER,
    OwnershipLost,
    RunObjects,
    RunOwner,
    require_versions,
)
from delivery.run.run_state import RunState
from delivery.run.run_store import StoredRun, read_state
from storage.objects.addresses import live_segment, live_state, live_variants
from storage.objects.base import ObjectChanged, StoreFailed
from storage.objects.disk import DiskObjects
from tests.support.storage.engine_reports import HASH, RUN

pytestmark = pytest.mark.anyio

STATE = live_state(HASH, RUN)
SEGMENT = live_segment(HASH, RUN, "720p", 7)
FIRST = RunOwner(generation=1, fenced=True)
SECOND = RunOwner(generation=2, fenced=True)


class LosingAnswers(DiskObjects):
    """A disk as a bucket behind a bad network: the first answers to writes are lost."""

    lost_answers = 1

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        new_version = await super().put_if(address, data, version, vital=vital)
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreFailed(address, "no answer within 20 s")
        return new_version


@pytest.fixture
def disk(tmp_path: Path) -> LosingAnswers:
    disk = LosingAnswers(tmp_path)
    disk.lost_answers = 0
    return disk


def state(generation: int, sequence: int = 0) -> bytes:
    return msgspec.json.encode(RunState(generation=generation, next_sequence=sequence))


async def test_a_sole_owner_writes_whatever_there_is(disk: LosingAnswers) -> None:
    await disk.put(STATE, state(9))
    await disk.put(SEGMENT, b"older")
    run_objects = await RunObjects.of_new_run(disk, HASH, RUN, SOLE_OWNER)
    await run_objects.create(SEGMENT, b"newer")
    await run_objects.replace({STATE: state(0), live_variants(HASH): b"top"})
    assert await disk.get(SEGMENT) == b"newer"
    assert await disk.get(STATE) == state(0)


async def test_media_are_written_once(disk: LosingAnswers) -> None:
    run_objects = await RunObjects.of_new_run(disk, HASH, RUN, FIRST)
    await run_objects.create(SEGMENT, b"media")
    await run_objects.create(SEGMENT, b"media")
    with pytest.raises(ObjectChanged):
        await run_objects.create(SEGMENT, b"other media")
    assert await disk.get(SEGMENT) == b"media"
    assert not run_objects.lost


async def test_a_write_whose_answer_was_lost_is_not_another_hosts(disk: LosingAnswers) -> None:
    run_objects = await RunObjects.of_new_run(disk, HASH, RUN, FIRST)
    disk.lost_answers = 1
    with pytest.raises(StoreFailed):
        await run_objects.replace({STATE: state(1)})
    disk.lost_answers = 1
    with pytest.raises(StoreFailed):
        await run_objects.create(SEGMENT, b"media")
    await run_objects.create(SEGMENT, b"media")
    await run_objects.replace({STATE: state(1, 2), live_variants(HASH): b"top"})
    assert await disk.get(STATE) == state(1, 2)
    assert not run_objects.lost


async def test_a_run_that_was_taken_over_is_written_by_its_new_owner_alone(
    disk: LosingAnswers,
) -> None:
    losses: list[bool] = []
    owner = msgspec.structs.replace(FIRST, on_lost=lambda: losses.append(True))
    first = await RunObjects.of_new_run(disk, HASH, RUN, owner)
    await first.replace({STATE: state(1), live_variants(HASH): b"top"})
    stored = StoredRun(hash=HASH, run=RUN, state=RunState())  # the version of some time ago
    claimed = await RunObjects.of_claimed_run(disk, stored, SECOND)
    assert claimed is not None
    run, second = claimed
    assert run.state == RunState(generation=2)
    for _ in range(2):
        with pytest.raises(OwnershipLost):
            await first.replace({STATE: state(1, 3)})
    with pytest.raises(OwnershipLost):
        await first.create(SEGMENT, b"media")
    assert losses == [True]
    assert first.lost
    await second.replace({STATE: state(2, 3), live_variants(HASH): b"another top"})
    assert await read_state(disk, HASH, RUN) == RunState(generation=2, next_sequence=3)
    assert await disk.get(live_variants(HASH)) == b"another top"
    assert await disk.stat(SEGMENT) is None


async def test_media_that_a_former_owner_did_not_list_are_replaced_where_the_next_one_needs_them(
    disk: LosingAnswers,
) -> None:
    first = await RunObjects.of_new_run(disk, HASH, RUN, FIRST)
    await first.replace({STATE: state(1), live_variants(HASH): b"top"})
    stored = StoredRun(hash=HASH, run=RUN, state=RunState())
    claimed = await RunObjects.of_claimed_run(disk, stored, SECOND)
    assert claimed is not None
    _, second = claimed
    await first.create(SEGMENT, b"of the former owner")  # which does not know yet
    await second.create(SEGMENT, b"of the next owner")
    assert await disk.get(SEGMENT) == b"of the next owner"
    with pytest.raises(ObjectChanged):
        await first.create(SEGMENT, b"of the former owner")
    # The next one may have lost the run meanwhile, too.
    third = msgspec.structs.replace(SECOND, generation=3)
    claimed = await RunObjects.of_claimed_run(disk, stored, third)
    assert claimed is not None
    await claimed[1].create(SEGMENT, b"of the third owner")
    with pytest.raises(OwnershipLost):
        await second.create(SEGMENT, b"other media")
    assert second.lost
    assert await disk.get(SEGMENT) == b"of the third owner"


async def test_a_run_that_has_ended_is_not_taken_over(disk: LosingAnswers) -> None:
    stored = StoredRun(hash=HASH, run=RUN, state=RunState())
    assert await RunObjects.of_claimed_run(disk, stored, SECOND) is None
    await disk.put(STATE, msgspec.json.encode(RunState(ended=True)))
    assert await RunObjects.of_claimed_run(disk, stored, SECOND) is None


async def test_a_host_that_finds_a_later_owner_when_it_takes_over_a_run_has_lost_it(
    disk: LosingAnswers,
) -> None:
    losses: list[bool] = []
    owner = msgspec.structs.replace(SECOND, on_lost=lambda: losses.append(True))
    await disk.put(STATE, state(3))
    stored = StoredRun(hash=HASH, run=RUN, state=RunState(generation=3))
    with pytest.raises(OwnershipLost):
        await RunObjects.of_claimed_run(disk, stored, owner)
    assert losses == [True]
    with pytest.raises(OwnershipLost):
        owner.generation_after(stored)
    assert losses == [True, True]


class NonConformingStore(DiskObjects):
    """A store that replaces whatever there is, nothing that is there, or any version."""

    refuses: bool = False
    any_version: bool = False

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        if version is not None and self.any_version:
            version = await self.version(address)
            return await super().put_if(address, data, version, vital=vital)
        if version is not None and self.refuses:
            raise ObjectChanged(address)
        if version is None and (self.refuses or self.any_version):
            return await super().put_if(address, data, version, vital=vital)
        await self.put(address, data, vital=vital)
        return "the only one"


@pytest.mark.parametrize("fault", ["none", "refuses", "any_version"])
async def test_a_store_without_versions_is_not_shared(tmp_path: Path, fault: str) -> None:
    store = NonConformingStore(tmp_path)
    store.refuses, store.any_version = fault == "refuses", fault == "any_version"
    with store:
        with pytest.raises(StoreFailed, match="cannot share it"):
            await require_versions(store)
        assert await store.addresses("checks") == []


async def test_a_store_with_versions_is_shared(disk: LosingAnswers) -> None:
    await require_versions(disk)
    assert await disk.addresses("checks") == []
