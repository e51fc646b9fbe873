"""The objects that are to be deleted, since no row names them any more."""

import sqlalchemy as sa
from alembic import op

revision = "0016.9"
down_revision = "0016.8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "removals",
        sa.Column("address", sa.String(length=400), nullable=False),
        sa.Column("is_folder", sa.Boolean(), nullable=False),
        sa.Column("recorded_us", sa.BigInteger(), nullable=False),
        sa.Column("due_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_removals")),
    )
    op.create_index("ix_removals_due_us", "removals", ["due_us"])
