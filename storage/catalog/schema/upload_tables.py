"""The catalog's tables of what becomes a video, or became one, and of what was deleted.

They follow `storage.catalog.schema.tables`, and are a part of its metadata.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from storage.catalog.schema.tables import METADATA, QUEUED, RUNNING, WIDE

# A run that is being recorded: `hash` is that of the video that it becomes. Without a foreign key
# to streams: the recording of a deleted stream still becomes a video.
recordings = Table(
    "recordings",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("stream_id", Integer, nullable=False),
    Column("stream_hash", String(12), nullable=False),
    Column("run", String(32), nullable=False),
    Column("hash", String(12), nullable=False, unique=True),
    Column("facts", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    UniqueConstraint("stream_hash", "run"),
    sqlite_autoincrement=True,
)

# When a video that was recorded was live: a time of the stream's clock, by which clips are found.
# Without a foreign key to streams, as above.
recorded_times = Table(
    "recorded_times",
    METADATA,
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="CASCADE"), primary_key=True),
    Column("stream_id", Integer, nullable=False),
    Column("from_us", BigInteger, nullable=False),
    Column("to_us", BigInteger, nullable=False),
)
Index("ix_recorded_times_stream_id_from_us", recorded_times.c.stream_id, recorded_times.c.from_us)

# What was deleted or replaced and can be restored until `until_us`: a stream or a video, whose rows
# are removed and kept in `rows` (JSON: `storage.catalog.queries.snapshots`); a file that a video
# had (`source` is its address); a project, whose own rows stay, hidden, apart from its tokens.
# `kind` is one of these words, `record` the number of the stream, the video or the project, `hash`
# its public name or its key. `secret_digest` is that of a stream's key, `size` what it stores, in
# bytes.
trash = Table(
    "trash",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(12), nullable=False),
    Column("record", Integer, nullable=False),
    Column("hash", String(12), nullable=False),
    Column("title", String(255), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("rows", Text, nullable=False),
    Column("source", String(255)),
    Column("secret_digest", String(64)),
    Column("deleted_us", BigInteger, nullable=False),
    Column("until_us", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
Index("ix_trash_project_id_id", trash.c.project_id, trash.c.id)
Index("ix_trash_kind_record", trash.c.kind, trash.c.record)
Index("ix_trash_hash", trash.c.hash)
Index("ix_trash_secret_digest", trash.c.secret_digest)
Index("ix_trash_until_us", trash.c.until_us)

# Not used any more: such files are in `trash`, to which the step that added it copied these.
former_files = Table(
    "former_files",
    METADATA,
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="CASCADE"), primary_key=True),
    Column("source", String(255), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("length_us", BigInteger, nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("replaced_us", BigInteger, nullable=False),
)
Index("ix_former_files_replaced_us", former_files.c.replaced_us)

# A file that a video had, by its public hash and the `generation` of the file, until its length
# does not count any more for the project's quota. Without a foreign key to videos, as above.
past_files = Table(
    "past_files",
    METADATA,
    Column("hash", String(12), primary_key=True),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("added_us", BigInteger, nullable=False),
    Column("length_us", BigInteger, nullable=False),
)
Index("ix_past_files_project_id_added_us", past_files.c.project_id, past_files.c.added_us)
# Objects that are to be deleted: since the transaction that added the row, no other row names them.
# `address` is that of an object, or of a folder with all that is in it. Times are those of the
# database's clock: of that transaction, and from which on the deletion is due. `to_trash`: it goes
# to the trash, since a clock ordered it, not an owner. `cause` is why it failed last, "" if it did
# not.
removals = Table(
    "removals",
    METADATA,
    Column("address", String(400), primary_key=True),
    Column("is_folder", Boolean, nullable=False),
    Column("recorded_us", BigInteger, nullable=False),
    Column("due_us", BigInteger, nullable=False),
    Column("to_trash", Boolean, nullable=False, server_default=false()),
    Column("cause", String(100), nullable=False, server_default=""),
)
Index("ix_removals_due_us", removals.c.due_us)

# A one-time address to which a browser uploads without a token; `digest` is the SHA-256 of what the
# address holds. `video_id` is the video whose file it may replace; the link is removed with it.
upload_links = Table(
    "upload_links",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("facts", Text, nullable=False),
    Column("most_bytes", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("used_us", BigInteger),
    Column("created_us", BigInteger, nullable=False),
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="CASCADE")),
    sqlite_autoincrement=True,
)
Index("ix_upload_links_project_id", upload_links.c.project_id)
Index("ix_upload_links_video_id", upload_links.c.video_id)

# A resumable upload: `name` is its address, `length` null until it is known, `received` what of it
# is safe, `writer` the one that appends to it now or did last, `video_id` the video that it is to
# be, or whose file it `replaces`. Until `held_until_us` (the database's clock) no host
# may claim the upload, because a host is assembling its file.
uploads = Table(
    "uploads",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("link_id", Integer, ForeignKey("upload_links.id", ondelete="CASCADE")),
    Column("name", String(64), nullable=False, unique=True),
    Column("length", BigInteger),
    Column("received", BigInteger, nullable=False),
    Column("writer", String(32)),
    Column("most_bytes", BigInteger, nullable=False),
    Column("facts", Text, nullable=False),
    Column("state", String(12), nullable=False),
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="SET NULL")),
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("replaces", Boolean, nullable=False, server_default=false()),
    Column("held_until_us", BigInteger),
    sqlite_autoincrement=True,
)
Index("ix_uploads_project_id", uploads.c.project_id)
Index("ix_uploads_link_id", uploads.c.link_id)
Index("ix_uploads_video_id", uploads.c.video_id)
Index("ix_uploads_expires_us", uploads.c.expires_us)

# The safe parts of an upload, where several hosts may receive it: `size` bytes from `start` on, in
# the object that `token` names beside it. Together they have the first `received` bytes.
upload_pieces = Table(
    "upload_pieces",
    METADATA,
    Column("upload_id", Integer, ForeignKey("uploads.id", ondelete="CASCADE"), primary_key=True),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    Column("token", String(32), nullable=False),
)

# Where a video's file is fetched from, until it has arrived. `url` may hold secrets. Without a
# foreign key to tokens: `token_id` is the token of the request, for the event. `received` bytes of
# the file are on the disk, of the version that `validator` names (an entity tag or a date; null:
# none that a server would continue).
imports = Table(
    "imports",
    METADATA,
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="CASCADE"), primary_key=True),
    Column("url", Text, nullable=False),
    Column("token_id", Integer),
    Column("created_us", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False, server_default="0"),
    Column("validator", Text),
)

# A span of a video that one worker makes: the part of a job that has its number; it ends with the
# job. Number 0 is what the holder of the job makes itself: it is never leased. `run_after_us` is
# when the newest attempt began. `cost` is its expected work relative to the others, `done` how much
# of that is done; `facts` is what is to be made and `outcome` what was, both JSON for its workers.
# `state` is own (number 0), offered or done. Versions before 0.3 lease from this table: theirs are
# queued or running, and their `attempt`, `failures`, `owner`, `leased_until_us` and `project_id`,
# and the indexes, are used for these alone (`catalog.spans.adopt`).
spans = Table(
    "spans",
    METADATA,
    Column("id", WIDE, primary_key=True),
    Column("job_id", WIDE, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", String(12), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("owner", String(64)),
    Column("leased_until_us", BigInteger),
    Column("run_after_us", BigInteger, nullable=False),
    Column("cost", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("facts", Text, nullable=False),
    Column("outcome", Text),
    Column("created_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    UniqueConstraint("job_id", "number"),
    Column("project_id", Integer, nullable=False, server_default="0"),
    sqlite_autoincrement=True,
)
Index(
    "ix_spans_queued",
    spans.c.project_id,
    spans.c.job_id,
    spans.c.number,
    sqlite_where=QUEUED,
    postgresql_where=QUEUED,
)
Index(
    "ix_spans_running",
    spans.c.leased_until_us,
    sqlite_where=RUNNING,
    postgresql_where=RUNNING,
)
