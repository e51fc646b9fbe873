"""The pyrtmp peer: what it can do, and the limits that keep it from the comparison.

The first test proves that the peer runs. Each of the others passes while pyrtmp fails at one thing
that a real encoder does, and fails with a pointer to the decision once a newer pyrtmp does it.
The peer lives in its own process and environment (`bench/pyrtmp/`).
"""

import contextlib
import json
import queue
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = pytest.mark.prove

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "bench" / "pyrtmp"
DEADLINE: Final = 20.0  # seconds; only a peer or a client that hangs reaches it
Facts = dict[str, Any]  # one line of the peer: JSON of its own making


class Peer:
    """A running pyrtmp: where it listens, and its output so far."""

    def __init__(self, process: subprocess.Popen[str], host: str) -> None:
        self.process = process
        self.host = host
        self._lines: queue.SimpleQueue[Facts] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.port = int(self.wait("listening")["port"])

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"rtmp://{host}:{self.port}/live/key"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def hears(self, event: str, seconds: float) -> Facts | None:
        """Return the first such event within so many seconds; earlier events are skipped."""
        until = time.monotonic() + seconds
        with contextlib.suppress(queue.Empty):
            while True:
                facts = self._lines.get(timeout=max(0.0, until - time.monotonic()))
                if facts["event"] == event:
                    return facts
        return None

    def wait(self, event: str) -> Facts:
        facts = self.hears(event, DEADLINE)
        assert facts is not None, f"the peer never said {event}"
        return facts

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)


@pytest.fixture(scope="module")
def python() -> Path:
    """The peer's own interpreter; made at the first run."""
    folder = FOLDER / ".venv"
    make = [ROOT / "scripts" / "environment.sh", folder, FOLDER / "requirements.txt"]
    subprocess.run(make, check=True, cwd=ROOT)
    return folder / "bin" / "python"


@contextlib.contextmanager
def serving(python: Path, host: str = "127.0.0.1") -> Generator[Peer]:
    with subprocess.Popen(
        [python, FOLDER / "server.py", host],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it logs each message
        text=True,
    ) as process:
        peer = Peer(process, host)
        try:
            yield peer
        finally:
            peer.end()


@contextlib.contextmanager
def ffmpeg(peer: Peer, *options: str) -> Generator[subprocess.Popen[bytes]]:
    """Publish 25 frames with sound as fast as possible; killed when the block ends."""
    with subprocess.Popen(
        [
            *("ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "error"),
            *("-f", "lavfi", "-i", "testsrc=size=160x90:rate=25"),
            *("-f", "lavfi", "-i", "sine"),
            *("-frames:v", "25", "-c:v", "libx264", "-preset", "ultrafast", "-bf", "0"),
            *("-c:a", "aac", "-shortest", *options, "-f", "flv", peer.url),
        ],
        stderr=subprocess.DEVNULL,
    ) as encoder:
        try:
            yield encoder
        finally:
            encoder.kill()


def reopen(what: str) -> str:
    return f"pyrtmp now {what}: reopen docs/decisions/0001-own-rtmp-core.md"


# A hand-made publisher, for what no encoder can be told to send. RTMP 1.0, sections 5.2 to 5.4;
# AMF0, section 2.


def text(value: str) -> bytes:
    return b"\x02" + struct.pack(">H", len(value)) + value.encode()


def number(value: float) -> bytes:
    return b"\x00" + struct.pack(">d", value)


def chunked(kind: int, body: bytes, *, stream: int = 0, size: int = 128) -> bytes:
    """One message on chunk stream 4: a type-0 header, then type-3 headers."""
    header = struct.pack(">B3x", 4) + len(body).to_bytes(3) + bytes([kind])
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    return header + struct.pack("<I", stream) + b"\xc4".join(pieces)


def connect(properties: bytes = b"") -> bytes:
    body = b"\x03\x00\x03app" + text("live") + properties + b"\x00\x00\x09"
    return chunked(20, text("connect") + number(1) + body)


CREATE: Final = chunked(20, text("createStream") + number(2) + b"\x05")
PUBLISH: Final = chunked(
    20,
    text("publish") + number(3) + b"\x05" + text("key") + text("live"),
    stream=1,
)
PICTURE: Final = chunked(9, b"\x17\x01\x00\x00\x00" + bytes(20), stream=1)


def publish_by_hand(peer: Peer, *messages: bytes, properties: bytes = b"") -> Facts:
    """Publish these chunks; return what the peer counted once the connection was over.

    `properties` go into the object of the connect command.
    """
    with socket.create_connection((peer.host, peer.port), timeout=DEADLINE) as link:
        link.sendall(b"\x03" + bytes(1536))
        with link.makefile("rb") as answers:
            assert len(answers.read(3073)) == 3073
            # The peer may be gone before it has read all; what it counted is the question.
            with contextlib.suppress(ConnectionError):
                link.sendall(bytes(1536) + connect(properties) + CREATE + PUBLISH)
                link.sendall(b"".join(messages))
                link.shutdown(socket.SHUT_WR)
            return peer.wait("closed")


def test_it_takes_plain_ffmpeg_frame_for_frame(python: Path) -> None:
    with serving(python) as peer, ffmpeg(peer) as encoder:
        assert encoder.wait(DEADLINE) == 0
        # The decoder configuration and the end of sequence are video messages too.
        assert peer.wait("closed")["frames"] == 25 + 2


def test_it_takes_the_hand_made_publisher(python: Path) -> None:
    sound = chunked(8, b"\xaf\x01\x00", stream=1)
    with serving(python) as peer:
        counted = publish_by_hand(peer, PICTURE, sound, PICTURE)
    assert (counted["frames"], counted["audio"]) == (2, 1)


def test_gstreamer_rtmp2sink_never_gets_to_publish(python: Path) -> None:
    with serving(python) as peer:
        pipeline = (
            "videotestsrc num-buffers=25 ! video/x-raw,width=160,height=90 "
            "! x264enc tune=zerolatency ! flvmux streamable=true ! rtmp2sink location="
        )
        with subprocess.Popen(
            ["gst-launch-1.0", "-q", *pipeline.split()[:-1], f"location={peer.url}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as client:
            try:
                peer.wait("connect")
                # A server that answers properly gets the first frame within 0.1 s.
                assert peer.hears("frame", 3) is None, reopen("works with rtmp2sink")
            finally:
                client.kill()


def test_a_list_of_codecs_in_connect_is_cut_off(python: Path) -> None:
    # As ffmpeg sends it with -rtmp_enhanced_codecs, and HaishinKit always: a strict array.
    codecs = b"\x00\x0afourCcList\x0a" + struct.pack(">I", 2) + text("hvc1") + text("av01")
    with serving(python) as peer:
        counted = publish_by_hand(peer, PICTURE, properties=codecs)
    assert counted["frames"] == 0, reopen("takes fourCcList in connect")
    assert counted["error"]


def test_a_client_over_ipv6_is_cut_off(python: Path) -> None:
    # An older asyncio (Python 3.11.2) keeps the socket open, and the encoder waiting.
    with serving(python, "::1") as peer, ffmpeg(peer):
        counted = peer.wait("closed")
    assert counted["frames"] == 0, reopen("serves IPv6")
    assert "unpack" in counted["error"]


def test_timestamps_past_24_bits_lose_the_connection(python: Path) -> None:
    # The pictures must be larger than a chunk: what follows the first chunk goes wrong.
    large = ("-output_ts_offset", "20000", "-s", "640x360", "-qp", "0", "-g", "1")
    with serving(python) as peer, ffmpeg(peer, *large) as encoder:
        assert encoder.wait(DEADLINE) != 0, reopen("reads extended timestamps")
        counted = peer.wait("closed")
    assert counted["frames"] < 25, reopen("reads extended timestamps")
    assert counted["error"]


def test_a_zero_length_audio_message_loses_the_connection(python: Path) -> None:
    silence = chunked(8, b"", stream=1)
    with serving(python) as peer:
        counted = publish_by_hand(peer, PICTURE, silence, PICTURE)
    assert counted["frames"] == 1, reopen("takes an empty audio message")
    assert counted["error"]


def test_one_byte_chunks_cost_it_seconds_per_megabyte(python: Path) -> None:
    size = 30_000  # bytes; 9,900 ms of CPU per MB and more were measured, 129 of our own core
    tiny = chunked(1, struct.pack(">I", 1))  # Set Chunk Size
    with serving(python) as peer:
        before = publish_by_hand(peer, PICTURE)["cpu_ms"]
    with serving(python) as peer:
        sound = chunked(8, b"\xaf\x01" + bytes(size - 2), stream=1, size=1)
        after = publish_by_hand(peer, tiny, sound)["cpu_ms"]
    per_megabyte = (after - before) * 1_000_000 / size
    assert per_megabyte > 1_500, reopen(f"reads 1-byte chunks at {per_megabyte:.0f} ms per MB")
