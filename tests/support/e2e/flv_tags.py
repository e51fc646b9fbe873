"""Edits FLV files tag by tag, to produce streams that no tool writes on purpose.

A tag's time is in milliseconds, 32 bits on the wire (Adobe Flash Video File Format 10.1, E.4.1).
"""

import socket
import struct
import subprocess
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.support.e2e.publishers import tool
from tests.support.e2e.service import SCALE

AUDIO, VIDEO = 8, 9
HEADER = b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"
_SEND_BYTES = 1 << 20


class Tag(msgspec.Struct, frozen=True):
    """One FLV tag."""

    kind: int
    time: int
    body: bytes

    @property
    def is_configuration(self) -> bool:
        """Return whether it is a decoder configuration of H.264 or AAC."""
        code = self.body[0] & 15 if self.kind == VIDEO else self.body[0] >> 4
        return (self.kind, code) in {(VIDEO, 7), (AUDIO, 10)} and self.body[1] == 0

    def written(self) -> bytes:
        """Return the tag as bytes, with the size that follows it."""
        size = len(self.body)
        stamp = self.time & 0xFFFF_FFFF
        head = struct.pack(">B", self.kind) + size.to_bytes(3, "big")
        head += (stamp & 0xFF_FFFF).to_bytes(3, "big") + bytes((stamp >> 24,)) + bytes(3)
        return head + self.body + (11 + size).to_bytes(4, "big")


def read(path: Path) -> list[Tag]:
    """Return the audio and video tags of a file in order."""
    data, offset, tags = path.read_bytes(), 13, list[Tag]()
    while offset + 11 <= len(data):
        size = int.from_bytes(data[offset + 1 : offset + 4], "big")
        stamp = int.from_bytes(data[offset + 4 : offset + 7], "big") | data[offset + 7] << 24
        if data[offset] in {AUDIO, VIDEO} and size:
            tags.append(Tag(data[offset], stamp, data[offset + 11 : offset + 11 + size]))
        offset += 15 + size
    return tags


def shifted(tags: Iterable[Tag], by: int) -> list[Tag]:
    """Return the tags shifted by so many milliseconds."""
    return [Tag(tag.kind, tag.time + by, tag.body) for tag in tags]


def joined(first: list[Tag], second: list[Tag], *, gap: int = 33) -> list[Tag]:
    """Concatenate two files on one timeline."""
    return first + shifted(second, max(tag.time for tag in first) + gap)


@contextmanager
def sending(tags: list[Tag], url: str) -> Generator[subprocess.Popen[bytes]]:
    """Send tags in real time through GStreamer's rtmp2sink, which does not change them.

    A time step of more than a second, in either direction, is sent without a pause.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    process = subprocess.Popen(
        [
            tool("gst-launch-1.0"), "-q", "fdsrc", f"fd={theirs.fileno()}",
            f"blocksize={_SEND_BYTES}", "!", "video/x-flv", "!", "rtmp2sink", f"location={url}",
        ],
        pass_fds=(theirs.fileno(),),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    theirs.close()
    over = threading.Event()

    def pace() -> None:
        with ours:
            try:
                ours.send(HEADER)
                due, last = time.monotonic(), tags[0].time
                for tag in tags:
                    step = tag.time - last
                    due += step / 1000 if 0 < step <= 1000 else 0
                    last = tag.time
                    if over.wait(max(0.0, due - time.monotonic())):
                        return
                    ours.send(tag.written())
            except (BrokenPipeError, ConnectionResetError):
                return

    thread = threading.Thread(target=pace, name="tags")
    thread.start()
    try:
        yield process
    finally:
        over.set()
        thread.join()
        try:
            process.communicate(timeout=10 * SCALE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
