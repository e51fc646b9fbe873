"""Titles and names without accents, to search in.

The wide numbers of rows that come and go with the traffic are made beside running processes
(`storage.catalog.migrations.finishing`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0016.8"
down_revision = "0016.7"
branch_labels = None
depends_on = None

_FOLDED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Take the step."""
    for table in ("streams", "videos"):
        op.add_column(table, sa.Column("title_plain", _FOLDED, nullable=True))
    for table in ("tags", "categories", "players"):
        op.add_column(table, sa.Column("name_plain", _FOLDED, nullable=True))
