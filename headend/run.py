"""The service's life: start, say so, go on until told to stop, drain."""

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final, cast

import uvloop

from headend.certificates import CertificateError
from headend.settings import Settings
from headend.sockets import AddressError
from headend.systemd import keep_watchdog, notify
from headend.wiring import Service, service
from media.keys import Slot
from storage.errors import StorageError

__all__ = ["StartError", "serve"]

log = logging.getLogger(__name__)

_RENEW_SECONDS: Final = 24 * 3600.0


class StartError(Exception):
    """The service cannot start; the text is the sentence for its operator."""


def serve(settings: Settings, *, demo: bool = False) -> None:
    """Run the service until SIGTERM or SIGINT; the second such signal ends it at once.

    Raises:
        StartError: it could not start.
    """
    folder = Path(settings.data)
    with _alone(folder), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve(settings, demo=demo))
        except* (AddressError, CertificateError, StorageError, OSError) as error:
            raise StartError(_first(error)) from error


async def _serve(settings: Settings, *, demo: bool) -> None:
    stop = asyncio.Event()
    _catch_signals(stop)
    async with service(settings) as running, asyncio.TaskGroup() as tasks:
        chores = [tasks.create_task(_renew(running)), tasks.create_task(keep_watchdog())]
        print(_welcome(running), flush=True)  # noqa: T201 # the newcomer's instructions
        notify(f"READY=1\nSTATUS=serving at {running.addresses.http}")
        log.info("ready", extra={"http": running.addresses.http})
        async with _demo(running) if demo else contextlib.nullcontext():
            await stop.wait()
        notify("STOPPING=1")
        log.info("draining")
        for chore in chores:
            chore.cancel()
    log.info("stopped")


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


@contextmanager
def _alone(folder: Path) -> Generator[None, None, None]:
    """Hold the data folder: two services on one folder would write over each other's runs."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "serve.lock").open("w")
    except OSError as error:
        raise StartError(f"cannot use {folder} for data: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StartError(f"another Headend is running on {folder}") from error
        yield


@asynccontextmanager
async def _demo(running: Service) -> AsyncGenerator[None, None]:
    """Publish the test pattern to the first stream for the length of the block."""
    stream = running.first.stream
    if stream is None:
        raise StartError("the demo needs the stream of the first start, and it is gone")
    order = {
        "url": f"rtmp://localhost:{running.rtmp_port}/{Slot(0).application}/{stream.key.text}",
        "seconds": None,
        "size": [1280, 720],
        "fps": 30,
    }
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "transcode.engine.pattern", stdin=asyncio.subprocess.PIPE
    )
    try:
        if child.stdin is not None:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            await child.stdin.drain()
        yield
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


def _welcome(running: Service) -> str:
    """Return what a newcomer needs, in plain lines."""
    addresses = running.addresses
    lines = [f"Headend {version('headend')} is ready."]
    stream = running.first.stream
    if stream is not None:
        # Under systemd the output is the journal, and a key is nothing for a log.
        journal = "JOURNAL_STREAM" in os.environ
        key = "`headend streams` prints it" if journal else stream.key.text
        lines += [
            f"  Watch        {addresses.watch(stream.hash)}",
            '  In OBS       Settings > Stream > Service "Custom..."',
            f"    Server     {addresses.rtmp_ingest(Slot(0))}",
            f"    Stream Key {key}",
        ]
    if running.tls is not None:
        lines.append(f"  Over TLS     {addresses.rtmps_ingest(Slot(0))}")
        if running.tls.authority is not None:
            lines.append(f"    trust      {running.tls.authority}")
    lines.append(f"  API          {addresses.http}/schema")
    lines.append(f"  Owner token  {running.token_file}")
    return "\n".join(lines)


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    error = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", error))  # of what, is not told
    return str(error)
