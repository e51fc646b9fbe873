"""Until when the encoders of an ended stream are refused."""

import sqlalchemy as sa
from alembic import op

revision = "0016.4"
down_revision = "0016.3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column("streams", sa.Column("held_until_us", sa.BigInteger(), nullable=True))
    op.add_column("streams", sa.Column("refused_us", sa.BigInteger(), nullable=True))
