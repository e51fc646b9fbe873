"""An installed data folder, and settings of a service on it with free loopback ports."""

from pathlib import Path

from headend.config.settings import ServiceSettings, load
from headend.install.installation import DATABASE, create_data_folder, install
from tests.support.sql import migrated

_FREE = "127.0.0.1:0"


def settings_of(folder: Path, **changed: str) -> ServiceSettings:
    """Return settings with free ports; `changed` overrides others, as in `status__listen=""`."""
    ports = ("http.listen", "rtmp.listen", "rtmps.listen", "status.listen", "ingest.status")
    # Every role publishes the addresses of the RTMP ports, which only an ingest knows.
    encoders = {f"{name}.public_url": f"{name}://in.example" for name in ("rtmp", "rtmps")}
    overrides = {name.replace("__", "."): value for name, value in changed.items()}
    options = {"data": str(folder), **dict.fromkeys(ports, _FREE), **encoders, **overrides}
    return load(file=None, environment={}, options=options)[0]


async def installed(folder: Path, **changed: str) -> ServiceSettings:
    """Install a data folder like `headend migrate`, and return settings of a service on it."""
    create_data_folder(folder)
    migrated(folder / DATABASE)
    await install(folder)
    return settings_of(folder, **changed)
