"""A network that delays and loses packets, for one TCP connection of this network namespace.

A packet to `FAR` leaves through a TUN device and comes back with its two addresses exchanged, so
that both ends of the connection are sockets of this process. Checksums stay right: they are sums in
which the order of the addresses does not matter.
"""

import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import time
from collections.abc import Iterator
from math import inf
from typing import Final

import msgspec

NEAR: Final = "10.9.0.1"
FAR: Final = "10.9.0.2"
PORT: Final = 5000

_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
_DELAY_SECONDS: Final = 0.020  # each way
_JITTER_SECONDS: Final = 0.005
_POLL_SECONDS: Final = 0.05
_PACKET_BYTES: Final = 2000


class LinkFaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a network does to packets besides delaying them by 20 to 25 ms.

    `loss` is the probability with which each is lost. About every `outage_every` seconds (0: never)
    all are lost, for between half and one and a half times `outage_seconds`.
    """

    name: str
    loss: float
    outage_every: float = 0.0
    outage_seconds: float = 0.0


def open_link() -> int:
    """Return the descriptor of a TUN device at `NEAR`, in a network namespace without any other."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", b"uplink", _IFF_TUN | _IFF_NO_PI))
    for line in (f"addr add {NEAR}/24 dev uplink", "link set uplink up mtu 1500", "link set lo up"):
        subprocess.run(["ip", *line.split()], check=True)
    return device


def _outages(network: LinkFaults, dice: random.Random, now: float) -> Iterator[tuple[float, float]]:
    """Yield when each outage begins and ends."""
    while network.outage_every:
        begins = now + dice.expovariate(1 / network.outage_every)
        now = begins + dice.uniform(0.5, 1.5) * network.outage_seconds
        yield begins, now
    yield inf, inf


def relay(device: int, network: LinkFaults) -> None:
    """Carry packets for ever."""
    dice = random.Random(network.name)
    waiting: list[tuple[float, int, bytes]] = []
    numbers = itertools.count()
    newest: dict[bytes, float] = {}  # by destination: packets keep their order
    outages = _outages(network, dice, time.monotonic())
    begins, ends = next(outages)
    while True:
        now = time.monotonic()
        patience = waiting[0][0] - now if waiting else _POLL_SECONDS
        if select.select([device], [], [], max(0.0, patience))[0]:
            packet = os.read(device, _PACKET_BYTES)
            now = time.monotonic()
            while now >= ends:
                begins, ends = next(outages)
            if packet[0] >> 4 == 4 and now < begins and dice.random() >= network.loss:
                to, ports = packet[16:20], packet[20:24]
                arrives = now + _DELAY_SECONDS + dice.uniform(0, _JITTER_SECONDS)
                newest[ports] = arrives = max(newest.get(ports, 0.0), arrives)
                packet = packet[:12] + to + packet[12:16] + packet[20:]
                heapq.heappush(waiting, (arrives, next(numbers), packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            os.write(device, heapq.heappop(waiting)[2])
