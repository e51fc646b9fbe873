"""Lists the steps and takes them, by way of Alembic.

Loading Alembic takes a start a tenth of its time, and most starts take no step: so
`storage.catalog.migrations` imports this module only when a catalog has another form.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def known_revisions() -> frozenset[str]:
    """Return the revisions that the steps lead to."""
    script = ScriptDirectory.from_config(_config())
    return frozenset(step.revision for step in script.walk_revisions())


def upgrade(connection: Connection, revision: str) -> None:
    """Take the steps up to a revision, within the caller's transaction."""
    command.upgrade(_config(connection), revision)


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
