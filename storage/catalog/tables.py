"""The catalog's tables, as the newest migration leaves them.

Times are microseconds since the Unix epoch in 64-bit integers (`_us`). A `_fold` column holds its
neighbour without case, for searching and sorting alike on every database (SQLite's own LIKE folds
ASCII only). With `sqlite_autoincrement` a number is never given twice, not even when the newest row
was deleted: clients keep numbers. A test compares these tables with what the migrations make.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

__all__ = [
    "METADATA",
    "events",
    "installation",
    "projects",
    "stream_backups",
    "stream_resolutions",
    "streams",
    "tokens",
]

# Named constraints, so that later migrations can drop them on every database.
METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# One row for the whole installation: what the first start decided.
installation = Table(
    "installation",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1", name="single"), primary_key=True),
    Column("broadcaster_key", String(32), nullable=False),
    Column("created_us", BigInteger, nullable=False),
)

projects = Table(
    "projects",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", String(12), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    Column("created_us", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

# `digest` is the SHA-256 of the token in hexadecimal; `project_id` null reaches all projects.
tokens = Table(
    "tokens",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=True),
    Column("write", Boolean, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("revoked_us", BigInteger, nullable=True),
    sqlite_autoincrement=True,
)

# `secret` is shown to the owner again and again, so it is kept; it is looked up by its digest, so
# that no index gives away how much of a guess was right. `next_backup` is the number of the next
# backup. `on_air` is a slot's number (0 = primary).
streams = Table(
    "streams",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("hash", String(12), nullable=False, unique=True),
    Column("secret", String(36), nullable=False),
    Column("secret_digest", String(64), nullable=False, unique=True),
    Column("title", String(255), nullable=False),
    Column("title_fold", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("published", Boolean, nullable=False),
    Column("published_us", BigInteger, nullable=True),
    Column("hidden", Boolean, nullable=False),
    Column("live", Boolean, nullable=False),
    Column("processing", Boolean, nullable=False),
    Column("receiving_count", Integer, nullable=False),
    Column("on_air", Integer, nullable=True),
    Column("no_audio", Boolean, nullable=False),
    Column("next_backup", Integer, nullable=False),
    Column("version", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
# The two orders that lists are asked for in.
Index("ix_streams_project_id_id", streams.c.project_id, streams.c.id)
Index("ix_streams_project_id_title_fold", streams.c.project_id, streams.c.title_fold, streams.c.id)

stream_backups = Table(
    "stream_backups",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("stream_id", Integer, ForeignKey("streams.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("live", Boolean, nullable=False),
    UniqueConstraint("stream_id", "number"),
    sqlite_autoincrement=True,
)

stream_resolutions = Table(
    "stream_resolutions",
    METADATA,
    Column("stream_id", Integer, ForeignKey("streams.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("active", Boolean, nullable=False),
)

# What happened to a project's streams, for their owner; `facts` is a JSON object. A stream's events
# go with it.
events = Table(
    "events",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("stream_id", Integer, ForeignKey("streams.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("facts", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
Index("ix_events_project_id_id", events.c.project_id, events.c.id)
Index("ix_events_project_id_created_us", events.c.project_id, events.c.created_us)
Index("ix_events_stream_id", events.c.stream_id)
