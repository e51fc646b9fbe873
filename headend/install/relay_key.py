"""TLS between the hosts of one installation, with a key that they derive from a shared secret.

Every host derives the same Ed25519 key, and from it the same certificate, byte by byte. It presents
this certificate and trusts no other. So both sides prove that they have the secret, and no
certificate has to be distributed or renewed: it is valid until the secret is replaced.
Source: RFC 5869 (HKDF), RFC 8032 (Ed25519 signatures are deterministic), RFC 8446 (TLS 1.3).
"""

import datetime
import os
import ssl
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID

MIN_SECRET_BYTES: Final = 16
_PURPOSE: Final = b"headend relay between hosts, 1"
_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headend host")])
# The certificate is valid by any clock, even a wrong one. RFC 5280, 4.1.2.5: "no well-defined
# expiration date".
_BEGINNING: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_END: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


class RelayTls(msgspec.Struct, frozen=True, kw_only=True):
    """The contexts of both ends of a connection between two hosts."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def relay_tls(secret: bytes) -> RelayTls:
    """Return TLS contexts that accept only hosts with the same secret.

    Raises:
        ValueError: the secret has fewer than `MIN_SECRET_BYTES`.
    """
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(f"a secret of {len(secret)} bytes is too short")
    seed = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret)
    key = Ed25519PrivateKey.from_private_bytes(seed)
    certificate = _certificate(key)
    server = _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), key, certificate)
    server.num_tickets = 0  # connections are few and long: none is resumed
    return RelayTls(
        server=server,
        client=_load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), key, certificate),
    )


def _certificate(key: Ed25519PrivateKey) -> bytes:
    """Return the certificate of a key as DER; the same for the same key."""
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(_BEGINNING)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    return certificate.public_bytes(serialization.Encoding.DER)


def _load(context: ssl.SSLContext, key: Ed25519PrivateKey, certificate: bytes) -> ssl.SSLContext:
    """Let a context present the certificate and trust no other; return it."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is the same everywhere; the key counts
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    # The library reads keys from files alone; this one is in memory.
    with os.fdopen(os.memfd_create("relay-key"), "wb") as file:
        file.write(pem + ssl.DER_cert_to_PEM_cert(certificate).encode())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
