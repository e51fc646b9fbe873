"""The service's life: start, say so, go on until told to stop, drain."""

import asyncio
import contextlib
import logging
import os
import signal
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import Final, cast

import uvloop

from api.http.client_address import BadNetwork
from api.origin.geo import GeoError
from headend.config.settings import Settings
from headend.config.sockets import AddressError
from headend.demo import DemoError, demonstrating, stamped
from headend.install.certificates import CertificateError
from headend.install.installation import catalog_place, install, make_folder
from headend.install.locks import FolderError, relying_on_form, writing
from headend.roles.wiring import Role, Service
from headend.systemd import keep_watchdog, notify
from headend.welcome import welcome
from storage.errors import CatalogUnavailable, StorageError
from transcode.sandbox.landlock import landlock_abi, landlock_text
from transcode.sandbox.rlimits import BoxError

__all__ = ["StartError", "run"]

log = logging.getLogger(__name__)

_RENEW_SECONDS: Final = 24 * 3600.0
# What keeps a service from starting, with a sentence for its operator.
_REFUSALS: Final = (
    AddressError,
    BadNetwork,
    CertificateError,
    DemoError,
    FolderError,
    GeoError,
    OSError,
    StorageError,
)


class StartError(Exception):
    """The service cannot start; the text is the sentence for its operator."""


def run(role: Role, settings: Settings, *, demo: float | None = None) -> None:
    """Run a role until SIGTERM or SIGINT; the second such signal ends it at once.

    `demo` has it shown by test pictures, whose primary is killed each so many seconds.

    Raises:
        StartError: it could not start.
    """
    folder = Path(settings.data)
    try:
        _look_at(folder, role, settings)
        with ExitStack() as locks:
            if role.writes:
                locks.enter_context(writing(folder, role.name))
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                if role.installs:
                    runner.run(install(folder, catalog_place(settings)))
                locks.enter_context(relying_on_form(folder))
                runner.run(_run(role, settings, demo=demo))
    except* _REFUSALS as error:
        raise StartError(_first(error)) from error


def _look_at(folder: Path, role: Role, settings: Settings) -> None:
    """See that the data folder is there, or make it where the role may."""
    place = catalog_place(settings)
    if role.installs:
        make_folder(folder)
    elif isinstance(place, Path) and not place.is_file():
        raise CatalogUnavailable(f"there is no catalog at {place}; run `headend migrate` first")


async def _run(role: Role, settings: Settings, *, demo: float | None) -> None:
    stop = asyncio.Event()
    _catch_signals(stop)
    async with role.service(settings) as running, asyncio.TaskGroup() as tasks:
        chores = [tasks.create_task(_renew(running)), tasks.create_task(keep_watchdog())]
        print(welcome(running, os.environ), flush=True)  # noqa: T201 # the newcomer's instructions
        where = running.status or running.addresses.http
        notify(f"READY=1\nSTATUS={role.name} at {where}")
        log.info("ready", extra={"role": role.name, "http": where})
        _tell_of_box()
        async with _shown(running, demo):
            await stop.wait()
        notify("STOPPING=1")
        log.info("draining")
        for chore in chores:
            chore.cancel()
    log.info("stopped")


def _tell_of_box() -> None:
    """Say once where engines can read more than they need to."""
    with contextlib.suppress(BoxError):  # the first engine will say it
        abi = landlock_abi()
        if not abi:
            log.warning("files not hidden", extra={"cause": landlock_text(abi)})


def _catch_signals(stop: asyncio.Event) -> None:
    def caught() -> None:
        if stop.is_set():
            # Engines die with their parent; what is on disk is whole at every moment.
            log.warning("stopped at once")
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, caught)


async def _renew(running: Service) -> None:
    """Take the certificate anew on SIGHUP and once a day."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
    while running.tls is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RENEW_SECONDS):
                await asked.wait()
        asked.clear()
        try:
            running.tls.reload()
            log.info("certificate loaded")
        except (CertificateError, OSError) as error:
            log.error("certificate not loaded", extra={"cause": str(error)})  # noqa: TRY400 # one line


def _shown(running: Service, demo: float | None) -> AbstractAsyncContextManager[None]:
    """Return what sends test pictures where that is wanted."""
    if demo is None:
        return contextlib.nullcontext()
    return demonstrating(running, demo, lambda text: print(stamped(text), flush=True))  # noqa: T201 # its purpose


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    error = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", error))  # of what, is not told
    return str(error)
