"""Which concrete thing stands behind each port: the only place that names them together."""

import asyncio
import datetime
import shutil
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from api.addresses import Addresses
from api.app import create_app
from api.auth import is_owner
from api.embed import pages
from api.playback import playback_handler
from api.status import status_handlers
from headend.adapters import CatalogDirectory, CatalogJournal, EngineSinks
from headend.certificates import Certificates, ensure_local, load, tls_context
from headend.settings import Settings
from headend.sockets import bind, host_of, parse, public_base
from headend.telemetry import Telemetry
from headend.web import serving
from ingest.listener import listening
from storage.catalog import Catalog, open_catalog
from storage.catalog.records import FirstStart
from storage.edge.memory import MemoryEdge
from storage.errors import StorageError
from storage.objects.disk import DiskObjects
from storage.publication import Window
from transcode.live import LiveTranscoding

__all__ = ["DATABASE", "OWNER_TOKEN", "Doors", "Service", "Tls", "service"]

DATABASE: Final = "catalog.sqlite"
OWNER_TOKEN: Final = "owner.token"  # noqa: S105 # a file's name


def wall_us() -> int:
    """Return the wall clock in microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Doors(msgspec.Struct, frozen=True, kw_only=True):
    """The bound sockets; None where a door stays shut."""

    http: socket.socket
    rtmp: socket.socket | None
    rtmps: socket.socket | None

    def addresses(self, settings: Settings) -> Addresses:
        """Return the addresses that follow from settings and bound ports."""
        host = host_of(settings.http.public_url)
        http = public_base(
            settings.http.public_url, "http", settings.http.listen, _port(self.http), ""
        )
        rtmp = public_base(
            settings.rtmp.public_url, "rtmp", settings.rtmp.listen, _port(self.rtmp), host
        )
        rtmps = public_base(
            settings.rtmps.public_url, "rtmps", settings.rtmps.listen, _port(self.rtmps), host
        )
        return Addresses(
            http=http,
            playback=settings.http.playback_url.rstrip("/") or http,
            rtmp=rtmp,
            rtmps=rtmps,
            rtmp_backup=settings.rtmp.backup_public_url.rstrip("/") or rtmp,
            rtmps_backup=settings.rtmps.backup_public_url.rstrip("/") or rtmps,
        )


def _port(sock: socket.socket | None) -> int:
    return int(sock.getsockname()[1]) if sock is not None else 0


def _bind_all(settings: Settings, stack: AsyncExitStack) -> Doors:
    def door(listen: str) -> socket.socket | None:
        return stack.enter_context(bind(listen)) if listen else None

    return Doors(
        http=stack.enter_context(bind(settings.http.listen)),
        rtmp=door(settings.rtmp.listen),
        rtmps=door(settings.rtmps.listen),
    )


class Tls:
    """The certificate of RTMPS and its renewal."""

    def __init__(self, settings: Settings, folder: Path, names: frozenset[str]) -> None:
        self._own = settings.rtmps.certificate
        self._key = settings.rtmps.key or settings.rtmps.certificate
        self._folder = folder
        self._names = names
        certificate, key = self._files()
        self.context: ssl.SSLContext = tls_context(certificate, key)

    @property
    def authority(self) -> Path | None:
        """The certificate that encoders must trust, where it is one of ours."""
        return None if self._own else Certificates(self._folder).authority

    def reload(self) -> None:
        """Take the files as they are now; new connections get them.

        Raises:
            CertificateError: they cannot be used; the old ones stay.
        """
        certificate, key = self._files()
        load(self.context, certificate, key)

    def _files(self) -> tuple[Path, Path]:
        if self._own:
            return Path(self._own), Path(self._key)
        files = ensure_local(self._folder, self._names, datetime.datetime.now(datetime.UTC))
        return files.leaf, files.leaf_key


def _names(settings: Settings, addresses: Addresses) -> frozenset[str]:
    """Return every name that an encoder may know the RTMPS door by."""
    found = {"localhost", "127.0.0.1", "::1", socket.gethostname()}
    for url in (addresses.http, addresses.rtmp, addresses.rtmps, addresses.rtmps_backup):
        found.add(host_of(url))
    host = parse(settings.rtmps.listen)[0] if settings.rtmps.listen else ""
    return frozenset(found | {host}) - {"", "::", "0.0.0.0"}  # noqa: S104 # left out, not bound


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A running service, as its caller sees it."""

    addresses: Addresses
    first: FirstStart
    token_file: Path
    rtmp_port: int
    tls: Tls | None


@asynccontextmanager
async def service(settings: Settings) -> AsyncGenerator[Service, None]:
    """Run all roles in this process for the length of the block; leaving it drains."""
    folder = Path(settings.data)
    async with AsyncExitStack() as stack:
        doors = _bind_all(settings, stack)
        addresses = doors.addresses(settings)
        catalog = await stack.enter_async_context(open_catalog(folder / DATABASE, migrate=True))
        first = await catalog.first_start(wall_us())
        token_file = folder / OWNER_TOKEN
        if first.owner_token is not None:
            _keep_token(token_file, first.owner_token)
        await catalog.reset_live_states()
        tls = Tls(settings, folder / "tls", _names(settings, addresses)) if doors.rtmps else None
        objects = stack.enter_context(DiskObjects(folder / "objects"))
        edge = MemoryEdge()
        window = Window(listed=settings.live.listed_seconds, kept=settings.live.kept_seconds)
        transcoding = LiveTranscoding(objects=objects, edge=edge, window=window, wall_us=wall_us)
        chores = await stack.enter_async_context(asyncio.TaskGroup())
        left = [record.hash for record in await catalog.all_streams()]
        ending = chores.create_task(
            transcoding.end_abandoned(left, settings.live.reconnect_seconds)
        )
        stack.callback(ending.cancel)
        listener = await stack.enter_async_context(
            listening(
                limits=settings.limits,
                directory=CatalogDirectory(
                    catalog,
                    window=settings.live.reconnect_seconds,
                    goodbye=settings.live.goodbye_seconds,
                ),
                sinks=EngineSinks(transcoding),
                journal=CatalogJournal(catalog, wall_us),
                doors=_ingest_doors(doors, tls),
                drain_seconds=settings.drain_seconds,
            )
        )

        async def owner(authorization: str | None, hash_: str, /) -> bool:
            return await is_owner(catalog, authorization, hash_)

        app = create_app(
            catalog=catalog,
            addresses=addresses,
            broadcaster_key=first.broadcaster_key,
            version=version("headend"),
            handlers=[
                *pages(showcase=catalog, addresses=addresses, is_owner=owner),
                playback_handler(objects=objects, edge=edge, showcase=catalog, is_owner=owner),
                *status_handlers(
                    problems=_problems(catalog, folder, settings.storage.min_free_bytes),
                    figures=Telemetry(listener, transcoding).text,
                ),
            ],
        )
        await stack.enter_async_context(serving(app, doors.http))
        yield Service(
            addresses=addresses,
            first=first,
            token_file=token_file,
            rtmp_port=_port(doors.rtmp),
            tls=tls,
        )


def _ingest_doors(
    doors: Doors, tls: Tls | None
) -> list[tuple[socket.socket, ssl.SSLContext | None]]:
    found: list[tuple[socket.socket, ssl.SSLContext | None]] = []
    if doors.rtmp is not None:
        found.append((doors.rtmp, None))
    if doors.rtmps is not None and tls is not None:
        found.append((doors.rtmps, tls.context))
    return found


def _keep_token(path: Path, token: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(f"{token}\n")


def _problems(catalog: Catalog, folder: Path, least: int) -> Callable[[], Awaitable[list[str]]]:
    async def problems() -> list[str]:
        found: list[str] = []
        try:
            await catalog.ping()
        except StorageError as error:
            found.append(str(error))
        free = _free_bytes(folder)
        if free < least:
            found.append(f"free space is {free} bytes, storage.min_free_bytes is {least}")
        return found

    return problems


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free
