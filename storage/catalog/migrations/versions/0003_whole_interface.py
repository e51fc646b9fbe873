"""Videos, labels, players, countries, jobs, and the messages between processes."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_COUNTED = ("streams", "videos", "videos.inprogress", "videos.completed", "videos.failed")
_LABELS = ("tags", "categories", "players")
_FOLDED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _project() -> sa.Column[int]:
    return sa.Column(
        "project_id", sa.Integer(), sa.ForeignKey("projects.id", ondelete="CASCADE"), nullable=False
    )


def _number() -> sa.Column[int]:
    return sa.Column("id", sa.Integer(), nullable=False)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _columns() -> None:
    op.add_column(
        "installation",
        sa.Column("broadcaster_secret", sa.String(64), nullable=False, server_default=""),
    )
    op.execute(
        sa.text("UPDATE installation SET broadcaster_secret = :secret").bindparams(
            secret=secrets.token_hex(20)
        )
    )
    for column in (
        sa.Column("updated_us", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("settings", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("version", sa.BigInteger(), nullable=False, server_default="1"),
    ):
        op.add_column("projects", column)
    op.execute(sa.text("UPDATE projects SET updated_us = created_us"))


def _totals() -> None:
    project = sa.ForeignKey("projects.id", ondelete="CASCADE")
    op.create_table(
        "totals",
        sa.Column("project_id", sa.Integer(), project, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "kind"),
    )
    for kind in (*_COUNTED, *_LABELS):
        op.execute(
            sa.text(
                "INSERT INTO totals (project_id, kind, number) SELECT id, :kind, 0 FROM projects"
            ).bindparams(kind=kind)
        )
    op.execute(
        sa.text(
            "UPDATE totals SET number = (SELECT count(*) FROM streams"
            " WHERE streams.project_id = totals.project_id) WHERE kind = 'streams'"
        )
    )


def _labels() -> None:
    for name in ("tags", "categories"):
        op.create_table(
            name,
            _number(),
            _project(),
            sa.Column("name", sa.String(255), nullable=False),
            sa.Column("name_fold", _FOLDED, nullable=False),
            sa.Column("active", sa.Boolean(), nullable=False),
            _moment("created_us"),
            _moment("updated_us"),
            sa.Column("version", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("id"),
            sa.UniqueConstraint("project_id", "name_fold"),
            sqlite_autoincrement=True,
        )
        op.create_index(f"ix_{name}_project_id_id", name, ["project_id", "id"])
    op.create_table(
        "players",
        _number(),
        _project(),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("name_fold", _FOLDED, nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        _moment("created_us"),
        _moment("updated_us"),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_players_project_id_id", "players", ["project_id", "id"])


def _tagged(name: str, owner: str) -> None:
    op.create_table(
        name,
        sa.Column(
            f"{owner}_id",
            sa.Integer(),
            sa.ForeignKey(f"{owner}s.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column(
            "tag_id", sa.Integer(), sa.ForeignKey("tags.id", ondelete="CASCADE"), nullable=False
        ),
        sa.PrimaryKeyConstraint(f"{owner}_id", "tag_id"),
    )
    op.create_index(f"ix_{name}_tag_id", name, ["tag_id"])


def _streams() -> None:
    for column, table in (("category_id", "categories"), ("player_id", "players")):
        op.add_column(
            "streams",
            sa.Column(column, sa.Integer(), sa.ForeignKey(f"{table}.id", ondelete="SET NULL")),
            # SQLite takes no constraint later; elsewhere this one gets its name.
            inline_references=op.get_context().dialect.name == "sqlite",
        )
    for column in (
        sa.Column("countries", sa.Text(), nullable=False, server_default=""),
        sa.Column("settings", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
    ):
        op.add_column("streams", column)
    op.create_index("ix_streams_category_id", "streams", ["category_id"])
    op.create_index("ix_streams_player_id", "streams", ["player_id"])
    _tagged("stream_tags", "stream")


def _videos() -> None:
    op.create_table(
        "videos",
        _number(),
        _project(),
        sa.Column("hash", sa.String(12), nullable=False),
        sa.Column("title", sa.String(255)),
        sa.Column("file_title", sa.String(255), nullable=False),
        sa.Column("title_fold", _FOLDED, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("length_us", sa.BigInteger(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("phase", sa.String(12), nullable=False),
        sa.Column("progress", sa.Integer(), nullable=False),
        sa.Column("eta", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("warnings", sa.Text(), nullable=False),
        _moment("uploaded_us", nullable=True),
        _moment("transcoding_us", nullable=True),
        _moment("completed_us", nullable=True),
        _moment("created_us"),
        _moment("updated_us"),
        sa.Column("published", sa.Boolean(), nullable=False),
        _moment("published_us", nullable=True),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("category_id", sa.Integer(), sa.ForeignKey("categories.id", ondelete="SET NULL")),
        sa.Column("player_id", sa.Integer(), sa.ForeignKey("players.id", ondelete="SET NULL")),
        sa.Column("countries", sa.Text(), nullable=False),
        sa.Column("source", sa.String(255)),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("media", sa.String(64)),
        sa.Column("posters", sa.String(64)),
        sa.Column("poster_labels", sa.String(255), nullable=False),
        _moment("image_us", nullable=True),
        sa.Column("storage_size", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_videos_project_id_id", "videos", ["project_id", "id"])
    op.create_index("ix_videos_project_id_phase_id", "videos", ["project_id", "phase", "id"])
    op.create_index(
        "ix_videos_project_id_created_us_id", "videos", ["project_id", "created_us", "id"]
    )
    op.create_index("ix_videos_category_id", "videos", ["category_id"])
    op.create_index("ix_videos_player_id", "videos", ["player_id"])
    _tagged("video_tags", "video")
    video = sa.ForeignKey("videos.id", ondelete="CASCADE")
    op.create_table(
        "video_resolutions",
        sa.Column("video_id", sa.Integer(), video, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("transcoded", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("transcode_seconds", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("video_id", "number"),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        _number(),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column(
            "video_id", sa.Integer(), sa.ForeignKey("videos.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(64)),
        _moment("leased_until_us", nullable=True),
        _moment("run_after_us"),
        sa.Column("facts", sa.Text(), nullable=False),
        _moment("created_us"),
        _moment("updated_us"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_state_run_after_us", "jobs", ["state", "run_after_us"])
    op.create_index("ix_jobs_video_id", "jobs", ["video_id"])


def _events() -> None:
    """Create the table anew: an event outlives the stream that it is about."""
    connection = op.get_bind()
    rows = connection.execute(
        sa.text(
            "SELECT events.id, events.project_id, streams.hash AS subject, events.kind,"
            " events.facts, events.created_us"
            " FROM events JOIN streams ON streams.id = events.stream_id"
        )
    ).mappings()
    kept = [dict(row) for row in rows]
    op.drop_table("events")
    table = op.create_table(
        "events",
        _number(),
        _project(),
        sa.Column("subject", sa.String(12), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Integer()),
        _moment("created_us"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_project_id_id", "events", ["project_id", "id"])
    op.create_index("ix_events_project_id_created_us", "events", ["project_id", "created_us"])
    if not kept:
        return
    op.bulk_insert(table, kept)
    if connection.dialect.name == "postgresql":  # its numbers continue after those that were given
        op.execute(
            sa.text("SELECT setval(pg_get_serial_sequence('events', 'id'), max(id)) FROM events")
        )


def _between_processes() -> None:
    op.create_table(
        "notices",
        _number(),
        sa.Column("channel", sa.String(200), nullable=False),
        sa.Column("event", sa.String(200), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("besides", sa.String(32)),
        _moment("created_us"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "commands",
        _number(),
        sa.Column("stream_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        _moment("created_us"),
        _moment("answered_us", nullable=True),
        sa.Column("answer", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_commands_answered_us_id", "commands", ["answered_us", "id"])


def upgrade() -> None:
    """Take the step."""
    _columns()
    _totals()
    _labels()
    _streams()
    _videos()
    _jobs()
    _events()
    _between_processes()
