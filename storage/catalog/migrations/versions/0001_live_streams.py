"""Projects, tokens and live streams."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_FOLDED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _projects() -> None:
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), sa.CheckConstraint("id = 1", name="single"), nullable=False),
        sa.Column("broadcaster_key", sa.String(32), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(12), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column(
            "project_id",
            sa.Integer(),
            sa.ForeignKey("projects.id", ondelete="CASCADE"),
            nullable=True,
        ),
        sa.Column("write", sa.Boolean(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("revoked_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        sqlite_autoincrement=True,
    )


def _streams() -> None:
    op.create_table(
        "streams",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column(
            "project_id",
            sa.Integer(),
            sa.ForeignKey("projects.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("hash", sa.String(12), nullable=False),
        sa.Column("secret", sa.String(36), nullable=False),
        sa.Column("secret_digest", sa.String(64), nullable=False),
        sa.Column("title", sa.String(255), nullable=False),
        sa.Column("title_fold", _FOLDED, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.Column("published", sa.Boolean(), nullable=False),
        sa.Column("published_us", sa.BigInteger(), nullable=True),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("processing", sa.Boolean(), nullable=False),
        sa.Column("receiving_count", sa.Integer(), nullable=False),
        sa.Column("on_air", sa.Integer(), nullable=True),
        sa.Column("no_audio", sa.Boolean(), nullable=False),
        sa.Column("next_backup", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
        sa.UniqueConstraint("secret_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_streams_project_id_id", "streams", ["project_id", "id"])
    op.create_index(
        "ix_streams_project_id_title_fold", "streams", ["project_id", "title_fold", "id"]
    )


def _parts_of_streams() -> None:
    stream = sa.ForeignKey("streams.id", ondelete="CASCADE")
    op.create_table(
        "stream_backups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("stream_id", sa.Integer(), stream, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("stream_id", "number"),
        sqlite_autoincrement=True,
    )
    stream = sa.ForeignKey("streams.id", ondelete="CASCADE")
    op.create_table(
        "stream_resolutions",
        sa.Column("stream_id", sa.Integer(), stream, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("stream_id", "number"),
    )


def upgrade() -> None:
    """Take the step."""
    _projects()
    _streams()
    _parts_of_streams()
