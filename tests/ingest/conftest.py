import datetime
from pathlib import Path

import pytest

from headend.install.certificates import CertificateFiles, ensure_local_certificates
from tests.support.ingest.loopback import LOOPS


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    """A local authority and its leaf for the loopback addresses."""
    names = ("localhost", "127.0.0.1", "::1")
    folder: Path = tmp_path_factory.mktemp("tls")
    return ensure_local_certificates(folder, names, datetime.datetime.now(datetime.UTC))


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    """asyncio's loop and uvloop, whose transports differ."""
    return str(request.param)
