"""Who gets mail of alerts, what they are to be told, and which mails were sent."""

import sqlalchemy as sa
from alembic import op

revision = "0016.14"
down_revision = "0016.13"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    for owner in ("installation", "projects"):
        op.add_column(owner, sa.Column("mail", sa.Text(), server_default="{}", nullable=False))
    wide = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "alerts",
        sa.Column("id", wide, nullable=False),
        sa.Column("scope", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("address", sa.String(254), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("subject", sa.String(12), nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_alerts_project_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
        sqlite_autoincrement=True,
    )
    of_recipient = ["scope", "kind", "address", "id"]
    op.create_index("ix_alerts_scope_kind_address_id", "alerts", of_recipient)
    op.create_index("ix_alerts_project_id", "alerts", ["project_id"])
    op.create_table(
        "mailings",
        sa.Column("scope", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("address", sa.String(254), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("sent_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("run_after_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("owner", sa.String(64), nullable=True),
        sa.Column("leased_until_us", sa.BigInteger(), nullable=True),
        sa.Column("upto_id", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.String(400), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_mailings_project_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("scope", "kind", "address", name="pk_mailings"),
    )
    op.create_index("ix_mailings_project_id", "mailings", ["project_id"])
    op.create_table(
        "alert_conditions",
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("text", sa.String(1000), nullable=False),
        sa.Column("begins_us", sa.BigInteger(), nullable=False),
        sa.Column("told_us", sa.BigInteger(), nullable=True),
        sa.Column("lapses_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("kind", "key", name="pk_alert_conditions"),
    )
