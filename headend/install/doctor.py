"""Examines an installation: its data folder, its catalog and its machine.

Examining changes nothing beyond what any reader of the database file does; where media are written,
it writes a few bytes and removes them. `clean` runs the cleanup once that the service runs
periodically (`storage.cleanup`).
"""

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final

from api.operations.report import Finding, FindingItem
from headend.config.settings import ServiceSettings
from headend.install.cdn_check import check_cdn
from headend.install.certificate_check import check_certificates
from headend.install.findings import size_text
from headend.install.front_finding import front_finding
from headend.install.installation import catalog_location, own_store
from headend.install.locks import schema_in_use
from headend.install.mail_check import check_mail
from headend.install.media_store import OBJECTS, StoredFiles, bucket_of, open_store, read_store
from headend.install.redis_finding import redis_finding
from headend.own_command import runnable
from media.no_op import do_nothing
from media.ticks import MICROSECONDS, utc
from storage.backups.retention import OLD_US
from storage.catalog import Catalog, open_catalog
from storage.cleanup.cleanups import find_stopped, media_cleanups, upload_cleanups
from storage.cleanup.confirmation import TooMuchDue, Unconfirmed, is_unusual
from storage.cleanup.missing import find_missing
from storage.cleanup.old_trash import TRASH_FOLDERS, count_due
from storage.cleanup.orphans import AGE_US, TooManyUnknown, find_unknown, find_unused
from storage.cleanup.periodic import Cleanup
from storage.errors import StorageError
from storage.installation_key import (
    EmptyStore,
    StoreMismatch,
    UnfinishedCopy,
    check_store,
    complete_key,
)
from storage.objects import addresses
from storage.objects.base import STORE, ObjectError
from storage.objects.disk_check import check_folder, room_problem
from storage.objects.incoming_file import in_thread
from storage.objects.s3_bucket import S3Bucket
from storage.objects.trash import find_trash
from storage.store_lease import StoreLease
from storage.wall_clock import wall_clock_us
from transcode.sandbox.landlock import landlock_abi, landlock_text
from transcode.sandbox.rlimits import SandboxError

# Clocks that are set by NTP differ by less than a second.
_AHEAD_US: Final = 60 * MICROSECONDS
_SKEW_US: Final = MICROSECONDS
# What fails is tried again within minutes at first. A service that was stopped for long needs one.
_OVERDUE_US: Final = 3600 * MICROSECONDS
_BATCH: Final = 500
_MOST_SHOWN: Final = 50
_ENGINE_SECONDS: Final = 30.0  # the first import of FFmpeg from a cold disk
_VERSION: Final = "import av; print(av.__version__, av.ffmpeg_version_info)"


async def examine(
    settings: ServiceSettings, now_us: int, *, wall_us: Callable[[], int] = wall_clock_us
) -> tuple[Finding, ...]:
    """Examine an installation and return the findings; `now_us` is the wall clock at the start.

    A check that fails is a finding, too. `wall_us` is compared with the clock of the database.
    """
    folder = Path(settings.data)
    findings = [
        await _engine(),
        _landlock(),
        _countries(settings),
        await asyncio.to_thread(front_finding, settings),
        await redis_finding(settings.redis.url),
    ]
    if not await asyncio.to_thread(folder.is_dir):
        text = runnable(f"{folder} does not exist; `headend migrate` creates it")
        return (*findings, Finding(topic="data folder", verdict="act", text=text))
    findings += await asyncio.to_thread(
        lambda: (
            _disk_space(folder, settings.storage.min_free_bytes),
            *check_certificates(settings, folder / "tls", now_us),
        )
    )
    has_copies = settings.storage.delivery == "cdn"
    files = read_store(folder, bucket_of(settings), has_cdn_copies=has_copies)
    try:
        async with open_catalog(catalog_location(settings), migrate=False) as catalog:
            stored_us = _stored_us(catalog, now_us)
            for check in (
                partial(_installation, catalog, files),
                partial(_store, catalog, files, folder, settings.storage.min_free_bytes),
                partial(_damage, catalog),
                partial(_numbers, catalog),
                partial(_restrictions, settings, catalog),
                partial(_jobs, catalog, stored_us),
                partial(check_mail, settings, catalog, stored_us),
                partial(_clock, catalog, stored_us, wall_us),
                partial(_expiry, catalog, stored_us),
                partial(_removals, catalog, stored_us),
                partial(_backup, settings, catalog, stored_us),
                partial(_missing, catalog, files),
                partial(_orphans, catalog, files, stored_us),
                partial(_uploads, catalog, files, stored_us),
                partial(_trash, files, settings.storage.trash_days, stored_us),
                *_of_delivery(settings, catalog, files, stored_us),
            ):
                findings.append(await _checked(check))
    except StorageError as error:
        findings.append(Finding(topic="database", verdict="act", text=str(error)))
    return tuple(findings)


def _of_delivery(
    settings: ServiceSettings, catalog: Catalog, files: StoredFiles, now_us: int
) -> tuple[Callable[[], Awaitable[Finding]], ...]:
    """Return the check of a CDN in front of the bucket, if there is one."""
    if settings.storage.delivery != "cdn" or not isinstance(files, S3Bucket):
        return ()
    return (partial(check_cdn, settings, catalog, files, now_us),)


async def examine_briefly(
    settings: ServiceSettings, catalog: Catalog, now_us: int
) -> tuple[Finding, ...]:
    """Return the findings that need neither every file nor the whole database.

    They are those on settings, certificates, restrictions, jobs, what has expired and what is to be
    deleted, and the last backup. `catalog` is the service's own.
    """
    certificates = partial(check_certificates, settings, Path(settings.data) / "tls", now_us)
    return (
        _countries(settings),
        await asyncio.to_thread(front_finding, settings),
        *await asyncio.to_thread(certificates),
        await _checked(partial(_restrictions, settings, catalog)),
        await _checked(partial(_jobs, catalog, _stored_us(catalog, now_us))),
        await _checked(partial(_expiry, catalog, _stored_us(catalog, now_us))),
        await _checked(partial(_removals, catalog, _stored_us(catalog, now_us))),
        await _checked(partial(_backup, settings, catalog, _stored_us(catalog, now_us))),
    )


def _stored_us(catalog: Catalog, now_us: int) -> int:
    """Return the time that stored dates are compared with; `now_us` is this machine's."""
    return catalog.clock.now_us() if catalog.is_shared else now_us


async def clean(
    settings: ServiceSettings,
    now_us: int,
    *,
    confirmed: bool = False,
    on_wait: Callable[[str], None] = do_nothing,
) -> int:
    """Do each cleanup once (`storage.cleanup.cleanups`); return how many objects were removed.

    `confirmed`: also what a cleanup stops at until an operator confirms it. `on_wait` is called
    again and again with why it waits for the lease of the media.

    Raises:
        Unconfirmed: a cleanup has stopped; the others were done.
        StorageError: the catalog or the disk failed, or the catalog knows none of the media
            (`StoreMismatch`), or they are not where they were (`EmptyStore`), or another catalog
            that is a copy uses them (`StoreInUse`); the rest remains.
        DataFolderError: the database is being migrated, or the data folder cannot be used.
    """
    folder, bucket = Path(settings.data), bucket_of(settings)
    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        has_copies = settings.storage.delivery == "cdn"
        store = open_store(folder, bucket, has_cdn_copies=has_copies)
        with schema_in_use(folder):
            async with own_store(catalog, read_store(folder, bucket), store) as objects:
                lease = StoreLease(objects, catalog)
                async with lease.holding(on_wait):
                    await complete_key(catalog, objects)
                    objects.guard = lease
                    days = settings.storage.trash_days
                    return await _clean_each(
                        (
                            *upload_cleanups(objects, catalog),
                            *media_cleanups(objects, catalog, trash_days=days),
                        ),
                        _stored_us(catalog, now_us),
                        confirmed=confirmed,
                    )


async def _clean_each(cleanups: Iterable[Cleanup], now_us: int, *, confirmed: bool) -> int:
    """Do each cleanup once; return how many objects were removed (see `clean`)."""
    removed = 0
    stopped: list[Unconfirmed] = []
    for cleanup in cleanups:
        try:
            removed += await cleanup.clean(now_us, confirmed=confirmed)
        except Unconfirmed as error:
            stopped.append(error)
    if stopped:
        raise Unconfirmed("; ".join(map(str, stopped)))
    return removed


async def _checked(check: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        return await check()
    except StorageError as error:
        return Finding(topic="storage", verdict="act", text=str(error))


async def _engine() -> Finding:
    """Check that an engine process can start, and with which FFmpeg."""
    topic = "versions"
    python = f"Python {platform.python_version()}"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _VERSION,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_ENGINE_SECONDS):
            output, _ = await child.communicate()
    except TimeoutError:
        child.kill()
        await child.wait()
        output = b""
    words = output.decode(errors="replace").split(maxsplit=1)
    if child.returncode or len(words) != 2:  # PyAV's and FFmpeg's
        text = f"{python}; PyAV cannot be loaded: no video can be made"
        return Finding(topic=topic, verdict="act", text=text)
    text = f"{python}, PyAV {words[0]}, FFmpeg {words[1].strip()}"
    return Finding(topic=topic, verdict="well", text=text)


def _countries(settings: ServiceSettings) -> Finding:
    """Check that the country of private addresses is used, if one is set."""
    if not settings.geo.private_country:
        verdict, text = "well", "no country is assumed for private addresses"
    elif settings.http.public_url and not settings.http.trusted_proxies.strip():
        verdict = "act"
        text = (
            "geo.private_country is not used: with http.public_url set, a request from a private"
            " address may come through a web server; name that in http.trusted_proxies"
        )
    else:
        country = settings.geo.private_country.upper()
        verdict, text = "well", f"private addresses count as {country}"
    return Finding(topic="countries", verdict=verdict, text=text)


async def _restrictions(settings: ServiceSettings, catalog: Catalog) -> Finding:
    """Check that what plays in some countries only plays anywhere."""
    topic = "restrictions"
    if settings.knows_countries:
        return Finding(topic=topic, verdict="well", text="the countries of viewers are looked up")
    if not await catalog.health.is_any_restricted():
        text = "nothing is restricted to countries, and those of viewers are not known"
        return Finding(topic=topic, verdict="well", text=text)
    text = (
        "streams or videos are restricted to countries, and no viewer's country is known: they"
        " play for nobody but their owners; set geo.database, or geo.trusted_header and"
        " http.trusted_proxies"
    )
    return Finding(topic=topic, verdict="act", text=text)


def _landlock() -> Finding:
    """Report what hides this machine's files from engines; they work without it too."""
    try:
        text = landlock_text(landlock_abi())
    except SandboxError as error:
        text = str(error.strerror)
    return Finding(topic="box", verdict="well", text=text)


def _disk_space(folder: Path, least: int) -> Finding:
    text = f"{size_text(shutil.disk_usage(folder).free)} free"
    problem = room_problem(folder, least)
    if problem is None:
        return Finding(topic="disk", verdict="well", text=text)
    return Finding(topic="disk", verdict="act", text=f"{text}: {problem}; new media are refused")


async def _installation(catalog: Catalog, files: StoredFiles) -> Finding:
    topic = "installation"
    try:
        is_whole = await check_store(catalog, files)
    except (EmptyStore, StoreMismatch, UnfinishedCopy) as error:
        return Finding(topic=topic, verdict="act", text=runnable(str(error)))
    text = "database and media belong together"
    if is_whole:
        return Finding(topic=topic, verdict="well", text=text)
    text += ", and one lacks the installation key: the next start writes it, and cleans up again"
    return Finding(topic=topic, verdict="tidy", text=text)


async def _store(catalog: Catalog, files: StoredFiles, folder: Path, least: int) -> Finding:
    """Check that media can be written wherever writers put them, as `/readyz` does."""
    topic = "store"
    try:
        await check_store(catalog, files)
    except (EmptyStore, StoreMismatch, UnfinishedCopy):
        text = "it was not tried whether media can be written: see the line installation"
        return Finding(topic=topic, verdict="act", text=text)
    try:
        if isinstance(files, S3Bucket):
            await files.check(thorough=True)
        else:
            root = folder / OBJECTS
            temporary = root / f".check-{os.getpid()}"  # no address begins with a dot
            check = partial(check_folder, root, temporary, min_free_bytes=least, thorough=True)
            await in_thread(check, name=STORE)
    except ObjectError as error:
        text = f"{error}; nothing is transcoded until it can be written again"
        return Finding(topic=topic, verdict="act", text=text)
    return Finding(topic=topic, verdict="well", text="media can be written to each folder")


async def _damage(catalog: Catalog) -> Finding:
    server, revision = await catalog.health.versions()
    broken = await catalog.health.find_damage()
    if broken:
        text = f"{server} says: {'; '.join(broken)}. Stop Headend and restore a backup"
        return Finding(topic="database", verdict="act", text=text)
    return Finding(topic="database", verdict="well", text=f"{server}, tables {revision}")


async def _numbers(catalog: Catalog) -> Finding:
    """Check that the numbers of rows last, and that the last migration is finished."""
    if far := await catalog.health.find_far_numbers():
        text = (
            "half of the numbers were given that these tables have: once all are, nothing can be"
            f" added: {', '.join(far)}"
        )
        return Finding(topic="numbers", verdict="act", text=text)
    if unfinished := await catalog.health.find_unfinished():
        text = (
            "`headend serve` or `headend transcode` has still to change, while it runs:"
            f" {', '.join(unfinished)}"
        )
        return Finding(topic="numbers", verdict="well", text=text)
    return Finding(topic="numbers", verdict="well", text="less than half were given")


async def _jobs(catalog: Catalog, now_us: int) -> Finding:
    pause = await catalog.installation.find_pause()
    if pause is not None:
        return Finding(topic="jobs", verdict="act", text=pause)
    stuck = await catalog.health.find_stuck_jobs(now_us)
    if not stuck:
        return Finding(topic="jobs", verdict="well", text="none is stuck")
    items = [
        FindingItem(path=job.path, what=f"{job.kind}, {job.state}, job {job.job}") for job in stuck
    ]
    text = (
        "no worker runs jobs that are due: check that `headend serve` or `headend transcode` runs,"
        " and its log for `jobs not leased`"
    )
    return Finding(topic="jobs", verdict="act", text=text, items=tuple(items))


async def _clock(catalog: Catalog, now_us: int, wall_us: Callable[[], int]) -> Finding:
    if catalog.is_shared:
        skew = wall_us() - catalog.clock.now_us()
        if abs(skew) > _SKEW_US:
            way = "ahead of" if skew > 0 else "behind"
            text = (
                f"this machine's clock is {abs(skew) / MICROSECONDS:.1f} s {way} the database's:"
                " use NTP on both"
            )
            return Finding(topic="clock", verdict="act", text=text)
    ahead = await catalog.health.find_newest_us() - now_us
    if ahead <= _AHEAD_US:
        return Finding(topic="clock", verdict="well", text="no record is ahead of it")
    text = f"the catalog is {ahead // MICROSECONDS} s ahead of this machine's clock: use NTP"
    return Finding(topic="clock", verdict="act", text=text)


# -- rows and files -------------------------------------------------------------------------------


async def _missing(catalog: Catalog, files: StoredFiles) -> Finding:
    """Check that all files exist that rows name."""
    lost = [
        FindingItem(path=f"objects/{each.address}", what=each.what)
        for each in await find_missing(catalog, files)
    ]
    if not lost:
        return Finding(topic="files", verdict="well", text="all files of the catalog exist")
    text = f"{len(lost)} files of the catalog are missing: restore them or delete the records"
    return Finding(topic="files", verdict="act", text=text, items=tuple(lost[:_MOST_SHOWN]))


async def _orphans(catalog: Catalog, files: StoredFiles, now_us: int) -> Finding:
    unknown = await find_unknown(files, catalog.references, now_us)
    removable = [(each.address, each.what) for each in unknown.orphans]
    if unknown.is_suspicious:
        items = [FindingItem(path=f"objects/{address}", what=what) for address, what in removable]
        text = str(TooManyUnknown(unknown))
        return Finding(
            topic="leftovers", verdict="act", text=text, items=tuple(items[:_MOST_SHOWN])
        )
    async with aclosing(find_unused(files, catalog.references, now_us)) as leftovers:
        async for each in leftovers:
            removable.append((each.address, each.what))
    return await _tidy("leftovers", files, removable)


async def _expiry(catalog: Catalog, now_us: int) -> Finding:
    """Check that no cleanup waits for a confirmation because so much has expired."""
    stopped = await find_stopped(catalog, now_us)
    if stopped:
        return Finding(topic="expiry", verdict="act", text="; ".join(map(str, stopped)))
    return Finding(topic="expiry", verdict="well", text="no more than usual is over")


async def _removals(catalog: Catalog, now_us: int) -> Finding:
    """Check that what was deleted, or has expired, is gone from the store."""
    overdue = await catalog.removals.find_overdue(now_us - _OVERDUE_US, _MOST_SHOWN)
    if not overdue.count:
        text = "nothing that is to be deleted is an hour old"
        return Finding(topic="removals", verdict="well", text=text)
    cause = overdue.cause or "no process has tried; look for `media not removed` in the log"
    since = f"{utc(overdue.first[0].recorded_us):%Y-%m-%d %H:%M} UTC"
    text = f"{overdue.count} objects or folders are to be deleted since {since} or later: {cause}"
    items = tuple(
        FindingItem(path=f"objects/{each.address}", what=each.cause or "to be deleted")
        for each in overdue.first
    )
    return Finding(topic="removals", verdict="act", text=text, items=items)


async def _backup(settings: ServiceSettings, catalog: Catalog, now_us: int) -> Finding:
    """Check that the last backup is not old, where backups are made or are to be."""
    topic = "backup"
    begun_us = await catalog.installation.find_backup_us()
    if begun_us is None:
        if not settings.backup.to:
            text = "none was made, and none is to be: backup.to is not set"
            return Finding(topic=topic, verdict="well", text=text)
        text = f"none was made to {settings.backup.to} yet: check headend-backup.timer, and its log"
        return Finding(topic=topic, verdict="act", text=text)
    text = f"the last was begun on {utc(begun_us):%Y-%m-%d %H:%M} UTC"
    if now_us - begun_us > OLD_US:
        text += ", more than a week ago: check headend-backup.timer, and its log"
        return Finding(topic=topic, verdict="act", text=text)
    return Finding(topic=topic, verdict="well", text=text)


async def _trash(files: StoredFiles, days: int, now_us: int) -> Finding:
    """Show what cleanups moved to the trash."""
    items = [
        FindingItem(path=f"objects/{each}", what="trash", bytes=await files.size(each))
        for each in await find_trash(files)
    ]
    room = sum(item.bytes or 0 for item in items)
    text = f"{size_text(room)}, each deleted after {days} days" if items else "empty"
    due = await count_due(files, now_us, days=days)
    stops = days > 0 and is_unusual(due.count, due.total)
    if stops:
        text += f": {TooMuchDue(TRASH_FOLDERS, due)}"
    verdict = "act" if stops else "well"
    return Finding(topic="trash", verdict=verdict, text=text, items=tuple(items[:_MOST_SHOWN]))


async def _uploads(catalog: Catalog, files: StoredFiles, now_us: int) -> Finding:
    """Find expired uploads that a cleanup removes, and bytes of no upload.

    If so many have expired that it stops, `_expiry` says so.
    """
    due = await catalog.uploads.count_expired(now_us)
    until_us = None if is_unusual(due.count, due.total) else now_us
    removable = [
        (addresses.upload(name), "expired upload")
        for name in await catalog.uploads.find_expired(until_us, _BATCH)
    ]
    expired = {address for address, _ in removable}
    names = [each.rpartition("/")[2] for each in await files.addresses(addresses.UPLOADS)]
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        kept = await catalog.uploads.find_kept(batch)
        for address in (addresses.upload(name) for name in batch if name not in kept):
            stat = await files.stat(address)
            if address not in expired and stat is not None and stat.modified_us < now_us - AGE_US:
                removable.append((address, "bytes of no upload"))
    names = sorted(await files.folder_names(addresses.PIECES))
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        kept = await catalog.uploads.find_kept(batch)
        for address in (addresses.upload_pieces(name) for name in batch if name not in kept):
            if not await files.has_changed(address, now_us - AGE_US):
                removable.append((address, "bytes of no upload"))
    return await _tidy("uploads", files, removable)


async def _tidy(topic: str, files: StoredFiles, removable: Iterable[tuple[str, str]]) -> Finding:
    items = [
        FindingItem(path=f"objects/{address}", what=what, bytes=await files.size(address))
        for address, what in removable
    ]
    if not items:
        return Finding(topic=topic, verdict="well", text="none")
    room = sum(item.bytes or 0 for item in items)
    text = f"{len(items)} can be removed, {size_text(room)}"
    return Finding(topic=topic, verdict="tidy", text=text, items=tuple(items[:_MOST_SHOWN]))
