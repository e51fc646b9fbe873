"""The folders of copies that a CDN may read."""

import sqlalchemy as sa
from alembic import op

revision = "0016.3"
down_revision = "0016.2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "cdn_folders",
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("hash", sa.String(12), nullable=False),
        sa.Column("withdrawn_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("token", name=op.f("pk_cdn_folders")),
    )
    in_use = sa.text("withdrawn_us IS NULL")
    op.create_index(
        "ix_cdn_folders_hash",
        "cdn_folders",
        ["hash"],
        unique=True,
        sqlite_where=in_use,
        postgresql_where=in_use,
    )
