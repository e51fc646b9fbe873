import contextlib
import datetime
import logging
import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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
    """Return the certificate that a client with trust in `authority` only receives."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with context.wrap_socket(ours, server_side=True) as served:
            served.recv(1)

    def answer_or_be_refused() -> None:
        with contextlib.suppress(ssl.SSLError):
            answer()

    thread = threading.Thread(target=answer_or_be_refused)
    thread.start()
    client = ssl.create_default_context(cafile=str(authority))
    try:
        with client.wrap_socket(theirs, server_hostname=name) as secure:
            certificate = secure.getpeercert(binary_form=True)
            secure.send(b"x")
    finally:
        thread.join()
        ours.close()
        theirs.close()
    assert certificate is not None
    return certificate


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
        pytest.param(NAMES[:2], 0, id="other names"),
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


def test_a_new_authority_signs_the_leaf_anew(tmp_path: Path) -> None:
    """The operator removed the authority, since it ends or its key was stolen."""
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    files.authority.unlink()
    files.authority_key.unlink()
    ensure_local_certificates(tmp_path, NAMES, NOW)
    leaf, authority = (
        x509.load_pem_x509_certificate(path.read_bytes()) for path in (files.leaf, files.authority)
    )
    leaf.verify_directly_issued_by(authority)


@pytest.mark.parametrize("lost", ["leaf", "leaf_key"])
def test_a_leaf_and_a_key_that_do_not_belong_together_are_replaced(
    tmp_path: Path, lost: str
) -> None:
    """A start was interrupted between writing the two files."""
    files = ensure_local_certificates(tmp_path / "one", NAMES, NOW)
    other = with_the_same_authority(tmp_path / "two", files, *NAMES)
    shutil.copy(getattr(files, lost), getattr(other, lost))
    with pytest.raises(CertificateError):
        tls_context(other.leaf, other.leaf_key)
    ensure_local_certificates(tmp_path / "two", NAMES, NOW)
    tls_context(other.leaf, other.leaf_key)


# -- the limits of the authority ------------------------------------------------------------------


def with_the_same_authority(folder: Path, of: CertificateFiles, *names: str) -> CertificateFiles:
    """Return files for other names, made with the authority's key."""
    folder.mkdir()
    shutil.copy(of.authority_key, folder)
    shutil.copy(of.authority, folder)
    return ensure_local_certificates(folder, names, NOW)


def unlimited_authority(folder: Path) -> bytes:
    """Write an authority as version 0.1 made it; return its certificate."""
    files = CertificateFiles(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headend local authority")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW - datetime.timedelta(days=1))
        .not_valid_after(NOW + datetime.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    files.authority.write_bytes(pem)
    files.authority_key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem


@pytest.mark.parametrize("name", ["bank.example.org", "192.0.2.7", "2001:db8::7"])
def test_a_stolen_authority_certifies_no_other_site(tmp_path: Path, name: str) -> None:
    ours = ensure_local_certificates(tmp_path / "ours", NAMES, NOW)
    theirs = with_the_same_authority(tmp_path / "theirs", ours, name)
    context = tls_context(theirs.leaf, theirs.leaf_key)
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        served_by(context, ours.authority, name)
    assert served_by(context, theirs.authority, name)  # nothing else is wrong with it


def test_the_limits_do_not_keep_mbedtls_from_reading_the_authority(tmp_path: Path) -> None:
    """OBS uses mbedTLS, which refuses a certificate with critical limits as a whole."""
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    assert not authority.extensions.get_extension_for_class(x509.NameConstraints).critical


def test_an_authority_without_limits_is_renewed_and_its_clients_still_connect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = tmp_path / "old.pem"
    old.write_bytes(unlimited_authority(tmp_path))
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    assert [each.message for each in caplog.records] == ["local authority renewed"]
    assert files.authority.read_bytes() != old.read_bytes()
    context = tls_context(files.leaf, files.leaf_key)
    for trusted in (old, files.authority):
        assert served_by(context, trusted, "localhost")
    caplog.clear()
    assert ensure_local_certificates(tmp_path, NAMES, NOW)
    assert not caplog.records


def test_a_new_name_renews_the_authority_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ensure_local_certificates(tmp_path, NAMES, NOW)
    key = files.authority_key.read_bytes()
    assert not caplog.records
    ensure_local_certificates(tmp_path, (*NAMES, "tv.example.org"), NOW)
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert files.authority_key.read_bytes() == key
    context = tls_context(files.leaf, files.leaf_key)
    assert served_by(context, files.authority, "tv.example.org")
    authority = files.authority.read_bytes()
    ensure_local_certificates(tmp_path, NAMES, NOW)  # fewer names need no new authority
    assert files.authority.read_bytes() == authority


def test_an_optional_name_never_renews_the_authority(tmp_path: Path) -> None:
    files = ensure_local_certificates(tmp_path, NAMES, NOW, optional=["first"])
    assert served_by(tls_context(files.leaf, files.leaf_key), files.authority, "first")
    authority = files.authority.read_bytes()
    ensure_local_certificates(tmp_path, NAMES, NOW, optional=["second"])
    assert files.authority.read_bytes() == authority
    context = tls_context(files.leaf, files.leaf_key)
    assert served_by(context, files.authority, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        served_by(context, files.authority, "second")


@pytest.mark.parametrize("name", ["ca.pem", "ca.key"])
def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    ensure_local_certificates(tmp_path, NAMES, NOW)
    (tmp_path / name).write_text("torn")
    with pytest.raises(CertificateError, match=name):
        ensure_local_certificates(tmp_path, (*NAMES, "tv.example.org"), NOW)


# -- files ----------------------------------------------------------------------------------------


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


def test_the_names_of_the_files_are_returned(tmp_path: Path) -> None:
    assert CertificateFiles(tmp_path).authority == tmp_path / "ca.pem"
