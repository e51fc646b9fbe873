"""How many streams a host owns at most."""

import sqlalchemy as sa
from alembic import op

revision = "0016.1"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column("hosts", sa.Column("capacity", sa.Integer(), nullable=True))
