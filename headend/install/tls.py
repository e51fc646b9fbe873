"""The certificate of the RTMPS door: the operator's or one of ours, and its renewal."""

import datetime
import socket
import ssl
from pathlib import Path

from api.schemas.urls import Addresses
from headend.config.settings import Settings
from headend.config.sockets import host_of, parse
from headend.install.certificates import Certificates, ensure_local, load, tls_context

__all__ = ["Tls"]


class Tls:
    """The certificate of RTMPS and its renewal."""

    def __init__(self, settings: Settings, folder: Path, addresses: Addresses) -> None:
        self._own = settings.rtmps.certificate
        self._key = settings.rtmps.key or settings.rtmps.certificate
        self._folder = folder
        self._names = _names(settings, addresses)
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
