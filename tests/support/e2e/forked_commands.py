"""The entry point of forked `headend` processes (`tests.support.forks`)."""

import sys
from collections.abc import Sequence
from importlib import import_module

from headend.command import main

__all__ = ["run_command"]

# The modules that a role, and libraries on its behalf, import before it serves.
for _name in (
    "headend.cli", "headend.logs", "headend.roles.wiring", "headend.run",
    "aiosqlite", "anyio._backends._asyncio", "cryptography.hazmat.backends.openssl.backend",
    "jinja2.ext", "litestar.plugins.attrs", "litestar.plugins.pydantic",
    "sqlalchemy.dialects.postgresql.psycopg", "uvicorn.lifespan.on",
):  # fmt: skip
    import_module(_name)


def run_command(arguments: Sequence[str]) -> None:
    """Run `headend` with the path of its command and its arguments, then exit the process."""
    sys.argv = list(arguments)
    main()
