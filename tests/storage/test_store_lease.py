"""The lease of a store between copies of a catalog, on every kind of database and store."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import make_url

from storage.catalog import open_catalog
from storage.errors import StorageError
from storage.lease_verdict import StoreElsewhere, StoreInUse
from storage.objects.addresses import INSTALLATION, LEASE
from storage.objects.base import ObjectChanged, StoreClaimed
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from storage.objects.store import MediaStore
from storage.store_lease import LeaseTiming, StoreLease
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.storage.s3_server import S3Server

# Each look renews, nothing expires meanwhile, and a start looks again at once.
LIVELY = LeaseTiming(look_seconds=0.0, renew_seconds=0.0, poll_seconds=0.01)
IN_FOLDERS = ["sqlite, folder", "postgresql, folder"]
DEAD = LeaseTiming(expired_seconds=-1.0)
SEGMENT, SOURCE = "live/AAAAAAAAAAAA/run/720p/1.m4s", "sources/AAAAAAAAAAAA/1"


class Site(NamedTuple):
    """A catalog and the store that belongs to it."""

    location: str | Path
    objects: MediaStore
    server: PostgresServer | None

    @contextmanager
    def copied_catalog(self) -> Generator[str | Path]:
        """Copy the catalog, which nothing may have open."""
        if isinstance(self.location, Path):
            copy = self.location.with_name("copy.db")
            with (
                closing(sqlite3.connect(self.location)) as old,
                closing(sqlite3.connect(copy)) as new,
            ):
                old.backup(new)
            yield copy
            return
        assert self.server is not None
        template = make_url(self.location).database or ""
        with self.server.empty_database(template) as copy_url:
            yield copy_url


@pytest.fixture(params=[*IN_FOLDERS, "postgresql, bucket"])
def site(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Site]:
    """An empty catalog and an empty store: each combination that is operated."""
    on_server, in_bucket = "postgresql" in request.param, "bucket" in request.param
    location = request.getfixturevalue("postgres_database" if on_server else "sqlite_database")
    server = request.getfixturevalue("postgres_server") if on_server else None
    with DiskObjects(tmp_path / "objects") as folder:
        if not in_bucket:
            yield Site(location, folder, server)
            return
        s3_server: S3Server = request.getfixturevalue("s3_server")
        for name, value in s3_server.credentials.items():
            monkeypatch.setenv(name, value)
        bucket = S3Objects(s3_server.new_bucket("some/prefix"), folder, cache_bytes=0)
        yield Site(location, bucket, server)


class Clock:
    """The time since boot, which a test sets forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def lease_of(
    location: str | Path,
    objects: MediaStore,
    timing: LeaseTiming = LIVELY,
    clock: Clock | None = None,
) -> AsyncGenerator[StoreLease]:
    """Open a catalog as a process of its own does."""
    async with open_catalog(location, migrate=False) as catalog:
        yield StoreLease(
            objects,
            catalog,
            timing=timing,
            now=clock or Clock(),
        )


async def refused(starting: StoreLease, running: StoreLease, kind: type[StorageError]) -> str:
    """Return why a lease cannot be acquired beside one that is renewed while it waits."""
    waits = asyncio.Event()

    async def renew() -> None:
        await waits.wait()
        await running.look()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(renew())
        with pytest.raises(kind) as caught:
            await starting.acquire(lambda _: waits.set())
    return str(caught.value)


def no_wait(text: str) -> None:
    pytest.fail(f"a start waited: {text}")


async def test_all_processes_of_a_catalog_share_the_lease(site: Site) -> None:
    async with (
        lease_of(site.location, site.objects, LeaseTiming()) as one,
        lease_of(site.location, site.objects, LeaseTiming()) as two,
    ):
        await one.acquire(no_wait)
        version = await site.objects.version(LEASE)
        await two.acquire(no_wait)
        for each in (one, two, one):
            await each.look()
            await each.require()
        assert await site.objects.version(LEASE) == version, "renewed before it was due"
        run_sql(site.location, "UPDATE store_claims SET confirmed_us = 1, tried_us = 1")
        await two.look()
        await one.look()
        renewed = await site.objects.version(LEASE)
        assert renewed != version
        await one.require()
    async with lease_of(site.location, site.objects) as restarted:
        await restarted.acquire(no_wait)


@pytest.mark.parametrize("falls_behind", [True, False], ids=["behind", "of this moment"])
async def test_a_copied_catalog_is_refused_beside_the_original(
    site: Site, falls_behind: bool
) -> None:
    async with lease_of(site.location, site.objects) as original:
        await original.acquire(no_wait)
    with site.copied_catalog() as copy:
        async with (
            lease_of(site.location, site.objects) as original,
            lease_of(copy, site.objects) as other,
        ):
            await original.acquire(no_wait)
            if falls_behind:
                await original.look()
            sentence = await refused(other, original, StoreInUse)
            assert site.objects.location in sentence
            assert "`headend take-over`" in sentence
            await original.require()
            assert original.problem == ""


async def test_a_copied_catalog_takes_over_from_a_dead_one_which_is_then_refused(
    site: Site,
) -> None:
    async with lease_of(site.location, site.objects) as original:
        await original.acquire(no_wait)
    with site.copied_catalog() as copy:
        async with lease_of(site.location, site.objects) as original:
            await original.acquire(no_wait)
            await original.look()
        async with (
            lease_of(copy, site.objects, DEAD) as restored,
            lease_of(site.location, site.objects) as original,
        ):
            await restored.acquire(no_wait)
            await restored.require()
            async with lease_of(copy, site.objects) as running:
                await refused(original, running, StoreInUse)


async def test_media_are_not_copied_to_a_store_that_another_catalog_uses(site: Site) -> None:
    async with lease_of(site.location, site.objects) as original:
        await original.refuse_use()  # there is no lease
        await original.acquire(no_wait)
        await original.refuse_use()
    with site.copied_catalog() as copy:
        async with (
            lease_of(site.location, site.objects) as original,
            lease_of(copy, site.objects) as other,
            lease_of(copy, site.objects, DEAD) as later,
        ):
            await original.acquire(no_wait)
            await original.look()
            with pytest.raises(StoreInUse):
                await other.refuse_use()
            await later.refuse_use()


async def test_a_lease_that_is_taken_over_on_purpose_comes_back_once_that_one_is_dead(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    clock, objects = Clock(), site.objects
    async with lease_of(site.location, objects) as original:
        await original.acquire(no_wait)
    with site.copied_catalog() as copy:
        async with (
            lease_of(site.location, objects, clock=clock) as original,
            lease_of(copy, objects) as other,
        ):
            await original.acquire(no_wait)
            before = await other.take_over()
            assert before is not None
            assert before.host in str(os.uname().nodename)
            objects.guard = original
            await objects.put(SOURCE, b"1")
            await original.look()
            await original.look()
            assert "taken over" in original.problem
            for change in (
                lambda: objects.put(SOURCE, b"2"),
                lambda: objects.put_if(SOURCE, b"2", None),
                lambda: objects.link(SOURCE, f"{SOURCE}0"),
                lambda: objects.send(Path(__file__), SOURCE),
                lambda: objects.move(SOURCE, f"trash/20261122T161357Z/{SOURCE}"),
                lambda: objects.delete(SOURCE),
                lambda: objects.delete_tree("sources/AAAAAAAAAAAA"),
                lambda: objects.delete_tree("live/AAAAAAAAAAAA"),
                objects.check,
                original.require,
            ):
                with pytest.raises(StoreClaimed, match="taken over by the database at"):
                    await change()
            assert await objects.get(SOURCE) == b"1"
            await objects.put(SEGMENT, b"viewers wait for it")
            await objects.delete(SEGMENT)
            clock.now += 80
            await original.look()
            assert original.problem
            await other.look()
            clock.now += 80
            await original.look()
            assert original.problem, "the other has renewed it meanwhile"
            clock.now += 91
            await original.look()
            assert original.problem == ""
            await original.require()
            await objects.delete(SOURCE)
            assert "media taken back" in caplog.messages


async def test_a_catalog_that_lost_its_last_transactions_keeps_its_store(site: Site) -> None:
    """As when a replica takes over that was a little behind."""
    async with (
        lease_of(site.location, site.objects) as one,
        lease_of(site.location, site.objects) as two,
    ):
        await one.acquire(no_wait)
        ((turn,),) = run_sql(site.location, "SELECT turn FROM store_claims")
        await one.look()
        await one.look()
        run_sql(site.location, f"UPDATE store_claims SET turn = '{turn}'")
        await two.look()  # which never knew the newest turn
        await one.look()
        await two.look()
        for each in (one, two):
            await each.look()
            await each.require()
            assert each.problem == ""


async def test_the_lease_is_renewed_without_its_catalog(site: Site) -> None:
    """Live streams go on while the database is away, and nobody may take their store."""
    clock = Clock()
    async with lease_of(site.location, site.objects, LeaseTiming(), clock) as lease:
        await lease.acquire(no_wait)
        version = await site.objects.version(LEASE)
        run_sql(site.location, "ALTER TABLE store_claims RENAME TO away")
        clock.now += 40
        with pytest.raises(StorageError):
            await lease.look()
        assert await site.objects.version(LEASE) != version
        clock.now += 40
        lease.require_delete(SOURCE)
        run_sql(site.location, "ALTER TABLE away RENAME TO store_claims")
        await lease.look()
        assert lease.problem == ""


async def test_a_process_that_slept_deletes_nothing_before_it_has_looked(site: Site) -> None:
    clock = Clock()
    async with lease_of(site.location, site.objects, clock=clock) as lease:
        await lease.acquire(no_wait)
        site.objects.guard = lease
        await site.objects.put(INSTALLATION, b"key")
        await site.objects.put(SOURCE, b"1")
        clock.now += 61
        with pytest.raises(StoreClaimed, match="not renewed in time"):
            await site.objects.delete(SOURCE)
        await site.objects.put(SOURCE, b"2")
        await site.objects.delete(SEGMENT)
        before = await site.objects.addresses("sources")
        await site.objects.check(thorough=True)  # the store is well, and keeps nothing of this
        assert await site.objects.addresses("sources") == before
        await lease.look()
        await site.objects.delete(SOURCE)


async def test_a_release_lets_a_copy_in_at_once_and_never_comes_late(site: Site) -> None:
    async with lease_of(site.location, site.objects) as ended:
        await ended.acquire(no_wait)
    with site.copied_catalog() as copy:
        run_sql(copy, "UPDATE store_claims SET confirmed_us = 0")  # made long ago
        async with lease_of(site.location, site.objects) as ended:
            await ended.acquire(no_wait)
            await ended.look()
            version = await site.objects.version(LEASE)
            assert await ended.release()
            released = await site.objects.get(LEASE)
        timing = LeaseTiming()  # of a start that would count on a lease of the same catalog
        async with lease_of(site.location, site.objects, timing) as again:
            await again.acquire(no_wait)
            assert await site.objects.get(LEASE) != released, "it writes a turn of its own"
            with pytest.raises(ObjectChanged):
                await site.objects.put_if(LEASE, released, version, vital=True)
            assert await again.release()
        async with lease_of(copy, site.objects, timing) as other:
            await other.acquire(no_wait)
            await other.require()
        async with lease_of(site.location, site.objects) as ended:
            assert not await ended.release(), "it is another's"


async def test_a_folder_that_is_named_as_runs_are_is_not_cleaned_up_once_it_was_taken_over(
    sqlite_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with DiskObjects(Path("live") / "data" / "objects") as objects:
        site = Site(sqlite_database, objects, None)
        async with lease_of(site.location, objects) as running:
            await running.acquire(no_wait)
        with site.copied_catalog() as copy:
            async with (
                lease_of(site.location, objects) as running,
                lease_of(copy, objects) as other,
            ):
                await running.acquire(no_wait)
                await other.take_over()
                await running.look()
                with pytest.raises(StoreClaimed, match=r"^the store: .* taken over"):
                    await running.require()


@pytest.mark.parametrize("site", IN_FOLDERS, indirect=True)
async def test_a_copied_folder_is_refused_beside_the_original(site: Site, tmp_path: Path) -> None:
    assert isinstance(site.objects, DiskObjects)
    async with lease_of(site.location, site.objects) as original:
        await original.acquire(no_wait)
        shutil.copytree(site.objects.root, tmp_path / "copied")
        with DiskObjects(tmp_path / "copied") as copied:
            async with lease_of(site.location, copied) as other:
                sentence = await refused(other, original, StoreElsewhere)
                assert str(tmp_path / "copied") in sentence
            await original.require()
        # The same folder by another path is the same store.
        site.objects.root.rename(tmp_path / "renamed")
        with DiskObjects(tmp_path / "renamed") as renamed:
            async with lease_of(site.location, renamed) as same:
                await same.acquire(no_wait)


@pytest.mark.parametrize("site", IN_FOLDERS, indirect=True)
@pytest.mark.parametrize("on_purpose", [True, False], ids=["on purpose", "while it was frozen"])
async def test_of_a_folder_and_its_copy_one_is_used_with_the_catalog(
    site: Site, tmp_path: Path, on_purpose: bool
) -> None:
    assert isinstance(site.objects, DiskObjects)
    clock, timing = Clock(), LeaseTiming()
    async with lease_of(site.location, site.objects, timing, clock) as original:
        await original.acquire(no_wait)
        shutil.copytree(site.objects.root, tmp_path / "copied")
        with DiskObjects(tmp_path / "copied") as copied:
            async with (
                lease_of(site.location, copied, DEAD) as starting,
                lease_of(site.location, copied, timing) as other,
            ):
                await (starting.take_over() if on_purpose else starting.acquire(no_wait))
                await other.acquire(no_wait)
                await original.look()
                await original.look()
                assert "with other media than those in" in original.problem
                with pytest.raises(StoreClaimed, match="nothing is added or deleted here"):
                    await original.require()
                original.require_write(SEGMENT)
                await other.look()
                await other.require()
                clock.now += 89
                await original.look()
                assert original.problem
                clock.now += 2
                await original.look()
                assert original.problem == "", "the other has not renewed it for 90 s"
                for _ in range(2):
                    await other.look()
                    await original.look()
                assert other.problem
                await original.require()


async def test_a_lease_that_cannot_be_read_is_written_again(site: Site) -> None:
    async with (
        lease_of(site.location, site.objects) as one,
        lease_of(site.location, site.objects) as two,
    ):
        await one.acquire(no_wait)
        await two.acquire(no_wait)
        for each in (one, two, two, one):
            await site.objects.put(LEASE, b"")
            await each.look()
            assert each.problem == ""
        for each in (one, two):
            await each.require()
            assert each.problem == ""


@pytest.mark.parametrize("site", IN_FOLDERS, indirect=True)
async def test_a_start_does_not_wait_for_a_clock_that_was_set_back(site: Site) -> None:
    assert isinstance(site.objects, DiskObjects)
    clock, waits = Clock(), list[str]()

    def wait(text: str) -> None:
        waits.append(text)
        clock.now += 40

    async with lease_of(site.location, site.objects) as original:
        await original.acquire(no_wait)
    with site.copied_catalog() as restored:
        run_sql(restored, "UPDATE store_claims SET turn = 'older', confirmed_us = 1")
        file = site.objects.path(LEASE)
        ahead = file.stat().st_mtime + 3 * 3600
        os.utime(file, (ahead, ahead))
        timing = LeaseTiming(poll_seconds=0)
        async with lease_of(restored, site.objects, timing, clock) as starting:
            await starting.acquire(wait)
            assert len(waits) == 4, "at 0, 40, 80 and 120 s"
            await starting.require()


@pytest.mark.parametrize("site", IN_FOLDERS, indirect=True)
async def test_of_two_that_begin_at_the_same_moment_one_waits(site: Site) -> None:
    assert isinstance(site.objects, DiskObjects)
    async with lease_of(site.location, site.objects) as original:
        await original.acquire(no_wait)

    class Slow(DiskObjects):
        """A store in which the original begins once a copy has learnt how old the lease is."""

        async def delete(self, address: str) -> None:
            async with lease_of(site.location, site.objects) as original:
                await original.acquire(no_wait)
            await super().delete(address)

    with site.copied_catalog() as copy, Slow(site.objects.root) as slow:
        run_sql(copy, "UPDATE store_claims SET turn = 'older', confirmed_us = 1")
        os.utime(site.objects.path(LEASE), (1, 1))
        timing = LeaseTiming(poll_seconds=0)
        async with lease_of(copy, slow, timing) as other:
            with pytest.raises(StoreInUse):
                await other.acquire()


@pytest.mark.parametrize("site", IN_FOLDERS, indirect=True)
async def test_a_copy_of_catalog_and_folder_is_an_installation_of_its_own(
    site: Site, tmp_path: Path
) -> None:
    assert isinstance(site.objects, DiskObjects)
    async with lease_of(site.location, site.objects) as original:
        await original.acquire(no_wait)
    with site.copied_catalog() as copy:
        shutil.copytree(site.objects.root, tmp_path / "copied")
        with DiskObjects(tmp_path / "copied") as copied:
            async with (
                lease_of(copy, copied) as other,
                lease_of(site.location, site.objects) as original,
            ):
                await other.acquire(no_wait)
                await original.acquire(no_wait)
                for each in (other, original, other, original):
                    await each.look()
                    await each.require()


async def test_a_handed_over_catalog_is_let_in_at_once(site: Site) -> None:
    async with lease_of(site.location, site.objects) as original:
        await original.acquire(no_wait)
    async with lease_of(site.location, site.objects) as original:
        await original.hand_over()
    with site.copied_catalog() as copy:
        async with lease_of(copy, site.objects) as moved:
            await moved.acquire(no_wait)


async def test_of_many_first_starts_each_gets_the_lease(site: Site) -> None:
    async with open_catalog(site.location, migrate=False) as catalog:
        leases = [StoreLease(site.objects, catalog, timing=LIVELY) for _ in range(5)]
        async with asyncio.TaskGroup() as tasks:
            for each in leases:
                tasks.create_task(each.acquire(no_wait))
        for each in leases:
            await each.look()
            await each.require()
