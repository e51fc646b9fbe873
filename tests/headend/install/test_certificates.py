import datetime
import socket
import ssl
import threading
from pathlib import Path

import pytest

from headend.install.certificates import (
    CertificateError,
    CertificateFiles,
    ensure_local_certificates,
    load,
    tls_context,
)

NOW = datetime.datetime.now(datetime.UTC)
NAMES = ("localhost", "127.0.0.1", "::1")


def served_by(context: ssl.SSLContext, authority: Path, name: str) -> bytes:
    """Return the certificate a client that trusts only `authority` is shown."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with context.wrap_socket(ours, server_side=True) as served:
            served.recv(1)

    thread = threading.Thread(target=answer)
    thread.start()
    client = ssl.create_default_context(cafile=str(authority))
    with client.wrap_socket(theirs, server_hostname=name) as secure:
        shown = secure.getpeercert(binary_form=True)
        secure.send(b"x")
    thread.join()
    ours.close()
    assert shown is not None
    return shown


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_authority_accepts_every_name(tmp_path: Path, name: str) -> None:
    files = ensure_local_certificates(tmp_path / "tls", NAMES, NOW)
    assert served_by(tls_context(files.leaf, files.leaf_key), files.authority, name)


def test_a_second_start_keeps_everything(tmp_path: Path) -> None:
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    before = [path.read_bytes() for path in (files.authority, files.leaf, files.leaf_key)]
    ensure_local_certificates(tmp_path, reversed(NAMES), NOW)
    assert [path.read_bytes() for path in (files.authority, files.leaf, files.leaf_key)] == before


@pytest.mark.parametrize(
    ("names", "later"),
    [
        pytest.param((*NAMES, "tv.example.org"), 0, id="another name"),
        pytest.param(NAMES, 790, id="soon over"),
    ],
)
def test_the_leaf_is_renewed_under_the_same_authority(
    tmp_path: Path, names: tuple[str, ...], later: int
) -> None:
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    authority, leaf = files.authority.read_bytes(), files.leaf.read_bytes()
    ensure_local_certificates(tmp_path, names, NOW + datetime.timedelta(days=later))
    assert files.authority.read_bytes() == authority
    assert files.leaf.read_bytes() != leaf


def test_private_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    assert {path.stat().st_mode & 0o777 for path in (files.authority_key, files.leaf_key)} == {
        0o600
    }


def test_a_loaded_context_shows_the_new_certificate(tmp_path: Path) -> None:
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    context = tls_context(files.leaf, files.leaf_key)
    first = served_by(context, files.authority, "localhost")
    ensure_local_certificates(tmp_path, (*NAMES, "tv.example.org"), NOW)
    load(context, files.leaf, files.leaf_key)
    assert served_by(context, files.authority, "localhost") != first


def test_files_that_do_not_fit_are_refused_and_the_old_ones_stay(tmp_path: Path) -> None:
    files = ensure_local_certificates(tmp_path / "one", NAMES, NOW)
    other = ensure_local_certificates(tmp_path / "two", NAMES, NOW)
    context = tls_context(files.leaf, files.leaf_key)
    first = served_by(context, files.authority, "localhost")
    with pytest.raises(CertificateError, match=r"rtmps\.pem"):
        load(context, other.leaf, files.leaf_key)
    with pytest.raises(CertificateError, match=r"none\.pem"):
        load(context, tmp_path / "none.pem", files.leaf_key)
    assert served_by(context, files.authority, "localhost") == first


def test_the_names_of_the_files_are_told(tmp_path: Path) -> None:
    assert CertificateFiles(tmp_path).authority == tmp_path / "ca.pem"
