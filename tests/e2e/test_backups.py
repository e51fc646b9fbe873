"""Backups of a service at work: all that the catalog names is in them, byte by byte."""

import json
import os
import posixpath
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from storage.catalog import open_catalog
from storage.cleanup.missing import find_missing
from storage.objects.read_only import ReadOnlyObjects
from tests.conftest import Proof
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import ffmpeg, publishing, tool
from tests.support.e2e.service import HEADEND, SCALE, ServiceProcess, fetch, service
from tests.support.e2e.uploaded_videos import completed, upload
from tests.support.engine.upload_files import film
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

STREAMS, FILMS = 3, 20
RESTORED = 8  # of some dozens
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-c:a", "aac")
SETTINGS = {
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    "HEADEND_LIVE__RECONNECT_SECONDS": "2",
    "HEADEND_LIVE__GOODBYE_SECONDS": "0",
}
KEEP_ALL = ("--keep-daily", "0", "--keep-weekly", "0", "--keep-monthly", "0")


class Witness:
    """Hard links to all that a store ever had: an object is replaced, never written to."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.store, self.folder = store, folder

    def look(self) -> None:
        for place, folders, names in os.walk(self.store):
            folders[:] = [name for name in folders if not name.startswith(".")]
            kept = self.folder / Path(place).relative_to(self.store)
            for name in names:
                path = Path(place, name)
                with suppress(OSError):  # it is gone
                    stat = path.stat()
                    link = kept / f"{name}@{stat.st_ino}-{stat.st_mtime_ns}"
                    if not link.exists():
                        kept.mkdir(parents=True, exist_ok=True)
                        link.hardlink_to(path)

    def has(self, address: str, data: bytes) -> bool:
        """Return whether an object had these bytes once."""
        folder, name = posixpath.split(address)
        seen = (self.folder / folder).glob(f"{name}@*")
        return any(path.read_bytes() == data for path in seen)

    @contextmanager
    def watching(self) -> Generator[None]:
        over = threading.Event()

        def keep_looking() -> None:
            while not over.wait(0.05):
                self.look()

        thread = threading.Thread(target=keep_looking)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def run(*arguments: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of Headend as an operator does."""
    done = subprocess.run(
        [str(HEADEND), *arguments],
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=120 * SCALE,
    )
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done


def listed(playlist: Path) -> Iterator[Path]:
    """Yield the files that a playlist names; that of a video is served one folder higher."""
    folder = playlist.parent
    if "videos" in playlist.parts and playlist.parts[-4] == "videos":
        folder = folder.parent
    for line in playlist.read_text().splitlines():
        found = re.match(r'#EXT-X-(?:MAP|MEDIA):.*URI="([^"]+)"', line)
        uri = found[1] if found else line
        if uri and not uri.startswith("#"):
            yield Path(os.path.normpath(folder / uri.partition("?")[0]))


async def require_whole(data: Path, witness: Witness) -> tuple[int, int]:
    """Check all that a restored catalog and its playlists name; return objects and playlists."""
    objects = data / "objects"
    async with open_catalog(data / "catalog.sqlite", migrate=False) as catalog:
        assert await find_missing(catalog, ReadOnlyObjects(objects)) == []
    count = playlists = 0
    for path in sorted(objects.rglob("*")):
        address = path.relative_to(objects).as_posix()
        if not path.is_file() or address.startswith(("installation", ".")):
            continue
        count += 1
        assert witness.has(address, path.read_bytes()), address
        if path.suffix == ".m3u8":
            playlists += 1
            missing = [each for each in listed(path) if not each.is_file()]
            assert not missing, (address, missing)
    return count, playlists


class Films:
    """Films that are made, replaced and some deleted, one after the other."""

    def __init__(self, headend: ServiceProcess, folder: Path) -> None:
        self._headend = headend
        self._files = [
            film(folder / f"{number}.mp4", *X264, seconds=2 + number) for number in range(2)
        ]
        self.videos: list[int] = []
        self.failed: list[str] = []

    def work(self) -> None:
        try:
            for number in range(FILMS):
                status, answer = upload(self._headend, self._files[number % 2])
                assert status == 201, answer
                self.videos.append(answer["video"]["id"])
                completed(self._headend, self.videos[-1], within=60)
                self._replace(self.videos[-1], self._files[(number + 1) % 2])
                if number % 7 == 6:
                    self._delete(self.videos.pop(0))
        except Exception as error:  # noqa: BLE001  # shown by the test's own thread
            self.failed.append(repr(error))

    def _replace(self, video: int, path: Path) -> None:
        done = subprocess.run(
            [
                *(tool("curl"), "-sS", "-f", "-X", "PUT", "-F", f"video=@{path}"),
                *("-H", f"Authorization: Bearer {self._headend.token}"),
                f"{self._headend.http}/api/videos/{video}/file",
            ],
            capture_output=True,
            timeout=60 * SCALE,
        )
        assert done.returncode == 0, done.stderr
        completed(self._headend, video, within=60)

    def _delete(self, video: int) -> None:
        address = f"{self._headend.http}/api/videos/{video}"
        assert fetch(address, method="DELETE", token=self._headend.token).status == 204


async def test_backups_while_streams_run_and_films_are_made_and_replaced(
    tmp_path: Path, small_source: Path, proof: Proof
) -> None:
    data, place = tmp_path / "data", tmp_path / "backups"
    witness = Witness(data / "objects", tmp_path / "witness")
    with ExitStack() as stack:
        headend = stack.enter_context(service(data, environment=SETTINGS))
        stack.enter_context(witness.watching())
        for number in range(STREAMS):
            stream = headend.another(f"Stream {number}")
            url = f"{headend.server}/{stream.key}"
            command = ffmpeg(small_source, url, "-stream_loop", "-1")
            stack.enter_context(publishing(command))
            playlist = stream.playlist
            poll(lambda at=playlist: multivariant(at), within=60, what="a stream on air")
        films = Films(headend, tmp_path)
        working = threading.Thread(target=films.work)
        working.start()
        slowest = 0.0
        while working.is_alive():
            began = time.monotonic()
            run("backup", str(place), "--data", str(data), *KEEP_ALL)
            slowest = max(slowest, time.monotonic() - began)
        assert not films.failed
        run("backup", str(place), "--data", str(data), *KEEP_ALL)
        witness.look()
    names = [
        line.split("\t")[0] for line in run("backup", str(place), "--list").stdout.splitlines()
    ]
    assert (
        "all are as they were written"
        in run("backup", str(place), "--check", "--data", str(data)).stdout
    )
    objects = playlists = 0
    for name in names[:: len(names) // RESTORED][:RESTORED]:
        shutil.rmtree(data)
        run("restore", str(place), "--at", name, "--data", str(data))
        count, lists = await require_whole(data, witness)
        objects, playlists = objects + count, playlists + lists
    # The newest was made while streams were on air.
    shutil.rmtree(data)
    run("restore", str(place), "--data", str(data))
    with service(data, environment=SETTINGS) as again:
        for video in films.videos:
            completed(again, video, within=60)
        doctor = run("doctor", "--json", "--data", str(data), ok=False).stdout
        findings = json.loads(doctor)["findings"]
    unwell = [each for each in findings if each["verdict"] != "well"]
    assert unwell == []
    proof(
        "backups while 3 streams run and 20 films are made and replaced; wiped, restored",
        f"{len(names)} backups, the slowest {slowest:.1f} s; of {RESTORED}, {objects} objects and"
        f" {playlists} playlists as they were; the doctor finds nothing",
        "every playlist, poster and byte as it was; the doctor finds nothing",
    )
