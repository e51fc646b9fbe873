"""Images pinned by their digests: real skopeo, asking a registry on this machine."""

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).parents[2] / "scripts" / "images.sh"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
NAMES = {"DEBIAN": "debian:12-slim", "POSTGRES": "postgres:15", "REDIS": "redis:7"}


def blob(document: object) -> bytes:
    return json.dumps(document).encode()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry(http.server.BaseHTTPRequestHandler):
    """Images for two machines each, as a registry has them: index, manifests, settings."""

    def do_GET(self) -> None:
        # /v2/library/IMAGE/manifests/TAG, or a digest instead of the tag
        image, kind, reference = (*self.path.split("/")[3:], "", "", "")[:3]
        if self.path == "/v2/":
            self._send(b"{}", "application/json")
        elif kind == "manifests" and reference.startswith("sha256:"):
            self._send(manifest(image, "amd64"), MANIFEST)
        elif kind == "manifests" and f"{image}:{reference}" in NAMES.values():
            self._send(index(image), INDEX)
        elif kind == "blobs":
            self._send(config(image, "amd64"), "application/octet-stream")
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Content-Digest", digest(data))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as inherited
        """Say nothing."""


def config(image: str, machine: str) -> bytes:
    layers = {"type": "layers", "diff_ids": [digest(image.encode())]}
    return blob({"architecture": machine, "os": "linux", "rootfs": layers, "config": {}})


def manifest(image: str, machine: str) -> bytes:
    data = config(image, machine)
    kind = "application/vnd.oci.image.config.v1+json"
    return blob({
        "schemaVersion": 2, "mediaType": MANIFEST, "layers": [],
        "config": {"mediaType": kind, "digest": digest(data), "size": len(data)},
    })  # fmt: skip


def index(image: str) -> bytes:
    machines = [
        {"mediaType": MANIFEST, "digest": digest(data), "size": len(data),
         "platform": {"architecture": machine, "os": "linux"}}
        for machine in ("amd64", "arm64")
        for data in [manifest(image, "amd64")]
    ]  # fmt: skip
    return blob({"schemaVersion": 2, "mediaType": INDEX, "manifests": machines})


@pytest.fixture
def registry() -> Generator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def pinned(folder: Path, port: int) -> subprocess.CompletedProcess[str]:
    """Run the script in a folder; docker.io is the registry at the port."""
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "deploy").mkdir(exist_ok=True)
    shutil.copy(SCRIPT, folder / "scripts")
    mirror = f"127.0.0.1:{port}"
    registries = folder / ".config" / "containers" / "registries.conf"
    registries.parent.mkdir(parents=True, exist_ok=True)
    registries.write_text(
        f'[[registry]]\nprefix = "docker.io"\nlocation = "{mirror}"\ninsecure = true\n'
    )
    programs = folder / "bin"  # without Docker, which would ask the real registry
    programs.mkdir(exist_ok=True)
    for name in ("dirname", "grep", "mv", "skopeo"):
        program = shutil.which(name)
        assert program is not None, f"{name} is missing: apt-get install {name}"
        if not (programs / name).exists():
            (programs / name).symlink_to(program)
    environment = {
        **os.environ, "PATH": str(programs), "HOME": str(folder)
    }  # fmt: skip
    return subprocess.run(
        [folder / "scripts" / SCRIPT.name],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_digests_of_all_machines_images_are_written_and_other_lines_stay(
    tmp_path: Path, registry: int
) -> None:
    file = tmp_path / "deploy" / ".env"
    file.parent.mkdir()
    file.write_text("POSTGRES_PASSWORD=a b$c\nREDIS_IMAGE=redis:6\n")
    expected = [
        f"{variable}_IMAGE=docker.io/library/{image}@{digest(index(image.partition(':')[0]))}"
        for variable, image in NAMES.items()
    ]
    for _ in range(2):
        done = pinned(tmp_path, registry)
        assert done.returncode == 0, done.stderr
        assert file.read_text().splitlines() == ["POSTGRES_PASSWORD=a b$c", *expected]
        assert file.stat().st_mode & 0o077 == 0
    file.unlink()
    assert pinned(tmp_path, registry).returncode == 0
    assert file.read_text().splitlines() == expected


def test_without_a_registry_nothing_is_written(tmp_path: Path) -> None:
    done = pinned(tmp_path, 9)  # nothing listens there
    assert done.returncode != 0
    assert not list((tmp_path / "deploy").iterdir())
