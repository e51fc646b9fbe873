"""The key that a catalog and its object store have in common."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "installation", sa.Column("key", sa.String(32), nullable=False, server_default="")
    )
