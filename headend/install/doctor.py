"""How an installation is: a look at its data folder, its catalog and its machine.

Looking changes nothing but what every reader of the database's file does; `clean` does once what
the service does by itself (`storage.cleanup.orphans`, `storage.cleanup.expired_uploads`).
"""

import asyncio
import datetime
import platform
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final

from cryptography import x509

from headend.config.settings import Settings
from headend.install.certificates import Certificates
from headend.install.findings import Finding, Thing, size_text
from headend.install.installation import catalog_place
from headend.install.locks import relying_on_form
from media.ticks import MICROSECONDS
from storage.catalog import Catalog, open_catalog
from storage.catalog.maintenance.references import Standing
from storage.cleanup.expired_uploads import remove_expired_uploads
from storage.cleanup.orphans import AGE_US, find_orphans, remove_orphans
from storage.errors import StorageError
from storage.objects import addresses
from storage.objects.disk import DiskObjects
from storage.objects.read_only import ReadOnlyObjects
from transcode.sandbox.landlock import landlock_abi, landlock_text
from transcode.sandbox.rlimits import BoxError

__all__ = ["clean", "examine"]

# Two weeks leave time to order a certificate by hand. Ours is made anew 30 days before its end, at
# a start or a reload: one with less left belongs to a service that had neither.
_CERTIFICATE_DAYS: Final = 14
# Clocks that are set by NTP differ by less than a second; a minute is nobody's jitter.
_AHEAD_US: Final = 60 * MICROSECONDS
_AT_ONCE: Final = 500
_MOST_SHOWN: Final = 50
_ENGINE_SECONDS: Final = 30.0  # the first import of FFmpeg from a cold disk
_VERSION: Final = "import av; print(av.__version__, av.ffmpeg_version_info)"


async def examine(settings: Settings, now_us: int) -> tuple[Finding, ...]:
    """Look at an installation; `now_us` is the wall clock.

    What cannot be looked at is a finding, too.
    """
    folder = Path(settings.data)
    found = [await _engine(), _box()]
    if not await asyncio.to_thread(folder.is_dir):
        text = f"{folder} is not there; `headend migrate` makes it"
        return (*found, Finding(topic="data folder", verdict="act", text=text))
    found += [_room(folder, settings.storage.min_free_bytes)]
    found += _certificates(settings, folder / "tls", now_us)
    files = ReadOnlyObjects(folder / "objects")
    try:
        async with open_catalog(catalog_place(settings), migrate=False) as catalog:
            for look in (
                partial(_damage, catalog),
                partial(_jobs, catalog, now_us),
                partial(_clock, catalog, now_us),
                partial(_missing, catalog, files),
                partial(_leftovers, catalog, files, now_us),
                partial(_uploads, catalog, files, now_us),
            ):
                found.append(await _told(look))
    except StorageError as error:
        found.append(Finding(topic="database", verdict="act", text=str(error)))
    return tuple(found)


async def clean(settings: Settings, now_us: int) -> int:
    """Remove what nothing names, and uploads whose time is over; returns how many that were.

    Raises:
        StorageError: the catalog or the disk did not answer; what is left is left.
        FolderError: the database is being migrated, or the data folder cannot be used.
    """
    folder = Path(settings.data)
    async with open_catalog(catalog_place(settings), migrate=False) as catalog:
        with relying_on_form(folder), DiskObjects(folder / "objects") as objects:
            removed = await remove_expired_uploads(objects, catalog.uploads, now_us)
            removed += await remove_orphans(objects, catalog.references, now_us)
            await catalog.links.forget(now_us)
            return removed


async def _told(look: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        return await look()
    except StorageError as error:
        return Finding(topic="storage", verdict="act", text=str(error))


async def _engine() -> Finding:
    """See that an engine's process could start, and with which FFmpeg."""
    topic = "versions"
    python = f"Python {platform.python_version()}"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _VERSION,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_ENGINE_SECONDS):
            said, _ = await child.communicate()
    except TimeoutError:
        child.kill()
        await child.wait()
        said = b""
    words = said.decode(errors="replace").split(maxsplit=1)
    if child.returncode or len(words) != 2:  # PyAV's and FFmpeg's
        text = f"{python}; PyAV cannot be loaded: no video can be made"
        return Finding(topic=topic, verdict="act", text=text)
    text = f"{python}, PyAV {words[0]}, FFmpeg {words[1].strip()}"
    return Finding(topic=topic, verdict="well", text=text)


def _box() -> Finding:
    """See what keeps engines from this machine's files; without it they work all the same."""
    try:
        text = landlock_text(landlock_abi())
    except BoxError as error:
        text = str(error.strerror)
    return Finding(topic="box", verdict="well", text=text)


def _room(folder: Path, least: int) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{size_text(free)} free"
    if free >= least:
        return Finding(topic="disk", verdict="well", text=text)
    text += f", less than storage.min_free_bytes ({size_text(least)}): nothing is taken in"
    return Finding(topic="disk", verdict="act", text=text)


def _certificates(settings: Settings, folder: Path, now_us: int) -> list[Finding]:
    """Look at the certificates of RTMPS: the operator's, or ours where they are made already."""
    if not settings.rtmps.listen:
        return []
    if settings.rtmps.certificate:
        return [_certificate(Path(settings.rtmps.certificate), "replace it", now_us)]
    ours = Certificates(folder)
    return [
        _certificate(path, remedy, now_us)
        for path, remedy in (
            (ours.leaf, "restart Headend, or have it reload: it makes another"),
            (ours.authority, "remove it, restart, and have encoders trust the new one"),
        )
        if path.exists()
    ]


def _certificate(path: Path, remedy: str, now_us: int) -> Finding:
    topic = f"certificate {path.name}"
    now = datetime.datetime.fromtimestamp(now_us / MICROSECONDS, datetime.UTC)
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return Finding(topic=topic, verdict="act", text=f"{path} cannot be read")
    ends = found.not_valid_after_utc
    if found.not_valid_before_utc > now:
        text = f"it counts from {found.not_valid_before_utc:%Y-%m-%d} on: is the clock right?"
    elif ends - now < datetime.timedelta(days=_CERTIFICATE_DAYS):
        text = f"it ends on {ends:%Y-%m-%d}: {remedy}"
    else:
        return Finding(topic=topic, verdict="well", text=f"until {ends:%Y-%m-%d}")
    return Finding(topic=topic, verdict="act", text=text)


async def _damage(catalog: Catalog) -> Finding:
    server, revision = await catalog.health.versions()
    broken = await catalog.health.damage()
    if broken:
        text = f"{server} says: {'; '.join(broken)}. Stop Headend and restore a backup"
        return Finding(topic="database", verdict="act", text=text)
    return Finding(topic="database", verdict="well", text=f"{server}, tables {revision}")


async def _jobs(catalog: Catalog, now_us: int) -> Finding:
    stuck = await catalog.health.stuck(now_us)
    if not stuck:
        return Finding(topic="jobs", verdict="well", text="none is stuck")
    things = [Thing(path=f"videos/{each.video}", what=f"{each.kind}, {each.state}, job {each.job}")
              for each in stuck]  # fmt: skip
    text = "nobody works at what is due: see that `headend serve` or `headend transcode` runs"
    return Finding(topic="jobs", verdict="act", text=text, things=tuple(things))


async def _clock(catalog: Catalog, now_us: int) -> Finding:
    ahead = await catalog.health.newest_us() - now_us
    if ahead <= _AHEAD_US:
        return Finding(topic="clock", verdict="well", text="nothing is written down ahead of it")
    text = f"the catalog is {ahead // MICROSECONDS} s ahead of this machine's clock: set all by NTP"
    return Finding(topic="clock", verdict="act", text=text)


# -- rows and files -------------------------------------------------------------------------------


async def _missing(catalog: Catalog, files: ReadOnlyObjects) -> Finding:
    """Look for the files that rows name."""
    lost: list[Thing] = []
    after = ""
    while rows := await catalog.references.page(after, _AT_ONCE):
        after = rows[-1].hash
        for row in rows:
            gone = await _lost(files, row)
            # It may have been deleted or made anew between the two looks.
            if gone and await catalog.references.standing([row.hash]) == (row,):
                lost += gone
    for address in await catalog.health.pictures():
        if await files.stat(address) is None and address in await catalog.health.pictures():
            lost.append(Thing(path=f"objects/{address}", what="picture of a slate"))
    if not lost:
        return Finding(topic="files", verdict="well", text="all that rows name are there")
    text = f"{len(lost)} that rows name are missing: restore them, or delete what they belong to"
    return Finding(topic="files", verdict="act", text=text, things=tuple(lost[:_MOST_SHOWN]))


async def _lost(files: ReadOnlyObjects, row: Standing) -> list[Thing]:
    wanted: list[tuple[str, str]] = []
    if row.source:
        wanted.append((row.source, "uploaded file"))
    if row.media is not None:
        wanted.append((addresses.video_variants(row.hash, row.media), "playlist"))
    gone = [each for each in wanted if await files.stat(each[0]) is None]
    for folder, what in ((row.posters, "posters"), (row.previews, "previews")):
        if folder is not None:
            place = addresses.video_media(row.hash, folder)
            if not await files.addresses(place):
                gone.append((place, what))
    return [Thing(path=f"objects/{address}", what=what) for address, what in gone]


async def _leftovers(catalog: Catalog, files: ReadOnlyObjects, now_us: int) -> Finding:
    found: list[tuple[str, str]] = []
    async with aclosing(find_orphans(files, catalog.references, now_us)) as leftovers:
        async for each in leftovers:
            found.append((each.address, each.what))
    return await _tidy("leftovers", files, found)


async def _uploads(catalog: Catalog, files: ReadOnlyObjects, now_us: int) -> Finding:
    """Look for uploads whose time is over, and for bytes of none."""
    found = [
        (addresses.upload(name), "upload that nobody goes on with")
        for name in await catalog.uploads.spent(now_us, _AT_ONCE)
    ]
    spent = {address for address, _ in found}
    names = [each.rpartition("/")[2] for each in await files.addresses(addresses.UPLOADS)]
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        known = await catalog.uploads.known(some)
        for address in (addresses.upload(name) for name in some if name not in known):
            stat = await files.stat(address)
            if address not in spent and stat is not None and stat.modified_us < now_us - AGE_US:
                found.append((address, "bytes of no upload"))
    return await _tidy("uploads", files, found)


async def _tidy(topic: str, files: ReadOnlyObjects, found: Iterable[tuple[str, str]]) -> Finding:
    things = [
        Thing(path=f"objects/{address}", what=what, bytes=await files.size(address))
        for address, what in found
    ]
    if not things:
        return Finding(topic=topic, verdict="well", text="none")
    room = sum(thing.bytes or 0 for thing in things)
    text = f"{len(things)} to be removed, {size_text(room)}"
    return Finding(topic=topic, verdict="tidy", text=text, things=tuple(things[:_MOST_SHOWN]))
