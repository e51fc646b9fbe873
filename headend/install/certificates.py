"""The certificate of RTMPS: the operator's, or one of a local authority, and its renewal.

The authority and its leaf certificate are created at the first start, with ECDSA P-256 keys. The
authority's key stays in the data folder (mode 0600); encoders are configured to trust its
certificate. The authority's certificate is limited to the names of the leaf, so a stolen key cannot
sign for other sites. A setting replaces the leaf with the operator's own certificate.
Source: RFC 5280, 4.2.1.10 (name constraints).
"""

import datetime
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from api.schemas.urls import Addresses
from headend.config.listen_sockets import host_of, parse
from headend.config.section import unreadable
from headend.config.settings import ServiceSettings

log = logging.getLogger(__name__)

_AUTHORITY_DAYS: Final = 3650
# Below the 825 days beyond which platforms refuse a leaf certificate.
_LEAF_DAYS: Final = 800
_RENEW_DAYS: Final = 30
_DAY: Final = datetime.timedelta(days=1)
# The authority may always sign these. Without an address among its names, all would be permitted.
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class CertificateError(Exception):
    """A certificate cannot be used; the message names the file and the reason."""


class CertificateFiles:
    """The paths of the local authority's files, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "ca.pem"
        self.authority_key = folder / "ca.key"
        self.leaf = folder / "rtmps.pem"
        self.leaf_key = folder / "rtmps.key"


def ensure_local_certificates(
    folder: Path, names: Iterable[str], now: datetime.datetime, *, optional: Iterable[str] = ()
) -> CertificateFiles:
    """Create the authority, and a leaf for `names` (host names or addresses), if missing.

    The leaf is renewed when its names change or less than 30 days are left. The authority's
    certificate is renewed when it does not permit all `names`, or was made by a version that set no
    limits. Its key and name stay, so encoders that trust its earlier certificate accept the leaf.
    `optional` names are left out of the leaf if the authority does not permit them.

    Raises:
        CertificateError: the authority's files cannot be read.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = CertificateFiles(folder)
    required, optional_names = set(names), set(optional)
    if not (files.authority.exists() and files.authority_key.exists()):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(files.authority_key, _pem_of(key), secret=True)
        _make_authority(files, key, required | optional_names, now)
    permitted = _permitted(files)
    if not _forms(required | _LOOPBACK) <= permitted:
        _make_authority(files, _authority_key(files), required | optional_names, now)
        fields = {
            "file": str(files.authority),
            "names": ", ".join(sorted(required | optional_names)),
        }
        log.warning("local authority renewed", extra=fields)
        permitted = _permitted(files)
    leaf_names = sorted(required | {name for name in optional_names if _forms({name}) <= permitted})
    if not _is_usable(files, leaf_names, now):
        _make_leaf(files, leaf_names, now)
    return files


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a server context for TLS 1.2 and later; `load` renews its certificate.

    Raises:
        CertificateError: the files are missing or do not match.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # librtmp mistakes the session tickets after a TLS 1.3 handshake for a failed read.
    context.num_tickets = 0
    load(context, certificate, key)
    return context


def load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Load files into a context; open connections keep the old certificate.

    Raises:
        CertificateError: the files are missing or do not match; the context is unchanged.
    """
    try:
        # A trial first: a half-loaded context would serve a key that does not match.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_refuse)
        context.load_cert_chain(certificate, key, password=_refuse)
    except (OSError, ValueError) as error:
        raise CertificateError(f"{certificate}: {error}") from error


def _refuse() -> str:
    """Refuse a passphrase prompt, which would otherwise wait for a terminal."""
    raise ValueError("the private key has a passphrase: store it without one")


def _make_authority(
    files: CertificateFiles,
    key: ec.EllipticCurvePrivateKey,
    names: Iterable[str],
    now: datetime.datetime,
) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headend local authority")])
    forms = _forms({*names, *_LOOPBACK})
    certificate = (
        _builder(name, name, key, now, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        # RFC 5280 requires it to be critical, but then mbedTLS, which OBS uses, reads no part of
        # the certificate (2.28: error 0x2562). OpenSSL, GnuTLS and NSS obey it in either case.
        .add_extension(x509.NameConstraints(sorted(forms, key=repr), None), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(files.authority, certificate.public_bytes(serialization.Encoding.PEM), secret=False)


def _authority_key(files: CertificateFiles) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(files.authority_key.read_bytes(), None)
    except (OSError, TypeError, ValueError) as error:
        raise CertificateError(f"{files.authority_key}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{files.authority_key}: no key of ours")
    return key


def _authority(files: CertificateFiles) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(files.authority.read_bytes())
    except (OSError, ValueError) as error:
        raise CertificateError(f"{files.authority}: {error}") from error


def _permitted(files: CertificateFiles) -> frozenset[x509.GeneralName]:
    """Return what the authority's certificate permits; nothing if it is not limited."""
    extensions = _authority(files).extensions
    try:
        limits = extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(limits.permitted_subtrees or ())


def _forms(names: Iterable[str]) -> frozenset[x509.GeneralName]:
    """Return names as permitted subtrees; that of an address has only the address itself."""
    return frozenset(
        x509.IPAddress(ipaddress.ip_network(str(form.value)))
        if isinstance(form, x509.IPAddress)
        else form
        for name in names
        for form in _alternatives(name)
    )


def _make_leaf(files: CertificateFiles, names: list[str], now: datetime.datetime) -> None:
    signer, authority = _authority_key(files), _authority(files)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headend RTMPS")])
    certificate = (
        _builder(subject, authority.subject, key, now, _LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([form for name in names for form in _alternatives(name)]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    _write(files.leaf_key, _pem_of(key), secret=True)
    chain = certificate.public_bytes(serialization.Encoding.PEM) + files.authority.read_bytes()
    _write(files.leaf, chain, secret=False)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A day earlier, since an encoder's clock may be behind.
        .not_valid_before(now - _DAY)
        .not_valid_after(now + days * _DAY)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(name: str) -> list[x509.GeneralName]:
    """Return the subject alternative names under which encoders look up a name."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return [x509.DNSName(name)]
    if address.version == 6:
        return [x509.IPAddress(address)]
    # mbedTLS 2, which OBS uses, looks for addresses only among the DNS names.
    return [x509.IPAddress(address), x509.DNSName(name)]


def _is_usable(files: CertificateFiles, names: list[str], now: datetime.datetime) -> bool:
    """Return whether the leaf has these names, time left, its key, and the authority's signature.

    The key is another's if a start was interrupted between writing the two files, and so is the
    signature if the operator has removed the authority to have a new one.
    """
    try:
        certificate = x509.load_pem_x509_certificate(files.leaf.read_bytes())
        key = serialization.load_pem_private_key(files.leaf_key.read_bytes(), None)
        certificate.verify_directly_issued_by(_authority(files))
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (FileNotFoundError, TypeError, ValueError, InvalidSignature, x509.ExtensionNotFound):
        return False
    certified_names = sorted({str(name.value) for name in extension.value})
    return (
        key.public_key() == certificate.public_key()
        and certified_names == names
        and certificate.not_valid_after_utc - now >= _RENEW_DAYS * _DAY
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, data: bytes, *, secret: bool) -> None:
    """Replace a file atomically; a secret one is never readable by others."""
    new = path.with_suffix(".new")
    with os.fdopen(
        os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if secret else 0o644), "wb"
    ) as file:
        file.write(data)
    new.replace(path)


class RtmpsCertificate:
    """The certificate in use for RTMPS, and its renewal."""

    def __init__(self, settings: ServiceSettings, folder: Path, addresses: Addresses) -> None:
        self._own = settings.rtmps.certificate
        self._key = settings.rtmps.key or settings.rtmps.certificate
        self._folder = folder
        self._names = _names(settings, addresses)
        # A container's host name changes at each start, and encoders hardly connect to it.
        self._machine = frozenset({socket.gethostname()}) - self._names
        certificate, key = self._files()
        self.context: ssl.SSLContext = tls_context(certificate, key)

    @property
    def authority(self) -> Path | None:
        """The certificate that encoders must trust, unless the operator has their own."""
        return None if self._own else CertificateFiles(self._folder).authority

    def reload(self) -> None:
        """Load the files again, for new connections.

        Raises:
            CertificateError: they cannot be used; the old ones stay in use. It names the setting.
        """
        certificate, key = self._files()
        load(self.context, certificate, key)

    def _files(self) -> tuple[Path, Path]:
        if self._own:
            named = {"rtmps.certificate": self._own, "rtmps.key": self._key}
            for setting, path in named.items():
                if problem := unreadable(setting, Path(path)):
                    raise CertificateError(problem)
            return Path(self._own), Path(self._key)
        files = ensure_local_certificates(
            self._folder,
            self._names,
            datetime.datetime.now(datetime.UTC),
            optional=self._machine,
        )
        return files.leaf, files.leaf_key


def _names(settings: ServiceSettings, addresses: Addresses) -> frozenset[str]:
    """Return every name under which encoders may connect to RTMPS, besides the machine's own."""
    names = set(_LOOPBACK)
    for url in (addresses.http, addresses.rtmp, addresses.rtmps, addresses.rtmps_backup):
        names.add(host_of(url))
    host = parse(settings.rtmps.listen)[0] if settings.rtmps.listen else ""
    return frozenset(names | {host}) - {"", "::", "0.0.0.0"}  # noqa: S104 # left out, not bound
