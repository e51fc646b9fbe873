"""Videos that were recorded keep when they were live, for clips of them."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "recorded_times",
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("stream_id", sa.Integer(), nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("to_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("video_id", name=op.f("pk_recorded_times")),
        sa.ForeignKeyConstraint(
            ["video_id"],
            ["videos.id"],
            name=op.f("fk_recorded_times_video_id"),
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_recorded_times_stream_id_from_us", "recorded_times", ["stream_id", "from_us"]
    )
