"""A small real disk that a test can fill: a tmpfs of a given size."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

KIB = 1 << 10
MIB = 1 << 20

_PLEASE = (
    "a test needs a small disk: run it as root, or allow user namespaces"
    " (sysctl -w kernel.unprivileged_userns_clone=1; apt-get install util-linux)"
)


@dataclass(frozen=True)
class SmallDisk:
    """A small disk.

    `folder` is its path in this process. A command with `prefix` in front sees the disk at
    `inside`; for root, the prefix is empty and both paths are the same.
    """

    folder: Path
    inside: Path
    prefix: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        """The free bytes."""
        return shutil.disk_usage(self.folder).free

    def fill(self, leave: int = 0) -> None:
        """Fill the disk with another file, except for `leave` bytes; replaces an earlier fill."""
        self.empty()
        for _ in range(10):  # others may write at the same time
            with suppress(OSError), self._filler.open("wb") as file:
                if (room := self.free - leave) > 0:
                    os.posix_fallocate(file.fileno(), 0, room)
                return

    def empty(self) -> None:
        """Remove the file of `fill`."""
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> Path:
        return self.folder / ".filler"  # no address of an object store


@contextmanager
def small_disk(folder: Path, size: int, *, inodes: int | None = None) -> Generator[SmallDisk]:
    """Mount a disk of `size` bytes at `folder` for the length of the block.

    It has room for so many `inodes`, by default for enough.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size}" if inodes is None else f"size={size},nr_inodes={inodes}"
    if os.geteuid() == 0:
        with _mounted(folder, options):
            yield SmallDisk(folder, folder)
    else:
        with _within_namespace(folder, options) as holder:
            outside = Path(f"/proc/{holder}/root{folder.absolute()}")
            prefix = ("nsenter", "--target", str(holder), "--user", "--mount")
            yield SmallDisk(outside, folder, (*prefix, "--preserve-credentials"))


@contextmanager
def _mounted(folder: Path, options: str) -> Generator[None]:
    mount = ("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{_PLEASE}: {done.stderr}"
    try:
        yield
    finally:
        # Lazy, so that a process with an open file does not keep the mount.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def _within_namespace(folder: Path, options: str) -> Generator[int]:
    """Mount in the namespace of a helper process, which ends with its input."""
    script = 'mount -t tmpfs -o "$1" tmpfs "$2" && echo ready && exec cat'
    unshare = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh")
    with subprocess.Popen(
        [*unshare, options, str(folder.absolute())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        ready = holder.stdout.readline()
        assert ready == "ready\n", f"{_PLEASE}: {holder.stderr.read()}"
        try:
            yield holder.pid
        finally:
            assert holder.stdin is not None
            holder.stdin.close()
