"""A client that uploads films slowly through several hosts, and fails over between them.

The protocol is tus 1.0. The client closes each connection after some seconds on purpose.
"""

import random
import socket
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit

from tests.support.api.upload_clips import clip
from tests.support.e2e.service import Answer, fetch
from tests.support.waiting import SCALE

_TUS: Final = {"Tus-Resumable": "1.0.0"}
_SIZE: Final = 3 << 20
_PIECE: Final = 64 << 10
_PAUSE: Final = 0.25  # seconds between two pieces
_PATIENCE: Final = 2.0 * SCALE  # seconds without a response before the client tries the next host
_FAILED: Final = (OSError, HTTPException)


class Uploader:
    """Uploads one film after the other, each with different bytes.

    Attributes:
        made: The bytes sent for each video, by its hash.
        cuts: The number of connections that ended before their upload.
        strange: Unexpected responses.
    """

    def __init__(self, bases: Sequence[str], token: str, seed: int) -> None:
        self.made: dict[str, bytes] = {}
        self.cuts = 0
        self.strange: list[str] = []
        self._bases = bases
        self._turn = seed
        self._token = token
        self._chance = random.Random(seed)
        self._over = threading.Event()

    def run(self) -> None:
        """Upload until `stop`, and finish the upload in progress."""
        while not self._over.is_set():
            self._upload(self._film())

    def stop(self) -> None:
        """Do not start another upload."""
        self._over.set()

    def _film(self) -> bytes:
        """Return a film, padded with a box that players skip."""
        begins = clip("320x180", "2")
        rest = _SIZE - len(begins)
        head = rest.to_bytes(4, "big") + b"free"
        return begins + head + self._chance.randbytes(rest - len(head))

    def _upload(self, film: bytes) -> None:
        path = self._create(len(film))
        while (progress := self._find(path))[1] is None:
            try:
                self._send(path, film, progress[0])
            except _FAILED:
                self.cuts += 1
            self._turn += 1
        assert progress[1] is not None
        self.made[progress[1]] = film

    def _create(self, length: int) -> str:
        while True:
            headers = {**_TUS, "Upload-Length": str(length)}
            answer = self._ask("/api/projects/1/uploads", "POST", headers)
            if answer is not None and answer.status == 201:
                return urlsplit(answer.headers["location"]).path
            self._turn += 1
            time.sleep(_PAUSE)

    def _find(self, path: str) -> tuple[int, str | None]:
        """Return an upload's offset, and the hash of its video once that exists."""
        while True:
            answer = self._ask(path, "HEAD", _TUS)
            if answer is not None and answer.status == 200:
                response_headers = answer.headers
                video = (
                    None
                    if "upload-expires" in response_headers
                    else response_headers["headend-video-hash"]
                )
                return int(response_headers["upload-offset"]), video
            if answer is not None and answer.status in {404, 410}:
                self.strange.append(f"HEAD {path}: {answer.status}")
                raise AssertionError(self.strange)
            self._turn += 1
            time.sleep(_PAUSE)

    def _ask(self, path: str, method: str, headers: dict[str, str]) -> Answer | None:
        base = self._bases[self._turn % len(self._bases)]
        try:
            return fetch(
                base + path, method=method, token=self._token, headers=headers, timeout=_PATIENCE
            )
        except _FAILED:
            return None

    def _send(self, path: str, film: bytes, at: int) -> None:
        """Append from an offset for some seconds at most, then read the response."""
        place = urlsplit(self._bases[self._turn % len(self._bases)])
        head = (
            f"PATCH {path} HTTP/1.1\r\nHost: {place.netloc}\r\n"
            f"Authorization: Bearer {self._token}\r\nTus-Resumable: 1.0.0\r\n"
            "Content-Type: application/offset+octet-stream\r\n"
            f"Upload-Offset: {at}\r\nContent-Length: {len(film) - at}\r\n\r\n"
        )
        cut_at = time.monotonic() + self._chance.uniform(3, 8)
        address = (place.hostname or "", place.port or 80)
        with socket.create_connection(address, timeout=_PATIENCE) as sock:
            sock.sendall(head.encode())
            while at < len(film):
                if time.monotonic() > cut_at:
                    raise OSError("cut")
                sock.sendall(film[at : at + _PIECE])
                at += _PIECE
                time.sleep(_PAUSE)
            sock.settimeout(5 * _PATIENCE)  # the service inspects the file
            sock.recv(4096)


@contextmanager
def uploading(uploader: Uploader) -> Generator[Uploader]:
    """Upload films for the length of the block, and finish the last one."""
    thread = threading.Thread(target=uploader.run, name="uploads")
    thread.start()
    try:
        yield uploader
    finally:
        uploader.stop()
        thread.join(timeout=120 * SCALE)
    assert not thread.is_alive(), "an upload does not end"
    assert uploader.strange == []
