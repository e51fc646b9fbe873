"""Services that `headend install --system` puts in place, below a root of the test's own."""

import os
from pathlib import Path

import pytest

from headend.install.system import (
    SystemInstallError,
    install_system,
    require_visible,
    shared_files,
)
from tests.support.rooms import ROOT

PROGRAM = Path("/opt/pipx/venvs/headend/bin/headend")
UNITS = sorted(path.name for path in (ROOT / "systemd").iterdir())


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """What the wheel puts into an environment."""
    folder = tmp_path / "prefix" / "share" / "headend"
    folder.mkdir(parents=True)
    (folder / "systemd").symlink_to(ROOT / "systemd")
    (folder / "system").symlink_to(ROOT / "deploy" / "system")
    return shared_files(tmp_path / "prefix")


def test_each_file_names_the_program_that_was_installed(shared: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    before = os.umask(0o077)  # the command's own, for what it writes to the data folder
    try:
        written = install_system(root, shared, PROGRAM)
    finally:
        os.umask(before)
    units = root / "etc/systemd/system"
    assert sorted(each.name for each in units.iterdir()) == UNITS
    command = root / "usr/local/sbin/headend"
    assert {*units.iterdir(), command} < set(written)
    texts = {path.name: path.read_text() for path in written}
    assert not any("/opt/headend/" in text for text in texts.values())
    assert f"ExecStart={PROGRAM} serve" in texts["headend.service"]
    assert f"program={PROGRAM}\n" in command.read_text()
    assert command.stat().st_mode & 0o777 == 0o755
    settings = root / "etc/headend/headend.toml"
    assert settings.stat().st_mode & 0o777 == 0o640, "it may have a password"
    assert settings.parent.stat().st_mode & 0o777 == 0o750
    assert units.stat().st_mode & 0o777 == 0o755


def test_an_upgrade_renews_the_units_and_leaves_the_settings(shared: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    install_system(root, shared, PROGRAM)
    settings, unit = root / "etc/headend/headend.toml", root / "etc/systemd/system/headend.service"
    settings.write_text("[http]\n")
    unit.write_text("[Unit]\n")
    written = install_system(root, shared, PROGRAM)
    assert settings not in written
    assert settings.read_text() == "[http]\n"
    assert "ExecStart=" in unit.read_text()


def test_it_does_not_shadow_the_units_of_a_package(shared: Path, tmp_path: Path) -> None:
    packaged = tmp_path / "root/usr/lib/systemd/system/headend.service"
    packaged.parent.mkdir(parents=True)
    packaged.touch()
    with pytest.raises(SystemInstallError, match="a package has put the services in place"):
        install_system(tmp_path / "root", shared, PROGRAM)
    assert not (tmp_path / "root" / "etc").exists()


def test_a_file_that_cannot_be_written_is_named(shared: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "etc").write_text("")
    with pytest.raises(SystemInstallError, match=r"/etc.*: (Not a directory|File exists)"):
        install_system(root, shared, PROGRAM)


@pytest.mark.parametrize("place", [Path("/home") / "a", Path("/run/user/1/x"), Path("/tmp/x")])
def test_a_program_that_services_cannot_see_is_refused(place: Path) -> None:
    with pytest.raises(SystemInstallError, match="is hidden from services"):
        require_visible([PROGRAM, place])


def test_a_program_elsewhere_is_not() -> None:
    require_visible([PROGRAM, Path("/opt/headend/bin/headend"), Path("/usr/lib/headend")])


def test_an_environment_without_units_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemInstallError, match="has no units: install Headend from its wheel"):
        shared_files(tmp_path)
