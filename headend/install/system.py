"""Puts the services of an installed Headend in place, where no package manager does it.

What a package brings (`deploy/debian`), for a program that `pipx` or `pip` has installed: units,
the user of the services, the folders, the settings and the command for root. The files come along
with the program, in `share/headend` of its environment. Nothing is started, and a file of settings
that exists is left as it is; run again after an upgrade, it renews the rest.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

# What the files name as the program: where the Debian package has it.
_PACKAGED: Final = "/opt/headend/bin/headend"
_PACKAGED_UNIT: Final = Path("usr/lib/systemd/system/headend.service")
# The units hide these from the services (ProtectHome, PrivateTmp).
_HIDDEN: Final = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))  # noqa: S108  # names only
_USER: Final = "headend"
SETTINGS: Final = Path("etc/headend/headend.toml")
DATA: Final = Path("var/lib/headend")
_UNITS: Final = Path("etc/systemd/system")
_USERS: Final = Path("etc/sysusers.d/headend.conf")
_SECONDS: Final = 60.0  # for each command of systemd


class SystemInstallError(Exception):
    """The services cannot be put in place; the message says why."""


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """A file to write: its place below the root, its text and its mode."""

    place: Path
    text: str
    mode: int = 0o644


def shared_files(prefix: Path = Path(sys.prefix)) -> Path:
    """Return the folder with the files that come along with the program.

    Raises:
        SystemInstallError: they did not, as with a checkout's own environment.
    """
    folder = prefix / "share" / "headend"
    if not (folder / "systemd" / "headend.service").is_file():
        raise SystemInstallError(
            f"{folder} has no units: install Headend from its wheel, as with `pipx install`"
        )
    return folder


def require_visible(places: Iterable[Path]) -> None:
    """Refuse a program that services cannot see, or that is a package's.

    Raises:
        SystemInstallError: it is in a folder that the units hide.
    """
    for place in places:
        for hidden in _HIDDEN:
            if place.resolve().is_relative_to(hidden):
                raise SystemInstallError(
                    f"{place} is hidden from services, as all of {hidden} is: install Headend"
                    " elsewhere, as with PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin pipx"
                    " install ..."
                )


def install_system(root: Path, shared: Path, program: Path) -> tuple[Path, ...]:
    """Write all files below `root` ("/" but in tests), and return them; `program` is `headend`.

    Raises:
        SystemInstallError: a package has done it, or a file cannot be written.
    """
    if (root / _PACKAGED_UNIT).exists():
        raise SystemInstallError("a package has put the services in place: use its own upgrades")
    try:
        written = tuple(_write(root, each) for each in _files(shared, program))
        settings = root / SETTINGS
        if not settings.exists():
            _make_folder(settings.parent, 0o750)
            text = (shared / "system" / "headend.toml").read_text()
            written += (_write(root, _File(place=SETTINGS, text=text, mode=0o640)),)
    except OSError as error:
        raise SystemInstallError(f"{error.filename}: {error.strerror}") from error
    return written


def _files(shared: Path, program: Path) -> list[_File]:
    files = [
        _File(place=_UNITS / unit.name, text=_naming(unit, program))
        for unit in sorted((shared / "systemd").iterdir())
    ]
    ours = shared / "system"
    command = _naming(ours / "headend", program)
    return [
        *files,
        _File(place=_USERS, text=(ours / "sysusers.conf").read_text()),
        _File(place=Path("usr/local/sbin/headend"), text=command, mode=0o755),
    ]


def _naming(file: Path, program: Path) -> str:
    return file.read_text().replace(_PACKAGED, str(program))


def _make_folder(path: Path, mode: int) -> None:
    """Create a folder and those above it; the command's own umask would hide them from services."""
    if not path.is_dir():
        if path.parent != path:
            _make_folder(path.parent, 0o755)
        path.mkdir()
        path.chmod(mode)


def _write(root: Path, file: _File) -> Path:
    path = root / file.place
    _make_folder(path.parent, 0o755)
    new = path.with_name(f"{path.name}.new")
    new.write_text(file.text)
    new.chmod(file.mode)
    new.replace(path)
    return path


def make_user_and_folders() -> None:
    """Create the user and the data folder, give it the settings to read, and reload systemd.

    Raises:
        SystemInstallError: a command of systemd failed or is missing.
    """
    root = Path("/")
    _run("systemd-sysusers", str(root / _USERS))
    data = root / DATA
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.chown(data, _USER, _USER)
        for path in (root / SETTINGS, (root / SETTINGS).parent):
            shutil.chown(path, group=_USER)
    except OSError as error:
        raise SystemInstallError(f"{error.filename}: {error.strerror}") from error
    if Path("/run/systemd/system").is_dir():  # systemd is running
        _run("systemctl", "daemon-reload")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, timeout=_SECONDS)  # noqa: S603  # ours, as constants
    except (OSError, subprocess.SubprocessError) as error:
        raise SystemInstallError(f"{command[0]}: {error}") from error
