"""An installation whose processes are killed in the middle of changes."""

import hashlib
import http.client
import random
import shutil
import signal
import subprocess
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import Final

from headend.install.installation import DATABASE
from headend.install.media_store import OBJECTS
from storage.objects.s3_bucket import S3Location
from tests.support.api.upload_clips import clip
from tests.support.e2e.service import HEADEND, ServiceProcess, fetch, service, start_headend
from tests.support.sql import run_sql
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import SCALE, poll

CHANGES: Final = ("replacement", "deletion", "upload", "move")
_PIECES: Final = 4
# Videos that are changed one after the other, so that a kill most likely hits one of them.
_REPLACED, _DELETED = 2, 8
_TUS: Final = {"Tus-Resumable": "1.0.0", "Content-Type": "application/offset+octet-stream"}


class KilledSite:
    """An installation; its media are in its folder, or in `bucket`.

    `database` is its URL, "" for SQLite. `videos` are the numbers of those that may be changed.
    """

    def __init__(
        self, folder: Path, server: S3Server, chance: random.Random, database: str = ""
    ) -> None:
        self.data = folder / "data"
        self.bucket: S3Location | None = None
        self.location: str | Path = database or self.data / DATABASE
        self.kills: Counter[str] = Counter()
        self.videos: list[int] = []
        self._server = server
        self._chance = chance
        self._database = database
        # The path of an upload whose service was killed, and where the media were then.
        self._left: str | None = None
        self._left_in: S3Location | None = None
        # Seconds that a change takes: the next is killed within them. At first a guess.
        self._took: dict[str, float] = dict.fromkeys(CHANGES, 0.4 * SCALE)
        # Of 1 s, with padding, so that it takes some time to arrive.
        self._film = clip("320x180") + (1 << 20).to_bytes(4, "big") + b"free" + bytes((1 << 20) - 8)

    @contextmanager
    def serving(self) -> Generator[ServiceProcess]:
        """Run the service for the length of the block."""
        with service(self.data, environment=self._environment()) as running:
            yield running

    def kill_during(self, change: str) -> None:
        """Begin a change and kill its process at a random moment."""
        if change == "move":
            self._kill_a_move()
        else:
            self._kill_a_service(change)
        self.kills[change] += 1

    def finish_jobs(self) -> None:
        """Serve until nothing is left to transcode, if there is anything, or a host to sign off."""
        if self._has_no_jobs() and not self._database:
            return
        with self.serving() as running:
            poll(self._has_no_jobs, within=120, what="no jobs")
            assert running.stop() == 0

    def _has_no_jobs(self) -> bool:
        return run_sql(self.location, "SELECT count(*) FROM jobs") == [(0,)]

    # -- kills ------------------------------------------------------------------------------------

    def _kill_a_service(self, kind: str) -> None:
        change = {"replacement": self._replace, "deletion": self._delete, "upload": self._upload}
        with self.serving() as running:
            thread = Thread(target=self._change, args=(change[kind], kind, running))
            trace = self._trace(kind)
            thread.start()
            time.sleep(self._chance.uniform(0.0, self._took[kind]))
            # Every other time, right when the next one is in the database or the store alone.
            seen, until = trace(), time.monotonic() + self._took[kind]
            while self.kills[kind] % 2 and thread.is_alive() and time.monotonic() < until:
                if trace() != seen:
                    break
            running.stop(signal.SIGKILL)
            thread.join()

    def _change(
        self, change: Callable[[ServiceProcess], None], kind: str, running: ServiceProcess
    ) -> None:
        """Make changes of a service that is being killed, one after the other."""
        began = time.monotonic()
        with suppress(OSError, http.client.HTTPException):
            change(running)
            self._took[kind] = time.monotonic() - began

    def _trace(self, kind: str) -> Callable[[], object]:
        """Return a function whose value changes when one half of a change is done."""
        if kind == "deletion":
            return partial(run_sql, self.location, "SELECT count(*) FROM removals")
        if self.bucket is not None:
            folder = f"{self.bucket.prefix}/sources"
            return partial(self._server.keys, self.bucket.bucket, folder)
        sources = self.data / OBJECTS / "sources"
        return lambda: sorted(sources.glob("*/*"))

    def _kill_a_move(self) -> None:
        """Move the media to a new bucket, or back; what is killed is repeated."""
        self.finish_jobs()  # a move is refused while something is leased, or a host may be there
        target = self._server.new_bucket("media") if self.bucket is None else None
        command = ["migrate", "--data", str(self.data), "--media-to"]
        if target is None:
            # As an operator does who has moved them: only what is in use is kept.
            shutil.rmtree(self.data / OBJECTS)
            command += [str(self.data)]
        else:
            command += [str(target), "--media-endpoint", target.endpoint]
            command += ["--media-region", target.region]
        self._run(command, self._chance.uniform(0.0, self._took["move"]))
        began = time.monotonic()
        self._run(command, None)
        self._took["move"] = time.monotonic() - began
        self.bucket = target
        # Else the next start waits to see whether anybody still uses the other store.
        self._run(["take-over", "--data", str(self.data)], None)

    def _run(self, command: list[str], seconds: float | None) -> None:
        """Run a command to its end, or kill it after some seconds."""
        environment = {**self._server.credentials, **self._environment()}
        with TemporaryFile("w+") as output:
            process = start_headend([str(HEADEND), *command], environment, output, output)
            with suppress(subprocess.TimeoutExpired):
                process.wait(60 * SCALE if seconds is None else seconds)
            process.kill()
            status = process.wait()
            output.seek(0)
            allowed = {0} if seconds is None else {0, -signal.SIGKILL}
            assert status in allowed, (command, output.read())

    def _environment(self) -> dict[str, str]:
        return {
            **({} if self.bucket is None else self._server.settings(self.bucket)),
            **({"HEADEND_DATABASE__URL": self._database} if self._database else {}),
            "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
            "HEADEND_TRASH__KEEP_DAYS": "0",  # what is kept is killed in `tests.e2e.test_trash`
            "HEADEND_TRANSCODE__LEASE_SECONDS": "5",
            "HEADEND_HOSTS__DEAD_SECONDS": "2",
        }

    # -- changes ----------------------------------------------------------------------------------

    def _replace(self, running: ServiceProcess) -> None:
        """Replace the files of some videos: of recordings first, which have none."""
        for _ in range(_REPLACED):
            video = self.videos.pop(0)
            self.videos.append(video)
            self._send_film(running, f"/api/videos/{video}/file")

    def _delete(self, running: ServiceProcess) -> None:
        """Delete some videos: those that were replaced last, and recordings."""
        for number in range(_DELETED):
            video = self.videos.pop(0 if number % 2 else -1)
            fetch(f"{running.http}/api/videos/{video}", method="DELETE", token=running.token)

    def _upload(self, running: ServiceProcess) -> None:
        """Send a film in pieces with checksums; most of those that are cut off are continued."""
        path, self._left = self._left, None
        if path is None or self._left_in != self.bucket:  # a move leaves uploads behind
            replaces = b64encode(str(self.videos[0]).encode()).decode()
            which = (
                {"Upload-Metadata": f"replaces {replaces}"} if self._chance.random() < 0.5 else {}
            )
            length = {"Upload-Length": str(len(self._film))}
            answer = self._ask(running, "POST", "/api/projects/1/uploads", {**which, **length})
            path = "/api/" + answer["location"].split("/api/", 1)[1]
        if self._chance.random() < 0.7:
            self._left, self._left_in = path, self.bucket
        offset = int(self._ask(running, "HEAD", path, {})["upload-offset"])
        while offset < len(self._film):
            piece = self._film[offset : offset + len(self._film) // _PIECES]
            checksum = b64encode(hashlib.sha256(piece).digest()).decode()
            headers = {"Upload-Offset": str(offset), "Upload-Checksum": f"sha256 {checksum}"}
            offset = int(self._ask(running, "PATCH", path, headers, piece)["upload-offset"])
        self._left = None

    def _ask(
        self,
        running: ServiceProcess,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes | None = None,
    ) -> dict[str, str]:
        """Send a request of the upload protocol, and return the answer's headers."""
        answer = fetch(
            f"{running.http}{path}",
            method=method,
            token=running.token,
            headers={**_TUS, **headers},
            data=data,
        )
        assert answer.status in {200, 201, 204}, answer.text
        return {name.lower(): value for name, value in answer.headers.items()}

    def _send_film(self, running: ServiceProcess, path: str) -> None:
        """Send the film in a form."""
        head = b'--x\r\nContent-Disposition: form-data; name="video"; filename="a.mp4"\r\n\r\n'
        answer = fetch(
            f"{running.http}{path}",
            method="PUT",
            token=running.token,
            headers={"Content-Type": "multipart/form-data; boundary=x"},
            data=head + self._film + b"\r\n--x--\r\n",
        )
        assert answer.status == 200, answer.text
