"""Copies the bytes of all media that a repository lacks, and writes the list of all.

An object that has the size and the time of the former list is not read again, unless it may have
changed within the same moment. Sources and segments never change under their address.

What is being streamed changes all the time: playlists list other segments, and segments that left
the window are deleted. So a stream's playlists and state are read before its segments are listed:
what these texts name was there a moment ago, and is for longer than the next list takes. If one is
missing all the same, the stream is copied again.
"""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TextIO

import msgspec

from storage.backups.contents import Contents
from storage.backups.manifest import MEDIA, FormerFolders, ListedObject, to_line
from storage.backups.repository import DAMAGED, BackupRepository
from storage.backups.transfer import (
    LARGE_BYTES,
    Source,
    batches,
    copy_to_file,
    digest_of,
    read_all,
)
from storage.objects.addresses import is_address, is_arriving
from storage.objects.base import ObjectMissing, ObjectStat

_UNCHANGING: Final = (".m4s", ".mp4")
# What else changed later than this before the list was begun is read again: buckets date objects to
# the second, and their clocks and this machine's differ.
_MARGIN_US: Final = 60_000_000
_LIVE: Final = "live/"
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.5
_AT_ONCE: Final = 500

# Returns which names of folders of a top folder a catalog knows.
FindKnown = Callable[[str, list[str]], Awaitable[frozenset[str]]]


class PassProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a pass: folders seen and all of them, objects seen, and bytes copied."""

    folders: int
    of_folders: int
    objects: int
    copied: int
    copied_bytes: int


class Former(msgspec.Struct, frozen=True, kw_only=True):
    """The list before, and when it was begun; digests whose bytes are to be copied again."""

    path: Path | None
    begun_us: int
    damaged: frozenset[str] = frozenset()


class MediaPass:
    """A pass over all media of a store, which copies into a repository what that lacks.

    `find_known` leaves out folders that the catalog of a backup does not know. After `run`,
    `contents` has what the list names, and `torn` the streams whose playlists list what is missing.
    """

    def __init__(
        self,
        source: Source,
        repository: BackupRepository,
        former: Former,
        *,
        report: Callable[[PassProgress], None],
        find_known: FindKnown | None = None,
    ) -> None:
        self._source = source
        self._repository = repository
        self._former = former
        self._folders = FormerFolders(former.path)
        self._report = report
        self._find_known = find_known
        self._seen = self._of_folders = 0
        self.contents = Contents()
        self.torn: list[str] = []
        self.objects = self.bytes = self.copied = self.copied_bytes = 0

    async def run(self, manifest: Path) -> None:
        """Copy, and write the list to a new file.

        Raises:
            BackupDamaged: the former list cannot be read.
            StorageError: the store or the repository failed.
        """
        folders = await self._list_folders()
        self._of_folders = len(folders)
        with manifest.open("w", encoding="ascii") as lines:
            for folder in folders:
                former = await asyncio.to_thread(self._folders.of, folder)
                if folder.startswith(_LIVE):
                    entries = await self._copy_stream(folder, former)
                else:
                    entries = await self._copy(await self._source.stats(folder), former)
                self._write(entries, lines)
                self._seen += 1
                self._tell()

    async def _list_folders(self) -> list[str]:
        folders: list[str] = []
        for top in MEDIA:
            names = sorted(
                name for name in await self._source.folder_names(top) if is_address(f"{top}/{name}")
            )
            if self._find_known is not None:
                known: set[str] = set()
                for start in range(0, len(names), _AT_ONCE):
                    known |= await self._find_known(top, names[start : start + _AT_ONCE])
                names = [name for name in names if name in known]
            folders += [f"{top}/{name}" for name in names]
        return folders

    def _write(self, entries: dict[str, ListedObject], lines: TextIO) -> None:
        for address in sorted(entries):
            entry = entries[address]
            lines.write(to_line(entry))
            self.contents.add(entry)
            self.objects += 1
            self.bytes += entry.size

    def _tell(self) -> None:
        self._report(
            PassProgress(
                folders=self._seen,
                of_folders=self._of_folders,
                objects=self.objects,
                copied=self.copied,
                copied_bytes=self.copied_bytes,
            )
        )

    async def _copy_stream(
        self, folder: str, former: dict[str, ListedObject]
    ) -> dict[str, ListedObject]:
        """Copy what is stored of a stream, so that its playlists name nothing that is missing."""
        entries: dict[str, ListedObject] = {}
        known = dict(former)
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            texts: dict[str, bytes] = {}
            stats = await self._source.stats(folder)
            changing = {each: stats[each] for each in stats if not each.endswith(_UNCHANGING)}
            entries = await self._copy(changing, known, texts)
            stats = await self._source.stats(folder)
            media = {each: stats[each] for each in stats if each.endswith(_UNCHANGING)}
            entries |= await self._copy(media, known)
            if all(each in entries for each in _named_by(texts)):
                return entries
            # What was read in this attempt need not be read again.
            known |= {each: entries[each] for each in entries if each.endswith(_UNCHANGING)}
        self.torn.append(folder)
        return entries

    async def _copy(
        self,
        stats: dict[str, ObjectStat],
        former: dict[str, ListedObject],
        texts: dict[str, bytes] | None = None,
    ) -> dict[str, ListedObject]:
        """Copy objects that the repository lacks; return all. `texts` gets playlists by address."""
        entries: dict[str, ListedObject] = {}
        small: dict[str, ObjectStat] = {}
        for address, stat in stats.items():
            if is_arriving(address):
                continue
            entry = former.get(address)
            if entry is not None and self._is_unchanged(entry, stat):
                entries[address] = entry
            elif stat.size > LARGE_BYTES:
                await self._copy_large(address, stat, entries)
            else:
                small[address] = stat
        for batch in batches(small.items(), lambda each: each[1].size):
            await self._copy_batch(dict(batch), entries, texts)
        return entries

    def _is_unchanged(self, entry: ListedObject, stat: ObjectStat) -> bool:
        if not entry.is_of(stat) or entry.digest in self._former.damaged:
            return False
        never_changes = entry.address.startswith("sources/") or entry.address.endswith(_UNCHANGING)
        return never_changes or stat.modified_us < self._former.begun_us - _MARGIN_US

    async def _copy_batch(
        self,
        batch: dict[str, ObjectStat],
        entries: dict[str, ListedObject],
        texts: dict[str, bytes] | None,
    ) -> None:
        found = zip(batch, await read_all(self._source, batch), strict=True)
        data = {address: each for address, each in found if each is not None}  # else it is gone
        digests = await asyncio.to_thread(
            lambda: {address: digest_of(each) for address, each in data.items()}
        )
        bytes_of = {digests[address]: each for address, each in data.items()}
        sizes = {digest: len(each) for digest, each in bytes_of.items()}
        lacking = await self._repository.find_lacking(sizes)
        damaged = self._former.damaged & sizes.keys()
        lacking |= damaged
        if lacking:
            await self._repository.put_all({digest: bytes_of[digest] for digest in lacking})
            self.copied += len(lacking)
            self.copied_bytes += sum(sizes[digest] for digest in lacking)
        for digest in damaged:
            await self._repository.target.delete(f"{DAMAGED}/{digest}")
        for address, each in data.items():
            entries[address] = _entry(address, digests[address], len(each), batch[address])
            if texts is not None and address.endswith(".m3u8"):
                texts[address] = each
        self._tell()

    async def _copy_large(
        self, address: str, stat: ObjectStat, entries: dict[str, ListedObject]
    ) -> None:
        path = self._repository.temporary()
        try:
            digest = await copy_to_file(self._source, address, path)
            size = path.stat().st_size
            is_damaged = digest in self._former.damaged
            if is_damaged or await self._repository.find_lacking({digest: size}):
                await self._repository.put_file(digest, path, size)
                self.copied += 1
                self.copied_bytes += size
            if is_damaged:
                await self._repository.target.delete(f"{DAMAGED}/{digest}")
        except ObjectMissing:
            return  # it was deleted meanwhile
        finally:
            path.unlink(missing_ok=True)
        entries[address] = _entry(address, digest, size, stat)
        self._tell()


def _entry(address: str, digest: str, size: int, stat: ObjectStat) -> ListedObject:
    return ListedObject(digest=digest, size=size, modified_us=stat.modified_us, address=address)


def _named_by(texts: dict[str, bytes]) -> Iterator[str]:
    """Yield the addresses of what playlists list."""
    for address, text in texts.items():
        folder = posixpath.dirname(address)
        for line in _uris(text.decode(errors="replace").splitlines()):
            yield posixpath.normpath(f"{folder}/{line}")


def _uris(lines: Iterable[str]) -> Iterator[str]:
    """Yield the relative URIs of a playlist: of its lines, and of init sections and renditions."""
    for line in lines:
        uri = line
        if line.startswith(("#EXT-X-MAP", "#EXT-X-MEDIA:")):
            uri = line.partition('URI="')[2].partition('"')[0]
        if uri and not uri.startswith(("#", "/")) and "://" not in uri:
            yield uri.partition("?")[0]
