"""Jobs have parts, which are leased as they are; work may be about no video, and have a payload.

What versions before 0.3 have queued stays where it is: jobs as they are, and spans until a worker
adopts them (`storage.catalog.videos.spans`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0016.12"
down_revision = "0016.11"
branch_labels = None
depends_on = None

_SUBJECT = "video_id IS NULL OR job_id IS NULL"


def upgrade() -> None:
    """Take the step."""
    op.add_column("jobs", sa.Column("number", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("payload", sa.Text(), nullable=True))
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _relax(connection)
        return
    parent = sa.ForeignKey("jobs.id", name="fk_jobs_job_id", ondelete="CASCADE")
    subject = sa.CheckConstraint(_SUBJECT, name="subject")
    op.add_column("jobs", sa.Column("job_id", sa.BigInteger(), parent, subject, nullable=True))
    op.alter_column("jobs", "video_id", nullable=True)


def _relax(connection: sa.Connection) -> None:
    """Do so by the table's text, as SQLite describes it for constraints that are relaxed.

    A new table in the place of this one would take the spans with it, whose jobs are removed.
    https://www.sqlite.org/lang_altertable.html#otheralter
    """
    connection.execute(
        sa.text(
            "ALTER TABLE jobs ADD COLUMN job_id INTEGER"
            f" CONSTRAINT ck_jobs_subject CHECK ({_SUBJECT})"
            " REFERENCES jobs (id) ON DELETE CASCADE"
        )
    )
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    for statement in (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'video_id INTEGER NOT NULL',"
        " 'video_id INTEGER') WHERE type = 'table' AND name = 'jobs'",
        f"PRAGMA schema_version = {version + 1}",
        "PRAGMA writable_schema = RESET",
    ):
        connection.execute(sa.text(statement))
    columns = connection.execute(sa.text("PRAGMA table_info(jobs)")).mappings()
    if any(column["name"] == "video_id" and column["notnull"] for column in columns):
        raise RuntimeError("the table jobs is not as Headend has made it")
