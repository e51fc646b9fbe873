"""Why workers paused last, and when they last did."""

import sqlalchemy as sa
from alembic import op

revision = "0016.7"
down_revision = "0016.6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column("installation", sa.Column("pause", sa.String(400), nullable=True))
    op.add_column("installation", sa.Column("paused_us", sa.BigInteger(), nullable=True))
