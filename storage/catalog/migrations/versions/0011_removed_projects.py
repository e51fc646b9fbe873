"""Projects are deleted in two steps: hidden at once, then removed in batches."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column("projects", sa.Column("removed_us", sa.BigInteger()))
