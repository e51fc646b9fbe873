"""The life cycle of a role's process: start, report readiness, run until a signal, drain."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Final, cast

import uvloop

from api.http.client_address import BadNetwork
from api.origin.geo import GeoError
from headend.config.listen_sockets import AddressError
from headend.config.settings import ServiceSettings
from headend.console_link import first_link
from headend.demo import DemoError, run_demo, stamped
from headend.install.catalog_wait import wait_for_catalog
from headend.install.certificates import CertificateError
from headend.install.installation import (
    catalog_location,
    create_data_folder,
    install,
    release_media,
)
from headend.install.locks import DataFolderError, schema_in_use, writer_lock
from headend.install.media_store import bucket_of
from headend.roles.wiring import Role, RunningService
from headend.security_log import security_log
from headend.supervision import BackgroundTask, run_in_background
from headend.systemd import keep_watchdog, notify
from headend.welcome import welcome
from storage.errors import CatalogUnavailable, StorageError
from transcode.sandbox.landlock import landlock_abi, landlock_text
from transcode.sandbox.rlimits import SandboxError

log = logging.getLogger(__name__)

_RENEW_SECONDS: Final = 24 * 3600.0
_RELEASE_SECONDS: Final = 2.0  # as long as a start beside it waits for its lock
# Errors that prevent a start; their messages are for the operator.
_REFUSALS: Final = (
    AddressError,
    BadNetwork,
    CertificateError,
    DemoError,
    DataFolderError,
    GeoError,
    OSError,
    StorageError,
)


class StartError(Exception):
    """The service cannot start; the message is for the operator."""


def run(
    role: Role, settings: ServiceSettings, *, demo: float | None = None, new_store: bool = False
) -> None:
    """Run a role until SIGTERM or SIGINT; a second such signal ends it immediately.

    `demo` runs the demo and kills its primary every so many seconds (0: never). `new_store`: the
    store of the media may be empty though the catalog has had one (only for a role that installs).

    Raises:
        StartError: the role could not start.
    """
    folder = Path(settings.data)
    refused: BaseExceptionGroup[BaseException] | None = None
    try:
        _check_folder(folder, role, settings)
        with ExitStack() as locks:
            if role.writes:
                locks.enter_context(writer_lock(folder, role.name))
            locks.enter_context(security_log(folder, role.name))
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                location = catalog_location(settings)
                runner.run(wait_for_catalog(location))
                if role.installs:
                    bucket = bucket_of(settings)
                    runner.run(install(folder, location, bucket, new_store=new_store))
                locks.enter_context(schema_in_use(folder))
                runner.run(_run(role, settings, demo=demo))
        if isinstance(location, Path):
            _release_media(folder, settings)
    except* _REFUSALS as errors:
        refused = errors  # raised below: Python 3.11.2 puts what is raised here into a group
    if refused is not None:
        raise StartError(_first_message(refused)) from refused


def _release_media(folder: Path, settings: ServiceSettings) -> None:
    """Let a restored database use the media at once, unless other processes still run."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_release_soon(folder, settings))
    except DataFolderError:
        pass  # others run: the last of them releases the media
    except (OSError, StorageError) as error:
        log.warning("media not released", extra={"cause": str(error) or "no answer"})


async def _release_soon(folder: Path, settings: ServiceSettings) -> None:
    async with asyncio.timeout(_RELEASE_SECONDS):
        await release_media(folder, bucket_of(settings))


def _check_folder(folder: Path, role: Role, settings: ServiceSettings) -> None:
    """Check that the data folder exists, or create it if the role may."""
    location = catalog_location(settings)
    if not role.installs and isinstance(location, Path) and not location.is_file():
        raise CatalogUnavailable(f"there is no catalog at {location}; run `headend migrate` first")
    create_data_folder(folder)


async def _run(role: Role, settings: ServiceSettings, *, demo: float | None) -> None:
    stop = asyncio.Event()
    start = asyncio.current_task()
    _catch_signals(stop, lambda: start and start.cancel())
    async with AsyncExitStack() as stack:
        try:
            running = await stack.enter_async_context(role.service(settings))
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
            log.info("stopped")
            return
        start = None
        background = run_in_background(
            BackgroundTask("certificate", partial(_renew, running)),
            BackgroundTask("watchdog", keep_watchdog),
        )
        await stack.enter_async_context(background)
        print(await _instructions(running), flush=True)  # noqa: T201 # its purpose
        # Without the API, HTTP is for health and metrics at most.
        where = running.addresses.http if running.token_file is not None else running.status
        notify(f"READY=1\nSTATUS={role.name}" + (f" at {where}" if where else ""))
        log.info("ready", extra={"role": role.name} | ({"http": where} if where else {}))
        _warn_without_landlock()
        async with _demo_context(running, demo):
            await stop.wait()
        notify("STOPPING=1")
        log.info("draining")
    log.info("stopped")


async def _instructions(running: RunningService) -> str:
    """Return what a newcomer needs; a terminal also gets what signs the first browser in."""
    terminal = sys.stdout.isatty()
    if not terminal or running.catalog is None:
        return welcome(running, terminal=terminal)
    now_us = running.catalog.clock.now_us()
    link = await first_link(running.catalog, running.addresses.http, now_us)
    return welcome(running, terminal=terminal, link=link)


def _warn_without_landlock() -> None:
    """Warn if engines cannot be prevented from reading files."""
    with contextlib.suppress(SandboxError):  # the first engine will report it
        abi = landlock_abi()
        if not abi:
            log.warning("files not hidden", extra={"cause": landlock_text(abi)})


def _catch_signals(stop: asyncio.Event, end_start: Callable[[], object]) -> None:
    """Set `stop` at the first signal, and end a start, which may wait for long."""

    def caught() -> None:
        if stop.is_set():
            # Engines end with their parent, and files on disk are complete at any moment.
            log.warning("stopped at once")
            os._exit(1)
        stop.set()
        end_start()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, caught)


async def _renew(running: RunningService) -> None:
    """Reload the certificate on SIGHUP and once a day."""
    requested = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, requested.set)
    while running.tls is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RENEW_SECONDS):
                await requested.wait()
        requested.clear()
        try:
            running.tls.reload()
            log.info("certificate loaded")
        except (CertificateError, OSError) as error:
            log.error("certificate not loaded", extra={"cause": str(error)})  # noqa: TRY400 # one line


def _demo_context(running: RunningService, demo: float | None) -> AbstractAsyncContextManager[None]:
    """Return the context of the demo, or an empty one."""
    if demo is None:
        return contextlib.nullcontext()
    return run_demo(running, demo, lambda text: print(stamped(text), flush=True))  # noqa: T201 # its purpose


def _first_message(group: BaseExceptionGroup[BaseException]) -> str:
    error = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first_message(
            cast("BaseExceptionGroup[BaseException]", error)
        )  # the type of its errors is unknown
    return str(error)
