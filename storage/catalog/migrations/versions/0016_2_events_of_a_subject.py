"""An index for the events of one stream or video."""

from alembic import op

revision = "0016.2"
down_revision = "0016.1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_index("ix_events_project_id_subject_id", "events", ["project_id", "subject", "id"])
