"""By which turn of the lease the catalog's processes use the object store."""

import sqlalchemy as sa
from alembic import op

revision = "0016.10"
down_revision = "0016.9"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "store_claims",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("turn", sa.String(length=32), nullable=False),
        sa.Column("next_turn", sa.String(length=32), nullable=False),
        sa.Column("confirmed_us", sa.BigInteger(), nullable=False),
        sa.Column("tried_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_store_claims_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_store_claims")),
    )
