"""When a backup was last made, and until when nothing is deleted because one is being made."""

import sqlalchemy as sa
from alembic import op

revision = "0016.15"
down_revision = "0016.14"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    for name in ("removals_held_us", "backed_up_us"):
        op.add_column("installation", sa.Column(name, sa.BigInteger(), nullable=True))
