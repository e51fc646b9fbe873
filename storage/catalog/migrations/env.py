"""Alembic's environment for the steps: the connection, and so the transaction, of the caller."""

from alembic import context
from sqlalchemy import Connection

from storage.catalog.schema.tables import METADATA

connection = context.config.attributes["connection"]
if not isinstance(connection, Connection):
    raise TypeError("migrations run on an open connection: use storage.catalog.migrations")
context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
