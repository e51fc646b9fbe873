"""A small origin with the service's real pages, for playback in a real browser.

ffmpeg makes the media in real time, in the service's layout: CMAF, two rungs and a separate audio
rendition, segments of 2 s, the newest 30 s listed, a folder for each run.
"""

import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import uvicorn
from litestar import Litestar
from litestar.types import Receive, Scope, Send

from api.origin.visibility import VisibilityCache
from api.pages.watch_pages import page_handlers
from api.schemas.urls import Addresses
from storage.catalog.records.common import PublicRecord
from tests.support.e2e.publishers import tool
from tests.support.e2e.service import SCALE
from tests.support.made_media import make_file
from tests.support.web.low_latency import LowLatencyRun

_STOP = 10.0  # seconds
# Few pictures, since browsers spend most of their time on them. The sound ends with a whole frame.
_LIVE_RATE = 15
_LIVE_SECONDS = 32
_TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".mp4": "video/mp4", ".m4s": "video/mp4"}


def shown(hash_: str, title: str = "A stream", description: str = "") -> PublicRecord:
    """Return the record of a stream that was never live."""
    return PublicRecord(
        hash=hash_,
        project=1,
        title=title,
        description=description,
        published=False,
        hidden=False,
        live=False,
    )


def video(hash_: str, title: str = "A video") -> PublicRecord:
    """Return the record of a playable video."""
    return msgspec.structs.replace(shown(hash_, title), kind="video", published=True)


class PlaybackOrigin:
    """The served content, which may change while it is served.

    `streams` are the records, `runs` the current run of each stream (a folder under `media`),
    `down` the hashes whose playlists and media return 503, `others` third-party pages, `low` the
    streams at low latency. A video plays its run from the beginning.
    """

    def __init__(self, media: Path) -> None:
        self.media = media
        self.port = 0
        self.streams: dict[str, PublicRecord] = {}
        self.runs: dict[str, str] = {}
        self.down: set[str] = set()
        self.others: dict[str, str] = {}
        self.low: dict[str, LowLatencyRun] = {}

    @property
    def address(self) -> str:
        """The public URL of the service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def elsewhere(self) -> str:
        """The same server under another name, which is another site to browsers."""
        return f"http://localhost:{self.port}"

    def complete(self, run: str) -> bool:
        """Return whether all renditions of a run have their first segment."""
        folder = self.media / run
        names = ("360p", "180p", "audio")
        return (folder / "master.m3u8").exists() and all(
            (folder / name / "index.m3u8").exists() for name in names
        )

    async def find(self, hash_: str, /) -> PublicRecord | None:
        """Return a stream's record."""
        return self.streams.get(hash_)

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        """Return whether the token is the stream's hash."""
        return authorization == f"Bearer {hash_}"

    def read(self, path: str) -> tuple[int, str, bytes]:
        """Return the status, type and body for a path under `/live/` or `/videos/`."""
        _, _, hash_, rest = path.split("/", 3)
        record = self.streams.get(hash_)
        if hash_ in self.down:
            return 503, "text/plain", b"down\n"
        if record is None or record.hidden:
            return 404, "text/plain", b"not found\n"
        if rest == "index.m3u8":
            return self._multivariant(hash_)
        file = self.media / rest
        if file.suffix not in _TYPES or not file.is_file():
            return 404, "text/plain", b"not found\n"
        body = file.read_bytes()
        if file.suffix == ".m3u8":
            # ffmpeg's target duration is the longest segment so far; the service's is always 4.
            body = re.sub(rb"(?<=TARGETDURATION:)\d+", b"4", body)
        return 200, _TYPES[file.suffix], body

    def _multivariant(self, hash_: str) -> tuple[int, str, bytes]:
        run = self.runs.get(hash_)
        if run is None or not self.complete(run):
            return 404, "text/plain", b"not found\n"
        text = (self.media / run / "master.m3u8").read_text()
        text = re.sub(r'^(?=[^#\n])|(?<=URI=")', f"{run}/", text, flags=re.MULTILINE)
        return 200, _TYPES[".m3u8"], text.encode()


@contextmanager
def serving(origin: PlaybackOrigin, playback: str | None = None) -> Generator[None]:
    """Serve the pages and the media for the length of the block.

    `playback` is the base URL of the playlists in the pages, by default this server.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        origin.port = listening.getsockname()[1]
        addresses = Addresses(
            http=origin.address,
            playback=playback or origin.address,
            rtmp="rtmp://localhost",
            rtmps="rtmps://localhost",
            rtmp_backup="rtmp://localhost",
            rtmps_backup="rtmps://localhost",
        )
        visibility = VisibilityCache(origin, origin.is_owner)
        app = Litestar(
            page_handlers(visibility, addresses), openapi_config=None, logging_config=None
        )

        async def front(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope["path"] if scope["type"] == "http" else ""
            _, kind, hash_, rest = (*path.split("/", 3), "", "", "")[:4]
            if kind == "live" and (low := origin.low.get(hash_)):
                await _send(send, *await low.answer(rest, scope["query_string"].decode()))
            elif kind in {"live", "videos"} and rest:
                await _send(send, *origin.read(path))
            elif path in origin.others:
                await _send(send, 200, "text/html", origin.others[path].encode())
            else:
                await app(scope, receive, send)

        config = uvicorn.Config(front, log_level="warning", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield
        finally:
            for low in origin.low.values():
                low.stop()
            server.should_exit = True
            thread.join(_STOP)


async def _send(send: Send, status: int, kind: str, body: bytes) -> None:
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"access-control-allow-origin", b"*"),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@contextmanager
def encoding(origin: PlaybackOrigin, run: str, seconds: float = 15.0) -> Generator[None]:
    """Make one run in real time for the length of the block; then its playlists are ended."""
    source = origin.media / "source.mp4"
    if not source.exists():
        codecs = _codecs(_LIVE_RATE, _LIVE_SECONDS)
        make_file([tool("ffmpeg"), "-v", "error", *codecs, "-y"], source, seconds=60 * SCALE)
    media = ("-re", "-stream_loop", "-1", "-i", str(source), "-map", "0", "-c", "copy")
    order = [tool("ffmpeg"), *_laid_out(_folder(origin, run), media)]
    with subprocess.Popen(order, stdin=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + seconds
            while not origin.complete(run):
                assert process.poll() is None, "ffmpeg is gone"
                assert time.monotonic() < deadline, f"no media from ffmpeg in {seconds} s"
                threading.Event().wait(0.1)
            yield
        finally:
            process.send_signal(signal.SIGINT)  # makes ffmpeg end its playlists
            process.wait(_STOP)


def encode(origin: PlaybackOrigin, run: str, seconds: int) -> None:
    """Make a whole, ended run at once; `seconds` is at most 30, so that all of it is listed.

    It has 30 pictures a second.
    """
    order = _laid_out(_folder(origin, run), _codecs(30, seconds))
    subprocess.run([tool("ffmpeg"), *order], check=True, timeout=60 * SCALE)


def _folder(origin: PlaybackOrigin, run: str) -> Path:
    folder = origin.media / run
    for name in ("360p", "180p", "audio"):
        (folder / name).mkdir(parents=True)
    return folder


def _codecs(rate: int, seconds: int) -> tuple[str, ...]:
    """Return the encoder options for two rungs and the sound, with a keyframe every 2 s."""
    every = str(2 * rate)
    return (
        *("-f", "lavfi", "-i", f"testsrc2=size=640x360:rate={rate}:duration={seconds}"),
        *("-f", "lavfi", "-i", f"sine=frequency=440:sample_rate=48000:duration={seconds}"),
        *("-filter_complex", "[0:v]split[top][more];[more]scale=320:180[low]"),
        *("-map", "[top]", "-map", "[low]", "-map", "1:a"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency"),
        *("-pix_fmt", "yuv420p", "-g", every, "-keyint_min", every, "-sc_threshold", "0"),
        *("-b:v:0", "600k", "-b:v:1", "150k", "-c:a", "aac", "-b:a", "96k"),
    )


def _laid_out(folder: Path, media: tuple[str, ...]) -> list[str]:
    """Return the muxer options for the service's layout."""
    return [
        *("-v", "error", "-nostdin", *media),
        *("-f", "hls", "-hls_time", "2", "-hls_list_size", "15"),
        *("-hls_segment_type", "fmp4", "-hls_fmp4_init_filename", "init.mp4"),
        *("-hls_flags", "independent_segments+delete_segments"),
        *("-hls_segment_filename", f"{folder}/%v/%d.m4s"),
        "-var_stream_map",
        "v:0,agroup:sound,name:360p v:1,agroup:sound,name:180p "
        "a:0,agroup:sound,name:audio,default:yes",
        *("-master_pl_name", "master.m3u8", f"{folder}/%v/index.m3u8"),
    ]
