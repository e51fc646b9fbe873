"""What the benchmarks share: programs, Node packages, ports, and how they end."""

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


class ToolMissing(Exception):
    """A tool is not installed; the message says how to install it."""


def tool(name: str, package: str) -> str:
    """Return a program's path.

    Raises:
        ToolMissing: it is not installed.
    """
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise ToolMissing(f"{name} is missing: apt-get install {package}")
    return path


def install(folder: Path) -> Path:
    """Install the locked packages of a folder, and return the folder that contains them.

    Raises:
        ToolMissing: Node is not installed.
    """
    tool("node", "nodejs")
    npm = tool("npm", "npm")
    lock = (folder / "package-lock.json").read_text()
    stamp = folder / "node_modules" / ".filled"
    if not stamp.exists() or stamp.read_text() != lock:
        subprocess.run([npm, "ci", "--silent"], cwd=folder, check=True, timeout=300)
        stamp.write_text(lock)
    return stamp.parent


def wait_for_port(port: int, process: subprocess.Popen[str], seconds: float) -> bool:
    """Return whether a process accepts connections on a port of 127.0.0.1 within some seconds."""
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False


def verdict(missed: Sequence[str], otherwise: str) -> int:
    """Print the targets that were missed, `otherwise` if none was; return the exit status."""
    print("\n" + ("\n".join(missed) or otherwise))
    return 1 if missed else 0
