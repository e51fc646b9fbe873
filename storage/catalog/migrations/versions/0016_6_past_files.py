"""The files that a project had, while their length counts for its quota."""

import sqlalchemy as sa
from alembic import op

revision = "0016.6"
down_revision = "0016.5"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "past_files",
        sa.Column("hash", sa.String(length=12), nullable=False),
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("added_us", sa.BigInteger(), nullable=False),
        sa.Column("length_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", "generation", name=op.f("pk_past_files")),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_past_files_project_id"),
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_past_files_project_id_added_us", "past_files", ["project_id", "added_us"])
