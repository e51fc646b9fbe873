"""An installation with a video, a place for its backups, and commands about both."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from click.testing import CliRunner, Result

from headend.cli import main
from headend.config.settings import ServiceSettings
from headend.install.backup import BackupMade, make_backup
from headend.install.backup_place import Place
from headend.install.installation import DATABASE
from headend.install.restore import restore
from media.no_op import do_nothing
from storage.backups.retention import Keep
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from tests.support.headend.installed import installed, settings_of
from tests.support.storage.new_videos import new_video

HASH, NEWER = "AAAAAAAAAAAA", "BBBBBBBBBBBB"
T = TypeVar("T")
KEEP = Keep(daily=7, weekly=4, monthly=6)


def in_loop_of_its_own(work: Callable[[], T]) -> T:
    """Run work with an event loop of its own, while another one may wait for this."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


@dataclass
class BackedUpSite:
    """A data folder, a folder for its backups, and settings beside those of tests."""

    data: Path
    place: Path
    changed: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def installed(cls, folder: Path) -> "BackedUpSite":
        """Install a data folder, and add a video; outside of an event loop or in one."""
        site = cls(folder / "data", folder / "backups")
        site.place.mkdir(parents=True)

        async def make() -> None:
            await installed(site.data)
            await add_video(site.data, HASH)

        in_loop_of_its_own(lambda: asyncio.run(make()))
        return site

    def settings(self, data: Path | None = None) -> ServiceSettings:
        changed = {"storage__min_free_bytes": "0", **self.changed}
        return settings_of(data or self.data, **changed)

    def run(self, *arguments: str, data: Path | None = None, **changed: str) -> Result:
        """Run a command of Headend."""
        settings = {"data": str(data or self.data), "storage__min_free_bytes": "0"}
        settings |= self.changed | changed
        environment = {f"HEADEND_{name.upper()}": text for name, text in settings.items()}
        runner = CliRunner(env={"HEADEND_CONFIG": "", **environment})
        return in_loop_of_its_own(lambda: runner.invoke(main, list(arguments)))

    async def backup(self, place: Place | None = None) -> BackupMade:
        return await make_backup(self.settings(), place or self.place, KEEP, do_nothing)

    async def restored(self, data: Path, place: Place | None = None) -> Path:
        """Restore the newest backup to another data folder, which is returned."""
        await restore(self.settings(data), place or self.place, None, do_nothing)
        return data

    @property
    def names(self) -> list[str]:
        """The names of the backups, complete or not."""
        return sorted(path.name for path in (self.place / "backups").iterdir())


async def add_video(data: Path, hash_: str) -> None:
    """Add a video whose file, playlists and segments are in the store."""
    media = f"videos/{hash_}/1-1"
    with DiskObjects(data / "objects") as objects:
        await objects.put_all(
            {
                f"sources/{hash_}/1": b"the file" * 100,
                f"{media}/index.m3u8": b"#EXTM3U\n720p/index.m3u8\n",
                f"{media}/720p/index.m3u8": b"#EXTM3U\n0.m4s\n",
                f"{media}/720p/0.m4s": hash_.encode(),
            }
        )
    async with open_catalog(data / DATABASE, migrate=False) as catalog:
        project = await catalog.projects.find("1")
        assert project is not None
        await catalog.videos.add(project.id, new_video(hash_), Change(1))


def media_of(data: Path) -> dict[str, bytes]:
    """Return the media of a data folder, by address."""
    root = data / "objects"
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for top in ("live", "slates", "sources", "videos")
        for path in (root / top).rglob("*")
        if path.is_file()
    }
    return dict(sorted(found.items()))
