"""A role's process: refused starts with one sentence, and the end by a signal."""

import _thread
import asyncio
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from headend.config.settings import ServiceSettings
from headend.install.locks import writer_lock
from headend.install.media_store import OBJECTS
from headend.roles.wiring import API, INGEST, ROLES, SERVE, TRANSCODE, Role
from headend.run import StartError, run
from storage.lease_verdict import MediaLease
from storage.objects.addresses import LEASE
from tests.support.headend.installed import installed, settings_of


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    """Settings of a service on a data folder that is installed."""
    return asyncio.run(installed(tmp_path / "data"))


@pytest.mark.parametrize("role", [INGEST, API, TRANSCODE], ids=lambda role: role.name)
def test_a_role_that_installs_nothing_names_the_command(tmp_path: Path, role: Role) -> None:
    with pytest.raises(StartError, match="run `headend migrate` first"):
        run(role, settings_of(tmp_path / "data"))
    assert not (tmp_path / "data").exists()


def test_only_one_process_may_write(settings: ServiceSettings) -> None:
    with (
        writer_lock(Path(settings.data), "serve"),
        pytest.raises(StartError, match="another Headend is running"),
    ):
        run(INGEST, settings)


@pytest.mark.parametrize("role", ROLES.values(), ids=lambda role: role.name)
def test_a_role_does_not_take_an_empty_store_for_a_new_one(
    settings: ServiceSettings, role: Role
) -> None:
    objects = Path(settings.data) / OBJECTS
    shutil.rmtree(objects)
    objects.mkdir()
    with pytest.raises(StartError, match=r"has no media and no key, .* check that the disk is"):
        run(role, settings)
    assert list(objects.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"http__listen": "nowhere"}, "'nowhere' is not HOST:PORT"),
        ({"http__trusted_proxies": "nowhere"}, "nowhere"),
        ({"geo__database": "/none.mmdb"}, "/none.mmdb"),
    ],
)
def test_an_unusable_setting_is_refused_with_one_sentence(
    settings: ServiceSettings, changed: dict[str, str], words: str
) -> None:
    with pytest.raises(StartError) as refused:
        run(SERVE, settings_of(Path(settings.data), **changed))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_role_runs_until_a_signal_and_notifies_its_manager(
    settings: ServiceSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        def stop_once_ready() -> None:
            try:
                printed.append(manager.recv(1000))
            except TimeoutError:
                _thread.interrupt_main()  # end the role, which may have no handler of SIGTERM
            else:
                os.kill(os.getpid(), signal.SIGTERM)

        stopper = threading.Thread(target=stop_once_ready)
        stopper.start()
        run(TRANSCODE, settings)
        stopper.join()
        printed.append(manager.recv(1000))
    assert printed[0] == b"READY=1\nSTATUS=transcode"
    assert printed[1] == b"STOPPING=1"
    lease = msgspec.json.decode(Path(settings.data, OBJECTS, LEASE).read_bytes(), type=MediaLease)
    assert lease.released, "a database that is restored now need not wait"


def test_a_signal_ends_a_start_that_waits_for_the_lease(
    settings: ServiceSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    (Path(settings.data) / OBJECTS / LEASE).write_bytes(
        msgspec.json.encode(MediaLease(turn="another's", catalog="db", host="one"))
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        said: list[bytes] = []

        def stop_once_it_waits() -> None:
            said.append(manager.recv(1000))
            os.kill(os.getpid(), signal.SIGTERM)

        stopper = threading.Thread(target=stop_once_it_waits)
        stopper.start()
        run(TRANSCODE, settings)
        stopper.join()
    assert b"whether the database at db on one is in use" in said[0]
    assert caplog.messages[-1] == "stopped"
    assert "ready" not in caplog.messages
