"""Takes the steps, by way of Alembic.

Loading Alembic takes a start a tenth of its time, and most starts take no step: so
`storage.catalog.migrations` imports this module only when a catalog has an older form.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(connection: Connection) -> None:
    """Take all steps that the catalog lacks, within the caller's transaction."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
