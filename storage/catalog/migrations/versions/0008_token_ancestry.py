"""With which token a token was added, so that a leaked one can be revoked with all it made."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step; of tokens that exist already it is unknown."""
    op.add_column("tokens", sa.Column("created_by", sa.Integer(), nullable=True))
