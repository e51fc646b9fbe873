"""Virtual machines on one switch, each with its own network stack, which can be cut off.

They are unnamed network namespaces, which the kernel removes once their processes have ended,
however the tests end. During `network()`, the calling thread is in the namespace of the switch, and
so are the programs and threads that it starts: the machines can reach servers there, and no other
process can.
"""

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HERE: Final = "10.98.7.1"  # of the switch, within our own namespaces
ALSO_HERE: Final = "10.98.7.2"  # for a server that machines can be kept from
_OTHERS: Final = "10.98.7.{}"
_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_OWN: Final = Path("/proc/thread-self/ns/net")
_ROOT: Final = "a test of machines that are cut off makes network namespaces: run it as root"
_MISSING: Final = "ip is missing: apt-get install iproute2"
# Answer ARP for the interface's own addresses only, so that a cut-off machine does not respond.
_DEAF: Final = Path("/proc/sys/net/ipv4/conf/all/arp_ignore")
_HARDWARE: Final = "02:00:00:00:00:01"  # otherwise the switch takes that of a machine


class NetworkHost:
    """A network stack with one address; `command` runs a program in it."""

    def __init__(self, number: int, namespace: int) -> None:
        self.address = _OTHERS.format(10 + number)
        self._port = f"m{number}"
        self._namespace = f"/proc/{os.getpid()}/fd/{namespace}"
        far = f"far{number}"
        _ip("link", "add", self._port, "type", "veth", "peer", "name", far)
        _ip("link", "set", far, "netns", self._namespace)
        _ip("link", "set", self._port, "master", "switch", "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("link", "set", far, "name", "eth0"),
            ("addr", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        ):
            subprocess.run([*self.command, "ip", *words], check=True)

    @property
    def command(self) -> tuple[str, ...]:
        """The prefix of a command that runs on this machine."""
        return ("nsenter", f"--net={self._namespace}", "--")

    @contextmanager
    def cut_off(self) -> Generator[None]:
        """Silently drop all its traffic for the length of the block."""
        _ip("link", "set", self._port, "nomaster")
        try:
            yield
        finally:
            _ip("link", "set", self._port, "master", "switch")

    @contextmanager
    def kept_from(self, address: str) -> Generator[None]:
        """Silently drop what it sends to an address for the length of the block."""
        self._route("add", address)
        try:
            yield
        finally:
            self._route("del", address)

    def _route(self, change: str, address: str) -> None:
        words = ("route", change, "blackhole", f"{address}/32")
        subprocess.run([*self.command, "ip", *words], check=True)


class VirtualSwitch:
    """A switch, and machines on it."""

    def __init__(self, namespaces: list[int]) -> None:
        self._namespaces = namespaces
        self._numbers = itertools.count(1)

    def machine(self) -> NetworkHost:
        """Add a machine."""
        self._namespaces.append(_new_namespace())
        return NetworkHost(next(self._numbers), self._namespaces[-1])


@contextmanager
def network() -> Generator[VirtualSwitch]:
    """Enter the namespace of a new switch for the length of the block.

    Existing threads stay in their namespace.
    """
    assert os.geteuid() == 0, _ROOT
    assert shutil.which("ip"), _MISSING
    assert shutil.which("nsenter"), "nsenter is missing: apt-get install util-linux"
    back = os.open(_OWN, os.O_RDONLY)
    namespaces: list[int] = []
    try:
        _call("unshare", _NEW_NETWORK)
        _ip("link", "set", "lo", "up")
        _DEAF.write_text("1")
        _ip("link", "add", "switch", "address", _HARDWARE, "type", "bridge")
        for address in (HERE, ALSO_HERE):
            _ip("addr", "add", f"{address}/24", "dev", "switch")
        _ip("link", "set", "switch", "up")
        yield VirtualSwitch(namespaces)
    finally:
        _call("setns", back, _NEW_NETWORK)
        for each in (back, *namespaces):
            os.close(each)


def _new_namespace() -> int:
    """Create a namespace, and return a descriptor that keeps it alive."""
    back = os.open(_OWN, os.O_RDONLY)
    try:
        _call("unshare", _NEW_NETWORK)
        namespace = os.open(_OWN, os.O_RDONLY)
        _call("setns", back, _NEW_NETWORK)
    finally:
        os.close(back)
    return namespace


def _call(name: str, *numbers: int) -> None:
    done = getattr(ctypes.CDLL(None, use_errno=True), name)(*numbers)
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
