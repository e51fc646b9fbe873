"""Imports record how much of their file is safe, and which version of it."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "imports", sa.Column("received", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("imports", sa.Column("validator", sa.Text()))
