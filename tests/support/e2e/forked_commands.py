"""The command `headend` in a fork that has imported its modules (`tests.support.forks`).

The engines that it starts are forks of another process, so they are not children of the service.
Tests that look for engines among its children set `own_engines` (`tests.support.e2e.service`).
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from api.http.static_files import Assets
from headend.command import main
from tests.support.e2e.service import OWN_ENGINES
from tests.support.engine.engine_forks import begin_at_once, prepare_engines

# The modules that a role, and libraries on its behalf, import before it serves.
for _name in (
    "headend.cli", "headend.logs", "headend.roles.wiring", "headend.run",
    "anyio._backends._asyncio", "cryptography.hazmat.backends.openssl.backend",
    "headend.install.doctor", "headend.roles.redis_edges", "jinja2.ext",
    "sqlalchemy.dialects.postgresql.psycopg", "storage.catalog.engine.postgres",
    "storage.catalog.maintenance.copying", "uvicorn.lifespan.on",
):  # fmt: skip
    import_module(_name)
Assets.read()
prepare_engines()


def run_command(arguments: Sequence[str]) -> None:
    """Run `headend` with the path of its command and its arguments, then exit the process."""
    sys.argv = list(arguments)
    if os.environ.pop(OWN_ENGINES, None) is None:
        begin_at_once()
    main()
