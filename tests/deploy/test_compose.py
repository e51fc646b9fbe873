"""The compose file, as Compose reads it: its settings, hosts, addresses, secrets and images."""

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from api.http.client_address import TrustedProxies
from headend.config.settings import ServiceSettings, load

pytestmark = pytest.mark.real

FILE = Path(__file__).parents[2] / "deploy" / "compose.yaml"
DIGEST = "sha256:" + 64 * "0"
# What deploy/.env and deploy/headend.env have, by the words of the file's head.
COMPOSE_ENV = {
    "POSTGRES_PASSWORD": "database-password",
    "DEBIAN_IMAGE": f"debian:12-slim@{DIGEST}",
    "POSTGRES_IMAGE": f"postgres:15@{DIGEST}",
    "REDIS_IMAGE": f"redis:7@{DIGEST}",
}
HEADEND_ENV = {
    "HEADEND_STORAGE__URL": "s3://bucket/headend",
    "HEADEND_STORAGE__ENDPOINT": "https://s3.example.org",
    "HEADEND_STORAGE__REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "bucket-key",
    "AWS_SECRET_ACCESS_KEY": "bucket-secret",
}
OTHER = "10.201.80.7"  # another container
Service = Mapping[str, Any]  # Any: YAML


def compose(
    compose_env: Mapping[str, str], headend_env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Let Compose read the file with these variables, and print what it would start."""
    program = shutil.which("docker-compose")
    assert program is not None, "docker-compose is missing: apt-get install docker-compose"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "deploy"
        folder.mkdir()
        # Debian's Compose (1.29) does not know `name` yet.
        text = re.sub(r"^name: .*$", "", FILE.read_text(), flags=re.MULTILINE)
        (folder / FILE.name).write_text(text)
        for file, variables in ((".env", compose_env), ("headend.env", headend_env)):
            lines = (f"{name}={value}\n" for name, value in variables.items())
            (folder / file).write_text("".join(lines))
        return subprocess.run(
            [program, "--file", folder / FILE.name, "config"],
            cwd=name, capture_output=True, text=True, check=False,
            env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip


@functools.cache
def document() -> Mapping[str, Any]:
    done = compose(COMPOSE_ENV, HEADEND_ENV)
    assert done.returncode == 0, done.stderr
    return cast("Mapping[str, Any]", yaml.safe_load(done.stdout))  # pyright: ignore[reportUnknownMemberType]


def services() -> dict[str, Service]:
    return document()["services"]


def headends() -> dict[str, Service]:
    return {name: each for name, each in services().items() if each["image"] == "headend"}


def settings_of(service: Service) -> ServiceSettings:
    """Return the settings that a container has; an unknown one is refused."""
    found, _ = load(file=None, environment=service["environment"], options={})
    return found


def published() -> dict[str, list[tuple[str, str, str]]]:
    """Return the address, the port and the container's port of what each service publishes."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name, service in services().items():
        for port in service.get("ports", ()):
            if isinstance(port, str):
                address, outer, inner = port.removesuffix("/tcp").split(":")
            else:
                address, outer, inner = "", str(port["published"]), str(port["target"])
            found.setdefault(name, []).append((address, outer, inner))
    return found


def test_there_are_two_hosts_of_each_role_with_a_folder_of_their_own() -> None:
    roles = [each["command"][0] for each in headends().values()]
    assert sorted(roles) == ["api", "api", "ingest", "ingest", "migrate", "transcode", "transcode"]
    folders = [each["volumes"][0] for name, each in headends().items() if name != "migrate"]
    assert len(set(folders)) == len(folders) == 6
    assert headends()["migrate"]["volumes"][0] in folders


def test_all_settings_exist_and_name_the_engines_and_the_hosts() -> None:
    for name, service in headends().items():
        settings = settings_of(service)
        assert settings.redis.url == "redis://redis/0"
        assert settings.database.url == "postgresql://headend:database-password@postgres/headend"
        if service["command"] == ["ingest"]:
            assert settings.hosts.name == name
            assert settings.hosts.relay_address == f"{name}:1937"
            assert settings.hosts.relay_listen.endswith(":1937")
        if name != "migrate":
            condition = service["depends_on"]["migrate"]["condition"]
            assert condition == "service_completed_successfully"
    assert {"postgres", "redis"} < services().keys()


def test_no_two_containers_publish_the_same_port() -> None:
    ports = [outer for ports in published().values() for _, outer, _ in ports]
    assert len(set(ports)) == len(ports) == 6


def test_what_has_no_tls_is_published_to_this_machine_alone() -> None:
    for ports in published().values():
        for address, _, inner in ports:
            assert inner in {"1935", "1936", "8080"}
            assert address == ("127.0.0.1" if inner == "8080" else "")


def test_the_viewers_of_a_web_server_on_this_machine_are_told_apart() -> None:
    """Its requests come from the network's gateway, which no container has as its address."""
    (network,) = document()["networks"]["default"]["ipam"]["config"]
    for service in headends().values():
        assert settings_of(service).http.trusted_proxies == network["gateway"]
        trusted = TrustedProxies.parse(settings_of(service).http.trusted_proxies)
        forwarded = [(b"x-forwarded-for", b"203.0.113.9")]
        for peer, client in ((f"::ffff:{network['gateway']}", "203.0.113.9"), (OTHER, OTHER)):
            assert str(trusted.client_of(peer, forwarded)) == client


def test_each_container_gets_only_its_own_secrets() -> None:
    for name, service in services().items():
        words = str(service)
        is_headend = service["image"] == "headend"
        assert ("bucket-secret" in words) is is_headend, name
        assert ("bucket-key" in words) is is_headend, name
        assert ("database-password" in words) is (is_headend or name == "postgres"), name
    assert services()["postgres"]["environment"]["POSTGRES_PASSWORD"] == "database-password"


def test_images_are_named_by_their_digests() -> None:
    for name, service in services().items():
        if service["image"] != "headend":
            assert service["image"].endswith(f"@{DIGEST}"), name
    (build,) = [each["build"] for each in services().values() if "build" in each]
    assert build["args"] == {"DEBIAN_IMAGE": COMPOSE_ENV["DEBIAN_IMAGE"]}
    recipe = (FILE.parent / "Dockerfile").read_text()
    assert re.findall("^FROM (.*)$", recipe, re.MULTILINE) == [
        "${DEBIAN_IMAGE} AS build",
        "${DEBIAN_IMAGE}",
    ]
    arguments = re.findall("^ARG (.*)$", recipe, re.MULTILINE)
    assert arguments[0] == "DEBIAN_IMAGE"  # without a default
    assert [each.partition("=")[0] for each in arguments[1:]] == ["SOURCE_DATE_EPOCH"]
    assert re.findall("^USER (.*)$", recipe, re.MULTILINE) == ["headend"]


@pytest.mark.parametrize("missing", COMPOSE_ENV)
def test_without_a_digest_or_the_password_nothing_starts(missing: str) -> None:
    rest = {name: value for name, value in COMPOSE_ENV.items() if name != missing}
    done = compose(rest, HEADEND_ENV)
    assert done.returncode != 0
    assert ("deploy/.env" if missing == "POSTGRES_PASSWORD" else "make images") in done.stderr
