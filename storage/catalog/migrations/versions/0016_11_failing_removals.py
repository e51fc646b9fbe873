"""Which objects are to be moved to the trash, and why their removal failed last."""

import sqlalchemy as sa
from alembic import op

revision = "0016.11"
down_revision = "0016.10"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "removals",
        sa.Column("to_trash", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.add_column(
        "removals", sa.Column("cause", sa.String(length=100), server_default="", nullable=False)
    )
