"""Jobs and spans exist while there is work to do, and are leased by partial indexes."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_QUEUED = sa.text("state = 'queued'")
_RUNNING = sa.text("state = 'running'")


def _index(name: str, table: str, columns: list[str], where: sa.TextClause) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    """Take the step."""
    for table, name in (("videos", "attempt"), ("jobs", "project_id"), ("spans", "project_id")):
        op.add_column(table, sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.execute(
        "UPDATE videos SET attempt = (SELECT max(attempt) FROM jobs WHERE video_id = videos.id)"
        " WHERE EXISTS (SELECT 1 FROM jobs WHERE video_id = videos.id)"
    )
    op.execute(
        "DELETE FROM spans WHERE job_id IN (SELECT id FROM jobs WHERE state IN ('done', 'failed'))"
    )
    op.execute("DELETE FROM jobs WHERE state IN ('done', 'failed')")
    op.execute(
        "UPDATE jobs SET project_id ="
        " (SELECT project_id FROM videos WHERE videos.id = jobs.video_id)"
    )
    op.execute(
        "UPDATE spans SET project_id = (SELECT project_id FROM jobs WHERE jobs.id = spans.job_id)"
    )
    op.drop_index("ix_jobs_state_run_after_us", "jobs")
    op.drop_index("ix_spans_state_run_after_us", "spans")
    _index("ix_jobs_queued", "jobs", ["kind", "project_id", "run_after_us", "id"], _QUEUED)
    _index("ix_jobs_running", "jobs", ["kind", "leased_until_us"], _RUNNING)
    _index("ix_spans_queued", "spans", ["project_id", "job_id", "number"], _QUEUED)
    _index("ix_spans_running", "spans", ["leased_until_us"], _RUNNING)
