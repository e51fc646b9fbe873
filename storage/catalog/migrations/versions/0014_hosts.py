"""The hosts that receive streams, and which of them owns which stream."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "hosts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=True),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.Column("steady_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hosts")),
        sa.UniqueConstraint("name", name=op.f("uq_hosts_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "stream_owners",
        sa.Column("stream_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("taken_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_stream_owners")),
    )
    op.create_index("ix_stream_owners_host_id", "stream_owners", ["host_id"])
    op.add_column(
        "installation",
        sa.Column("relay_secret", sa.String(64), nullable=False, server_default=""),
    )
    op.execute(
        sa.text("UPDATE installation SET relay_secret = :secret").bindparams(
            secret=secrets.token_hex(32)
        )
    )
    # A run that is open while the service is updated counts as left by a host that is gone. Which
    # streams have one is not known here: any that was ever live may.
    op.execute(
        "INSERT INTO stream_owners (stream_id, host_id, generation, taken_us)"
        " SELECT id, 0, 0, 0 FROM streams WHERE published_us IS NOT NULL OR hidden"
    )
