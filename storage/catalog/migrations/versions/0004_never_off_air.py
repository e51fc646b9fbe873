"""Events numbered by stream, live posters, slates, recordings."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column("projects", sa.Column("slate", sa.String(64)))
    for column in (
        sa.Column("event_number", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("poster_labels", sa.String(255), nullable=False, server_default=""),
        sa.Column("image_us", sa.BigInteger()),
        sa.Column("slate", sa.String(64)),
        sa.Column("image_width", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("image_height", sa.Integer(), nullable=False, server_default="0"),
    ):
        op.add_column("streams", column)
    op.add_column("events", sa.Column("number", sa.Integer()))
    op.add_column("videos", sa.Column("expires_us", sa.BigInteger()))
    op.create_index("ix_videos_expires_us", "videos", ["expires_us"])
    project = sa.ForeignKey("projects.id", ondelete="CASCADE")
    op.create_table(
        "recordings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), project, nullable=False),
        sa.Column("stream_id", sa.Integer(), nullable=False),
        sa.Column("stream_hash", sa.String(12), nullable=False),
        sa.Column("run", sa.String(32), nullable=False),
        sa.Column("hash", sa.String(12), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
        sa.UniqueConstraint("stream_hash", "run"),
        sqlite_autoincrement=True,
    )
