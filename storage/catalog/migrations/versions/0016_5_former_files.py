"""The files that videos had before their present ones, while they can be taken back."""

import sqlalchemy as sa
from alembic import op

revision = "0016.5"
down_revision = "0016.4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "former_files",
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("length_us", sa.BigInteger(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("replaced_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("video_id", name=op.f("pk_former_files")),
        sa.ForeignKeyConstraint(
            ["video_id"],
            ["videos.id"],
            name=op.f("fk_former_files_video_id"),
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_former_files_replaced_us", "former_files", ["replaced_us"])
