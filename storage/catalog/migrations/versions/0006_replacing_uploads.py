"""Uploads and upload links that replace the file of a video."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "upload_links",
        sa.Column("video_id", sa.Integer(), sa.ForeignKey("videos.id", ondelete="CASCADE")),
        # SQLite takes no constraint later; elsewhere this one gets its name.
        inline_references=op.get_context().dialect.name == "sqlite",
    )
    op.create_index("ix_upload_links_video_id", "upload_links", ["video_id"])
    op.add_column(
        "uploads", sa.Column("replaces", sa.Boolean(), nullable=False, server_default=sa.false())
    )
