"""`headend backup` and what it leaves out, finds and keeps."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headend.cli import main
from headend.install.installation import DATABASE
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from tests.support.headend.installed import installed
from tests.support.storage.new_videos import new_video

HASH, OTHER = "AAAAAAAAAAAA", "BBBBBBBBBBBB"


class Site:
    """An installation with a video in a folder, and a place for its backups."""

    def __init__(self, folder: Path) -> None:
        self.data, self.place = folder / "data", folder / "backups"

    def run(self, *arguments: str, data: Path | None = None) -> Result:
        environment = {
            "HEADEND_CONFIG": "",
            "HEADEND_DATA": str(data or self.data),
            "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        }
        return CliRunner(env=environment).invoke(main, list(arguments))

    def backup(self, *arguments: str) -> str:
        result = self.run("backup", str(self.place), *arguments)
        assert result.exit_code == 0, result.output
        return result.output

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in (self.place / "backups").iterdir())

    def bytes_of(self, folder: Path) -> dict[str, bytes]:
        """Return all media of a data folder."""
        root = folder / "objects"
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file() and "/." not in f"/{path.relative_to(root).as_posix()}"
        }


async def add_video(data: Path, hash_: str) -> int:
    """Add a video whose file, playlist and segments are in the store; return its number."""
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
        project = await catalog.projects.add("films", Change(1))
        whole = await catalog.videos.add(project.id, new_video(hash_), Change(1))
        return whole.video.id


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    asyncio.run(installed(site.data))
    asyncio.run(add_video(site.data, HASH))
    return site


def test_backup_and_restore(site: Site, tmp_path: Path) -> None:
    print(site.backup())
    print(site.backup())
    print(site.run("backup", str(site.place), "--check").output)
    result = site.run("restore", str(site.place), data=tmp_path / "new")
    print(result.output)
    assert result.exit_code == 0
    assert site.bytes_of(tmp_path / "new") == site.bytes_of(site.data)
    result = site.run("doctor", data=tmp_path / "new")
    print(result.output)
    assert 0
