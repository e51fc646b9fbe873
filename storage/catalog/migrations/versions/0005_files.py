"""Resumable uploads, upload links, spans of videos, previews and subtitles."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _moment(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _project() -> sa.Column[int]:
    return sa.Column(
        "project_id", sa.Integer(), sa.ForeignKey("projects.id", ondelete="CASCADE"), nullable=False
    )


def _uploads() -> None:
    op.create_table(
        "upload_links",
        sa.Column("id", sa.Integer(), nullable=False),
        _project(),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("most_bytes", sa.BigInteger(), nullable=False),
        _moment("expires_us"),
        _moment("used_us", nullable=True),
        _moment("created_us"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_upload_links_project_id", "upload_links", ["project_id"])
    link = sa.ForeignKey("upload_links.id", ondelete="CASCADE")
    op.create_table(
        "uploads",
        sa.Column("id", sa.Integer(), nullable=False),
        _project(),
        sa.Column("link_id", sa.Integer(), link),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("length", sa.BigInteger()),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("writer", sa.String(32)),
        sa.Column("most_bytes", sa.BigInteger(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("video_id", sa.Integer(), sa.ForeignKey("videos.id", ondelete="SET NULL")),
        _moment("created_us"),
        _moment("expires_us"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    for column in ("project_id", "link_id", "video_id", "expires_us"):
        op.create_index(f"ix_uploads_{column}", "uploads", [column])


def _spans() -> None:
    op.create_table(
        "spans",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column(
            "job_id", sa.Integer(), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(64)),
        _moment("leased_until_us", nullable=True),
        _moment("run_after_us"),
        sa.Column("cost", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text()),
        _moment("created_us"),
        _moment("updated_us"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "number"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_spans_state_run_after_us", "spans", ["state", "run_after_us"])


def _imports() -> None:
    video = sa.ForeignKey("videos.id", ondelete="CASCADE")
    op.create_table(
        "imports",
        sa.Column("video_id", sa.Integer(), video, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Integer()),
        _moment("created_us"),
        sa.PrimaryKeyConstraint("video_id"),
    )


def upgrade() -> None:
    """Take the step."""
    op.add_column("projects", sa.Column("origins", sa.Text(), nullable=False, server_default=""))
    op.add_column("videos", sa.Column("previews", sa.String(64)))
    op.add_column("videos", sa.Column("subtitles", sa.Text(), nullable=False, server_default="[]"))
    _uploads()
    _imports()
    _spans()
