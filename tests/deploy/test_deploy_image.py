"""What gets into the image: the program, and nothing else that lies in the sources."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rooms import ROOMS, ROOT

IGNORE = ROOT / ".dockerignore"
PROGRAM = (*ROOMS, "systemd", "deploy/system")
BESIDES = {
    "LICENSE", "NOTICE", "README.md", "pyproject.toml",
    "requirements/build.txt", "requirements/runtime.txt",
}  # fmt: skip
# What an installation that is run out of its sources leaves there, and what an editor may.
STRAY = (
    "owner.token", ".env", ".env.local", "headend.env", "id_rsa", "server.key", "backup.sqlite",
    ".git/config", ".git/objects/pack/x", ".venv/lib/secret.py", ".proofs/log",
    "data/owner.token", "data/catalog.sqlite", "data/tls/ca.key", "data/objects/x.m4s",
    "deploy/headend.env", "deploy/.env", "deploy/tls.key", "deploy/owner.token",
    "headend/owner.token", "headend/.env", "headend/install/ca.pem", "headend/data/owner.token",
    "api/static/owner.token", "api/static/headend.env", "api/console/templates/.x.html.swp",
    "media/__pycache__/ticks.cpython-311.pyc", "media/hls/server.key", "storage/catalog/x.sqlite",
    "transcode/.cache/key.pem", "systemd/headend.env", "systemd/headend.service.d.key",
    "scripts/token.env", "requirements/netrc.txt", "secrets/key.py", "other/api/x.py",
    "tests/e2e/owner.token", "web/node_modules/x/index.js", "web/src/watch.ts", "dist/headend.whl",
    "systemd/headend-prod.service", "requirements/runtime.txt.orig", "scripts/apt.sh~",
    "api/static/photo.jpg", "transcode/engine/codec/mine.cube", "api/console/templates/.x.html",
)  # fmt: skip
# The same in whichever of the program's folders.
EVERYWHERE = ("id_rsa", ".secret.py", ".#x.py")
WITHIN = (
    "id_ed25519", "credentials", "token", "core", "tls/key", "a b/id_rsa", "data/installation",
    "data/objects/sources/HASH/1", "data/x.py", "x.py~", "old.py/key", ".ssh/x.py",
)  # fmt: skip
# No name tells the last one from a module, but a link brings no content with it.
LINKS = {"api/files": "../data", "headend/owner": "../owner.token", "media/hls/all": "/etc"}
LINK_LIKE_A_MODULE = "api/owner.py"


def of_the_program() -> set[str]:
    """Return the files of the program, as an archive of the sources has them."""
    names = {
        path.relative_to(ROOT).as_posix()
        for folder in PROGRAM
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return names | BESIDES


def stray() -> set[str]:
    """Return what must not get into the image: it lies beside the program and among it."""
    folders = {Path(name).parent for name in of_the_program()}
    tops = {Path(folder.parts[0]) for folder in folders if folder.parts}
    return {
        *STRAY,
        *((folder / name).as_posix() for folder in folders for name in EVERYWHERE),
        *((folder / name).as_posix() for folder in tops for name in WITHIN),
    }


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The sources as an operator has them, with what must not get into the image."""
    folder = tmp_path / "sources"
    for name in (*of_the_program(), IGNORE.name, "deploy/Dockerfile", "tests/test_house.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    for name in stray():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    for name, target in {**LINKS, LINK_LIKE_A_MODULE: "../owner.token"}.items():
        (folder / name).symlink_to(target)
    return folder


def is_entry(path: Path) -> bool:
    """Say whether it is a file or a link, wherever the link leads."""
    return path.is_symlink() or path.is_file()


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if is_entry(path)}


def layer_of(sources: Path, folder: Path) -> Path:
    """Build the layer of `COPY . /` from the sources, and return its content."""
    program = shutil.which("buildah")
    assert program is not None, "buildah is missing: apt-get install buildah"
    recipe, layer = folder / "Containerfile", folder / "layer"
    recipe.write_text("FROM scratch\nCOPY . /\n")
    store = ("--storage-driver", "vfs", "--root", folder / "root", "--runroot", folder / "run")
    done = subprocess.run(
        [program, *store, "bud", "--isolation", "chroot", "--file", recipe,
         "--output", f"type=local,dest={layer}", sources],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return layer


@pytest.mark.real
def test_the_layer_has_the_program_and_nothing_else(sources: Path, tmp_path: Path) -> None:
    layer = layer_of(sources, tmp_path)
    assert files_below(layer) - {LINK_LIKE_A_MODULE} == of_the_program()
    assert not (layer / LINK_LIKE_A_MODULE).exists()  # it leads to what is not there
    started = subprocess.run(
        [sys.executable, "-P", "-c", "from headend.command import main; main()", "--help"],
        cwd=layer, env={"PYTHONPATH": str(layer)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    assert "doctor" in started.stdout


@pytest.mark.real
def test_without_the_list_the_secrets_would_be_in_the_layer(sources: Path, tmp_path: Path) -> None:
    (sources / IGNORE.name).unlink()
    assert stray() | set(LINKS) <= files_below(layer_of(sources, tmp_path))


# Docker's older builder, which Debian's docker.io still has, enters fewer folders; Docker's own
# library for Python chooses files by the same rule.
OLDER = """
import sys
from docker.utils.build import exclude_paths
lines = [line.strip() for line in open(".dockerignore")]
patterns = [line for line in lines if line and not line.startswith("#")]
print("\\n".join(exclude_paths(".", patterns, dockerfile="deploy/Dockerfile")))
"""


@pytest.mark.real
def test_dockers_older_builder_chooses_the_same(sources: Path) -> None:
    # Debian's Python has the library, which came with its Compose.
    done = subprocess.run(
        ["/usr/bin/python3", "-c", OLDER], cwd=sources, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    chosen = {name for name in done.stdout.splitlines() if is_entry(sources / name)}
    # It sends these two to the engine, which does not copy them.
    sent = {IGNORE.name, "deploy/Dockerfile"}
    assert chosen - {LINK_LIKE_A_MODULE} == of_the_program() | sent


def test_secrets_in_the_sources_are_no_part_of_them() -> None:
    secrets = [name for name in STRAY if name.endswith((".env", ".token", ".key", ".pem"))]
    assert len(secrets) > 15
    done = subprocess.run(
        ["git", "-c", f"core.excludesFile={ROOT / '.gitignore'}", "check-ignore", "--no-index",
         "--stdin"],
        cwd=ROOT, input="\n".join(secrets), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == set(secrets)
