"""The compose file: every setting in it exists, and its hosts are those of the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from headend.config.settings import ServiceSettings, load

FILE = Path(__file__).parents[2] / "deploy" / "compose.yaml"
# What deploy/headend.env has, by the words of the file's head.
ENVIRONMENT = {
    "HEADEND_STORAGE__URL": "s3://bucket/headend",
    "HEADEND_STORAGE__ENDPOINT": "https://s3.example.org",
    "HEADEND_STORAGE__REGION": "eu-central-1",
    "HEADEND_DATABASE__URL": "postgresql://headend:PASSWORD@postgres/headend",
}
Service = Mapping[str, Any]  # Any: YAML


def services() -> dict[str, Service]:
    found = yaml.safe_load(FILE.read_text())  # pyright: ignore[reportUnknownMemberType]
    return cast("dict[str, dict[str, Service]]", found)["services"]


def headends() -> dict[str, Service]:
    return {name: each for name, each in services().items() if each["image"] == "headend"}


def settings_of(service: Service) -> ServiceSettings:
    """Return the settings that a container has; an unknown one is refused."""
    found, _ = load(file=None, environment={**ENVIRONMENT, **service["environment"]}, options={})
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
        if service["command"] == ["ingest"]:
            assert settings.hosts.name == name
            assert settings.hosts.relay_address == f"{name}:1937"
            assert settings.hosts.relay_listen.endswith(":1937")
        if name != "migrate":
            condition = service["depends_on"]["migrate"]["condition"]
            assert condition == "service_completed_successfully"
    assert {"postgres", "redis"} < services().keys()


def test_no_two_containers_publish_the_same_port() -> None:
    ports = [port.split(":")[0] for each in services().values() for port in each.get("ports", ())]
    assert len(set(ports)) == len(ports) == 6
