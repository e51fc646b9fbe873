"""Traces the order of syncs, renames, and the database's statements and commits."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from storage.objects import durable

Trace = list[tuple[str, str]]


@contextmanager
def traced_disk(root: Path) -> Generator[Trace]:
    """Record the calls during the block, each with its path below `root` or its SQL.

    The calls still have their effect.
    """
    trace: Trace = []
    real_fsync, real_rename, real_replace = os.fsync, os.rename, os.replace

    def below(path: str | os.PathLike[str]) -> str:
        return os.path.relpath(path, root)

    def fsync(file: int) -> None:
        trace.append(("fsync", below(Path(f"/proc/self/fd/{file}").readlink())))
        real_fsync(file)

    def rename(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        real_rename(source, target)
        trace.append(("rename", below(target)))

    def replace(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        real_replace(source, target)
        trace.append(("rename", below(target)))

    class Libc:
        def syncfs(self, folder: int) -> int:
            trace.append(("syncfs", below(Path(f"/proc/self/fd/{folder}").readlink())))
            status: int = real_libc.syncfs(folder)
            return status

    real_libc = durable._LIBC  # pyright: ignore[reportPrivateUsage]  # the one way to see the call

    def statement(_c: object, _cursor: object, text: str, *_: Any) -> None:  # Any: the event's own
        trace.append(("sql", text))

    def commit(_connection: object) -> None:
        trace.append(("commit", ""))

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", commit)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            patch.setattr(os, "rename", rename)
            patch.setattr(os, "replace", replace)
            patch.setattr(durable, "_LIBC", Libc())
            yield trace
    finally:
        event.remove(Engine, "before_cursor_execute", statement)
        event.remove(Engine, "commit", commit)


def are_synced_before(trace: Trace, statement: str) -> bool:
    """Return whether all media were synced, and not renamed since, before a statement."""
    row = next(n for n, (call, text) in enumerate(trace) if call == "sql" and statement in text)
    calls = [call for call, _ in trace[:row] if call in ("rename", "syncfs")]
    return bool(calls) and calls[-1] == "syncfs"
