"""A certificate of a local authority for mail servers, and a catalog with a stream on a clock."""

import datetime
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from headend.install.certificates import CertificateFiles, ensure_local_certificates, tls_context
from notify.mailer import Mailer
from notify.smtp import SmtpServer
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.alerts import INSTALLATION, AlertEdit
from storage.catalog.records.common import Change, StreamRecord

NOW_US = 1_800_000_000_000_000


class Site(msgspec.Struct):
    """A catalog whose project and installation have a recipient each; `now_us` is its clock."""

    catalog: Catalog
    stream: StreamRecord
    location: str | Path
    now_us: int = NOW_US

    def mailer(self, server: SmtpServer, *, seconds: float = 30.0) -> Mailer:
        """Return a mailer that waits for `seconds` for each answer."""
        console = "https://video.example/console"
        return Mailer(
            self.catalog, server, console, lambda: self.now_us,
            step_seconds=seconds, text_seconds=seconds,
        )  # fmt: skip


@pytest.fixture
def authority(tmp_path: Path) -> CertificateFiles:
    """The files of an authority, and of a certificate for 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)
    return ensure_local_certificates(tmp_path / "tls", ["127.0.0.1"], now)


@pytest.fixture
def server_tls(authority: CertificateFiles) -> ssl.SSLContext:
    """The context of a mail server with that certificate."""
    return tls_context(authority.leaf, authority.leaf_key)


@pytest.fixture
async def site(either_database: str | Path) -> AsyncGenerator[Site]:
    """A site whose owner and operator get mail."""
    async with open_catalog(either_database, migrate=False) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        for scope, address in ((1, "owner@a.example"), (INSTALLATION, "ops@a.example")):
            await catalog.recipients.change(scope, AlertEdit(to=(address,)), Change(2))
        yield Site(catalog, stream, either_database)
