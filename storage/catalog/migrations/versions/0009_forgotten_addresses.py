"""Addresses of failed imports are forgotten if they may hold a signature."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.execute(
        "DELETE FROM imports WHERE url LIKE '%?%'"
        " AND video_id IN (SELECT id FROM videos WHERE state = 'failed')"
    )
