"""What is deleted or replaced can be restored for some days; so can the files replaced so far."""

import sqlalchemy as sa
from alembic import op

revision = "0016.13"
down_revision = "0016.12"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "trash",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("record", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=12), nullable=False),
        sa.Column("title", sa.String(length=255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=True),
        sa.Column("secret_digest", sa.String(length=64), nullable=True),
        sa.Column("deleted_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_trash_project_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trash")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_trash_project_id_id", "trash", ["project_id", "id"])
    op.create_index("ix_trash_kind_record", "trash", ["kind", "record"])
    op.create_index("ix_trash_hash", "trash", ["hash"])
    op.create_index("ix_trash_secret_digest", "trash", ["secret_digest"])
    op.create_index("ix_trash_until_us", "trash", ["until_us"])
    # The rows of `former_files`, in the form of `storage.catalog.queries.trash_rows`.
    op.execute(
        "INSERT INTO trash (project_id, kind, record, hash, title, size, rows, source,"
        " deleted_us, until_us)"
        " SELECT v.project_id, 'file', v.id, v.hash, coalesce(v.title, v.file_title), f.size,"
        ' \'{"files":[{"source":"\' || f.source || \'","size":\' || f.size ||'
        " ',\"length_us\":' || f.length_us || ',\"width\":' || f.width ||"
        " ',\"height\":' || f.height || '}]}', f.source, f.replaced_us,"
        " f.replaced_us + 604800000000"
        " FROM former_files f JOIN videos v ON v.id = f.video_id"
    )
