"""What texts name as the command of an installation."""

import os
import subprocess
import sys
from pathlib import Path

from headend.own_command import own_command, runnable
from tests.support.e2e.service import HEADEND
from tests.support.rooms import ROOT


def program(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "headend"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_what_a_shell_finds_is_named_as_it_is(tmp_path: Path) -> None:
    found = program(tmp_path / "bin")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "headend").symlink_to(found)
    for folder in (tmp_path / "bin", linked):
        assert own_command(str(found), f"/nowhere{os.pathsep}{folder}") == "headend"


def test_what_a_shell_does_not_find_is_named_by_its_file(tmp_path: Path) -> None:
    own, other = program(tmp_path / "the bin"), program(tmp_path / "other")
    for search in ("/nowhere", str(other.parent)):
        assert own_command(str(own), search) == f"'{own}'"
    relative = os.path.relpath(own)
    assert own_command(relative, "/nowhere").startswith("'/"), "it works from any folder"


def test_the_command_for_root_is_named_as_a_shell_finds_it(tmp_path: Path) -> None:
    own, roots = program(tmp_path / "opt"), program(tmp_path / "sbin")
    text = (ROOT / "deploy" / "system" / "headend").read_text()
    roots.write_text(text)  # of another program
    assert own_command(str(own), str(roots.parent)) == str(own)
    roots.write_text(text.replace("/opt/headend/bin/headend", str(own)))
    assert own_command(str(own), str(roots.parent)) == "headend"


def test_a_program_of_another_name_is_no_command(tmp_path: Path) -> None:
    assert own_command(str(tmp_path / "pytest"), "/nowhere") == "headend"
    assert runnable("run `headend migrate` in `headend-data`") == (
        "run `headend migrate` in `headend-data`"
    )


def test_a_refused_start_names_the_command_that_was_started(tmp_path: Path) -> None:
    done = subprocess.run(
        [HEADEND, "api", "--data", str(tmp_path / "none")],
        env={**os.environ, "PATH": "/usr/bin"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    command = Path(sys.executable).with_name("headend")
    assert f"run `{command} migrate` first" in done.stderr
