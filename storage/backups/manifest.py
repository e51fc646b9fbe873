"""The list of a backup's objects: a line for each, of four fields with tabs between them.

    SHA-256   bytes   time of the last change (microseconds since the Unix epoch)   address

The lines are in the order of `folder_of`, then of the address: so two lists are compared a folder
at a time, however long they are. Lines can be read by `cut` and a shell's `read`, since an address
has neither spaces nor tabs.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from storage.errors import StorageError
from storage.objects.addresses import is_address
from storage.objects.base import ObjectStat

# The top folders of media. The trash is what no row refers to, and what is arriving is no object.
MEDIA: Final = ("live", "slates", "sources", "videos")
_LINE: Final = re.compile(r"([0-9a-f]{64})\t([0-9]{1,15})\t(-?[0-9]{1,19})\t([^\t\n]+)\n?")


class BackupDamaged(StorageError):
    """A backup has not the bytes that were written; the message is for the operator."""


class ListedObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object: the SHA-256 of its bytes in hexadecimal digits, size, time of change, address."""

    digest: str
    size: int
    modified_us: int
    address: str

    def is_of(self, stat: ObjectStat) -> bool:
        """Return whether an object that has this size and time has not changed since."""
        return self.size == stat.size and self.modified_us == stat.modified_us


def folder_of(address: str) -> str:
    """Return the folder of a video or stream that an address is in: its first two parts."""
    return "/".join(address.split("/", 2)[:2])


def to_line(entry: ListedObject) -> str:
    """Return the line of an object."""
    return f"{entry.digest}\t{entry.size}\t{entry.modified_us}\t{entry.address}\n"


def parse_line(line: str) -> ListedObject:
    """Parse a line.

    Raises:
        BackupDamaged: it is none.
    """
    found = _LINE.fullmatch(line)
    if found is None or not is_address(found[4]):
        raise BackupDamaged(f"a list of objects has a line that is none: {line[:80]!r}")
    return ListedObject(
        digest=found[1], size=int(found[2]), modified_us=int(found[3]), address=found[4]
    )


def read_entries(path: Path) -> Iterator[ListedObject]:
    """Yield the objects of a list; it blocks.

    Raises:
        BackupDamaged: a line is none.
        OSError: the file cannot be read.
    """
    with path.open(encoding="ascii", errors="replace") as lines:
        yield from map(parse_line, lines)


class FormerFolders:
    """A list that is read a folder at a time, in its order; nothing without a path.

    Objects of another order, as nothing here writes them, are passed over: they are copied again.
    """

    def __init__(self, path: Path | None) -> None:
        entries: Iterable[ListedObject] = () if path is None else read_entries(path)
        self._groups = groupby(entries, lambda entry: folder_of(entry.address))
        self._next = self._read()

    def of(self, folder: str) -> dict[str, ListedObject]:
        """Return the objects of a folder, which follows the one of the call before; it blocks."""
        while self._next is not None and self._next[0] < folder:
            self._next = self._read()
        if self._next is None or self._next[0] != folder:
            return {}
        return self._next[1]

    def _read(self) -> tuple[str, dict[str, ListedObject]] | None:
        group = next(self._groups, None)
        if group is None:
            return None
        return group[0], {entry.address: entry for entry in group[1]}
