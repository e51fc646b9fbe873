"""The command `python -m bench.uplink`: for how long a live encoder looks silent.

On each network an encoder sends 30 pictures a second, with sound, over one TCP connection. Printed
is how many gaps were at least as long as each limit: between two packets of media that were whole,
and between any bytes of them, which is what failover counts. The encoder never fails, so each gap
is a false alarm of a detection time that is as short. It must run as root, since it makes network
namespaces.
"""

import argparse
import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Final

import msgspec

from bench.uplink.link import FAR, NEAR, PORT, LinkFaults, open_link, relay

LIMITS: Final = (0.5, 0.7, 1.0, 2.0)
NETWORKS: Final = (
    LinkFaults(name="0.5 % lost", loss=0.005),
    LinkFaults(name="2 % lost", loss=0.02),
    LinkFaults(name="5 % lost", loss=0.05),
    LinkFaults(
        name="0.2 s without any, every 10 s", loss=0.002, outage_every=10, outage_seconds=0.2
    ),
    LinkFaults(
        name="0.4 s without any, every 15 s", loss=0.002, outage_every=15, outage_seconds=0.4
    ),
)
_RATE: Final = 2_000_000  # bits a second; at 5 % loss TCP carries little more
_PICTURES: Final = 30  # a second
_GOP: Final = 60
_KEYFRAME_WEIGHT: Final = 6  # times the mean size of a picture
_SOUND_BYTES: Final = 300
_SOUND_SECONDS: Final = 1024 / 48_000
_LENGTH: Final = struct.Struct(">I")


class Gaps(msgspec.Struct):
    """The lengths of the gaps on one network, in seconds."""

    whole: list[float] = []
    any_bytes: list[float] = []


def _send() -> None:
    """Send a stream until it is closed, in real time as far as the network carries it."""
    mean = _RATE / 8 / _PICTURES
    keyframe = bytes(round(mean * _KEYFRAME_WEIGHT))
    picture = bytes(round(mean * (_GOP - _KEYFRAME_WEIGHT) / (_GOP - 1)))
    sound = _LENGTH.pack(_SOUND_BYTES) + bytes(_SOUND_BYTES)
    with contextlib.suppress(ConnectionError), socket.create_connection((FAR, PORT)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        began, sounds = time.monotonic(), 0
        for number in range(1 << 31):
            time.sleep(max(0.0, began + number / _PICTURES - time.monotonic()))
            data = picture if number % _GOP else keyframe
            sock.sendall(_LENGTH.pack(len(data)) + data)
            while sounds * _SOUND_SECONDS < number / _PICTURES:
                sock.sendall(sound)
                sounds += 1


def _receive(sock: socket.socket, seconds: float) -> Gaps:
    gaps = Gaps()
    buffer = bytearray()
    now = arrived = completed = time.monotonic()
    ends = now + seconds
    while now < ends:
        buffer += sock.recv(1 << 18)
        now = time.monotonic()
        gaps.any_bytes.append(now - arrived)
        arrived = now
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                break
            del buffer[:end]
            if completed != now:
                gaps.whole.append(now - completed)
                completed = now
    return gaps


def _measure(network: LinkFaults, seconds: float) -> Gaps:
    """Measure one network, in a network namespace of its own."""
    device = open_link()
    with socket.create_server((NEAR, PORT)) as server:
        threading.Thread(target=relay, args=(device, network), daemon=True).start()
        threading.Thread(target=_send, daemon=True).start()
        connection, _ = server.accept()
        return _receive(connection, seconds)


def _row(name: str, gaps: list[float]) -> str:
    counts = " | ".join(str(sum(gap >= limit for gap in gaps)) for limit in LIMITS)
    return f"| {name} | {counts} | {max(gaps):.2f} s |"


def main() -> int:
    """Measure every network, all at the same time, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.uplink", description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--network", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.network is not None:
        gaps = _measure(NETWORKS[int(arguments.network)], arguments.seconds)
        sys.stdout.buffer.write(msgspec.json.encode(gaps))
        return 0
    command = ["unshare", "--net", sys.executable, "-m", "bench.uplink"]
    children = [
        subprocess.Popen(
            [*command, "--seconds", str(arguments.seconds), "--network", str(number)],
            stdout=subprocess.PIPE,
        )
        for number in range(len(NETWORKS))
    ]
    limits = " | ".join(f"{limit:g} s" for limit in LIMITS)
    print(f"| network | gaps between | {limits} | longest |\n{'| --- ' * (len(LIMITS) + 3)}|")
    for network, child in zip(NETWORKS, children, strict=True):
        gaps = msgspec.json.decode(child.communicate()[0], type=Gaps)
        print(_row(f"{network.name} | whole packets", gaps.whole))
        print(_row(f"{network.name} | bytes", gaps.any_bytes), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
