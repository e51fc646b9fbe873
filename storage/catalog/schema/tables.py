"""The catalog's tables, as the newest migration leaves them.

Times are microseconds since the Unix epoch in 64-bit integers (`_us`). A `_fold` column holds its
neighbour without case, for searching and sorting alike on every database (SQLite's own LIKE folds
ASCII only), and a `_plain` column the same without accents, for searching alone
(`storage.catalog.queries.text_search`). With `sqlite_autoincrement` a number is never given twice,
not even when the newest row was deleted: clients keep numbers. A test compares these tables with
what the migrations make.
"""

from typing import Final

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
    false,
    text,
)

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

# In the order of code points on both databases, whatever the server's own order is.
_FOLDED: Final = Text().with_variant(Text(collation="C"), "postgresql")

# The numbers of rows that come and go with the traffic: 31 bits would last a busy installation for
# some years. SQLite's own are of 64 bits, under this name only.
WIDE: Final = BigInteger().with_variant(Integer, "sqlite")

# One row for the whole installation: what the first start decided. `broadcaster_secret` signs
# private channels and publishing over HTTP. `key` is also in the object store, to which the catalog
# belongs (`storage.installation_key`); "" until a start has written it there. `relay_secret` is
# what the hosts derive the key of the links between them from. Until `removals_held_us` nothing is
# deleted that rows do not name any more: a backup is being made. `backed_up_us` is when the newest
# complete one was begun. `mail` is who gets mail of alerts (`storage.catalog.records.alerts`), a
# JSON object, as that of a project.
installation = Table(
    "installation",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1", name="single"), primary_key=True),
    Column("broadcaster_key", String(32), nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("broadcaster_secret", String(64), nullable=False, server_default=""),
    Column("key", String(32), nullable=False, server_default=""),
    Column("relay_secret", String(64), nullable=False, server_default=""),
    Column("pause", String(400)),
    Column("paused_us", BigInteger),
    Column("mail", Text, nullable=False, server_default="{}"),
    Column("removals_held_us", BigInteger),
    Column("backed_up_us", BigInteger),
)

# One row: by which turns of its lease the object store is this catalog's (`storage.store_lease`).
# The store has `turn`, or `next_turn` if that is not "". `confirmed_us` is when it was last seen
# to, `tried_us` when the next turn was last about to be written, both by the database's clock.
store_claims = Table(
    "store_claims",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1", name="single"), primary_key=True),
    Column("turn", String(32), nullable=False),
    Column("next_turn", String(32), nullable=False),
    Column("confirmed_us", BigInteger, nullable=False),
    Column("tried_us", BigInteger, nullable=False),
)

# `settings` is a JSON object: defaults for the project's streams. `slate` names the picture of
# their slate (null: the card). `origins` are the pages' origins that may upload from a browser,
# with spaces between. `removed_us` is when it was deleted: from then on it is not shown, and its
# rows are removed in batches, its own as the last.
projects = Table(
    "projects",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", String(12), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False, server_default="0"),
    Column("settings", Text, nullable=False, server_default="{}"),
    Column("version", BigInteger, nullable=False, server_default="1"),
    Column("slate", String(64)),
    Column("origins", Text, nullable=False, server_default=""),
    Column("removed_us", BigInteger),
    Column("mail", Text, nullable=False, server_default="{}"),
    sqlite_autoincrement=True,
)

# How many rows of a kind a project has, kept right by the transactions that add and remove them:
# counting 100 000 rows for each page would cost more than the page
# (`storage.catalog.queries.counters`).
totals = Table(
    "totals",
    METADATA,
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(40), primary_key=True),
    Column("number", Integer, nullable=False),
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
    # The token with which it was added. No foreign key: numbers are not used again.
    Column("created_by", Integer, nullable=True),
    sqlite_autoincrement=True,
)

# A browser that is signed in with a token; `id` is the SHA-256 of what its cookie holds, in
# hexadecimal. It ends at `expires_us`, or when it was not seen for long.
sessions = Table(
    "sessions",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("token_id", Integer, ForeignKey("tokens.id", ondelete="CASCADE"), nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)
Index("ix_sessions_token_id_created_us", sessions.c.token_id, sessions.c.created_us)

# An address that signs a browser in once; `id` is the SHA-256 of what the address holds.
sign_in_links = Table(
    "sign_in_links",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("token_id", Integer, ForeignKey("tokens.id", ondelete="CASCADE"), nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)
Index("ix_sign_in_links_token_id", sign_in_links.c.token_id)


def _labels(name: str) -> Table:
    """Return a table of names that are unique in a project: `name_fold` ignores case."""
    table = Table(
        name,
        METADATA,
        Column("id", Integer, primary_key=True),
        Column(
            "project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False
        ),
        Column("name", String(255), nullable=False),
        Column("name_fold", _FOLDED, nullable=False),
        Column("active", Boolean, nullable=False),
        Column("created_us", BigInteger, nullable=False),
        Column("updated_us", BigInteger, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("name_plain", _FOLDED),
        UniqueConstraint("project_id", "name_fold"),
        sqlite_autoincrement=True,
    )
    Index(f"ix_{name}_project_id_id", table.c.project_id, table.c.id)
    return table


tags = _labels("tags")
categories = _labels("categories")

# `options` is a JSON object: how the player behaves and looks.
players = Table(
    "players",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("name_fold", _FOLDED, nullable=False),
    Column("options", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("name_plain", _FOLDED),
    sqlite_autoincrement=True,
)
Index("ix_players_project_id_id", players.c.project_id, players.c.id)

# `secret` is shown to the owner again and again, so it is kept; it is looked up by its digest, so
# that no index gives away how much of a guess was right. `next_backup` is the number of the next
# backup. `on_air` is a slot's number (0 = primary). `countries` are ISO 3166-1 numeric codes with
# commas between them, "" for everywhere. `settings` is a JSON object: what differs from its
# project's. `paused` means that the owner paused the output. `event_number` is the number of its
# newest event, `slate` as in projects. `poster_labels` are as of videos, `image_width` and
# `image_height` the largest poster's, `image_us` its time.
streams = Table(
    "streams",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("hash", String(12), nullable=False, unique=True),
    Column("secret", String(36), nullable=False),
    Column("secret_digest", String(64), nullable=False, unique=True),
    Column("title", String(255), nullable=False),
    Column("title_fold", _FOLDED, nullable=False),
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
    Column("category_id", Integer, ForeignKey("categories.id", ondelete="SET NULL")),
    Column("player_id", Integer, ForeignKey("players.id", ondelete="SET NULL")),
    Column("countries", Text, nullable=False, server_default=""),
    Column("settings", Text, nullable=False, server_default="{}"),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("event_number", Integer, nullable=False, server_default="0"),
    Column("poster_labels", String(255), nullable=False, server_default=""),
    Column("image_us", BigInteger),
    Column("slate", String(64)),
    Column("image_width", Integer, nullable=False, server_default="0"),
    Column("image_height", Integer, nullable=False, server_default="0"),
    Column("held_until_us", BigInteger),
    Column("refused_us", BigInteger),
    Column("title_plain", _FOLDED),
    sqlite_autoincrement=True,
)
# The two orders of lists.
Index("ix_streams_project_id_id", streams.c.project_id, streams.c.id)
Index("ix_streams_project_id_title_fold", streams.c.project_id, streams.c.title_fold, streams.c.id)
# For the deletion of a category or a player.
Index("ix_streams_category_id", streams.c.category_id)
Index("ix_streams_player_id", streams.c.player_id)

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

stream_tags = Table(
    "stream_tags",
    METADATA,
    Column("stream_id", Integer, ForeignKey("streams.id", ondelete="CASCADE"), primary_key=True),
    Column("tag_id", Integer, ForeignKey("tags.id", ondelete="CASCADE"), primary_key=True),
)
Index("ix_stream_tags_tag_id", stream_tags.c.tag_id)

# `title` null: its owner gave none, or took it back, and it is `file_title`, the file's name
# without its extension; `title_fold` folds the one that shows. `name` is the slug. `length_us` in
# microseconds. `state` is uploading, queued, transcoding, completed or failed; `phase` is what
# lists ask for: inprogress, completed or failed. `media` is the published renditions' folder below
# the video's own (null: nothing plays yet), `posters` that of its posters with their labels in
# `poster_labels`, with commas between. `source` is the address of the uploaded file. `reason` is
# why it failed, `warnings` a JSON array of sentences. `generation` counts the files it had.
# `expires_us` is when a recording is deleted. `previews` is the folder of its preview pictures,
# `subtitles` a JSON array of its subtitles' renditions. `attempt` is the number of the last attempt
# of its jobs that are over.
videos = Table(
    "videos",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("hash", String(12), nullable=False, unique=True),
    Column("title", String(255)),
    Column("file_title", String(255), nullable=False),
    Column("title_fold", _FOLDED, nullable=False),
    Column("description", Text, nullable=False),
    Column("name", String(255), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("length_us", BigInteger, nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("state", String(12), nullable=False),
    Column("phase", String(12), nullable=False),
    Column("progress", Integer, nullable=False),
    Column("eta", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("warnings", Text, nullable=False),
    Column("uploaded_us", BigInteger),
    Column("transcoding_us", BigInteger),
    Column("completed_us", BigInteger),
    Column("created_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("published", Boolean, nullable=False),
    Column("published_us", BigInteger),
    Column("hidden", Boolean, nullable=False),
    Column("category_id", Integer, ForeignKey("categories.id", ondelete="SET NULL")),
    Column("player_id", Integer, ForeignKey("players.id", ondelete="SET NULL")),
    Column("countries", Text, nullable=False),
    Column("source", String(255)),
    Column("generation", Integer, nullable=False),
    Column("media", String(64)),
    Column("posters", String(64)),
    Column("poster_labels", String(255), nullable=False),
    Column("image_us", BigInteger),
    Column("storage_size", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("expires_us", BigInteger),
    Column("previews", String(64)),
    Column("subtitles", Text, nullable=False, server_default="[]"),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("title_plain", _FOLDED),
    sqlite_autoincrement=True,
)
Index("ix_videos_project_id_id", videos.c.project_id, videos.c.id)
Index("ix_videos_project_id_phase_id", videos.c.project_id, videos.c.phase, videos.c.id)
Index("ix_videos_project_id_created_us_id", videos.c.project_id, videos.c.created_us, videos.c.id)
Index("ix_videos_category_id", videos.c.category_id)
Index("ix_videos_player_id", videos.c.player_id)
Index("ix_videos_expires_us", videos.c.expires_us)

video_tags = Table(
    "video_tags",
    METADATA,
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="CASCADE"), primary_key=True),
    Column("tag_id", Integer, ForeignKey("tags.id", ondelete="CASCADE"), primary_key=True),
)
Index("ix_video_tags_tag_id", video_tags.c.tag_id)

# A rung of a video's ladder; `number` is the resolution's public one. `size` in bytes,
# `transcode_seconds` what making it took; `transcoded` means that it plays.
video_resolutions = Table(
    "video_resolutions",
    METADATA,
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("transcoded", Boolean, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("transcode_seconds", Integer, nullable=False),
)

# Work of a `kind` that some worker is to do (`storage.leases`), removed when it is over: `state` is
# queued, running or waiting (for its parts). While it runs it is leased to `owner` until
# `leased_until_us`; a worker with an older `attempt` has lost it. It is of a project, and may be
# about one of its videos, or the part `number` (from 1) of a job: it ends with these. `payload` is
# for its worker. `project_id` is for an index, too, in the order in which projects take turns.
jobs = Table(
    "jobs",
    METADATA,
    Column("id", WIDE, primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("video_id", Integer, ForeignKey("videos.id", ondelete="CASCADE")),
    Column("state", String(12), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("owner", String(64)),
    Column("leased_until_us", BigInteger),
    Column("run_after_us", BigInteger, nullable=False),
    Column("facts", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("project_id", Integer, nullable=False, server_default="0"),
    Column("number", Integer, nullable=False, server_default="0"),
    Column("payload", Text),
    Column("job_id", WIDE, ForeignKey("jobs.id", ondelete="CASCADE")),
    CheckConstraint("video_id IS NULL OR job_id IS NULL", name="subject"),
    sqlite_autoincrement=True,
)
# The queue, and what is leased: a poll and a lease read these alone
# (`storage.catalog.jobs.queue`).
QUEUED: Final = text("state = 'queued'")
RUNNING: Final = text("state = 'running'")
Index(
    "ix_jobs_queued",
    jobs.c.kind,
    jobs.c.project_id,
    jobs.c.run_after_us,
    jobs.c.id,
    sqlite_where=QUEUED,
    postgresql_where=QUEUED,
)
Index(
    "ix_jobs_running",
    jobs.c.kind,
    jobs.c.leased_until_us,
    sqlite_where=RUNNING,
    postgresql_where=RUNNING,
)
Index("ix_jobs_video_id", jobs.c.video_id)
_QUEUED_PART: Final = text("state = 'queued' AND job_id IS NOT NULL")
Index(
    "ix_jobs_queued_parts",
    jobs.c.kind,
    jobs.c.project_id,
    jobs.c.job_id,
    jobs.c.number,
    sqlite_where=_QUEUED_PART,
    postgresql_where=_QUEUED_PART,
)
Index("ix_jobs_job_id_number", jobs.c.job_id, jobs.c.number, unique=True)

# What happened in a project, for its owner: to a stream, to a video, or done by the bearer of a
# token; `facts` is a JSON object. Without foreign keys to streams, videos and tokens: the event of
# a deletion must outlive what was deleted. `subject` is the hash of the stream or video, "" for
# neither; `number` counts the events of a stream, null where it is about none.
events = Table(
    "events",
    METADATA,
    Column("id", WIDE, primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("subject", String(12), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("facts", Text, nullable=False),
    Column("token_id", Integer),
    Column("created_us", BigInteger, nullable=False),
    Column("number", Integer),
    sqlite_autoincrement=True,
)
Index("ix_events_project_id_id", events.c.project_id, events.c.id)
Index("ix_events_project_id_created_us", events.c.project_id, events.c.created_us)
Index("ix_events_project_id_subject_id", events.c.project_id, events.c.subject, events.c.id)

# What the web-socket broadcaster has still to deliver, or delivered lately: `body` is the event's
# data as it goes out. Numbers rise in the order in which their transactions end.
notices = Table(
    "notices",
    METADATA,
    Column("id", WIDE, primary_key=True),
    Column("channel", String(200), nullable=False),
    Column("event", String(200), nullable=False),
    Column("body", Text, nullable=False),
    Column("besides", String(32)),
    Column("created_us", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

# A request to the process that receives a stream. `answered_us` is null until it was carried out,
# withdrawn or found too late; before that, `answer` only says that it was taken. No foreign key:
# the command to forget a deleted stream outlives its row.
commands = Table(
    "commands",
    METADATA,
    Column("id", WIDE, primary_key=True),
    Column("stream_id", Integer, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("facts", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("answered_us", BigInteger),
    Column("answer", Text),
    sqlite_autoincrement=True,
)
Index("ix_commands_answered_us_id", commands.c.answered_us, commands.c.id)

# The processes that receive streams, while they run. Each sets `seen_us` once a second; it has done
# so without a break since `steady_us`. All times are the database's. `address` is what other hosts
# connect to (null: none may).
hosts = Table(
    "hosts",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    Column("address", String(255)),
    Column("version", String(64), nullable=False),
    Column("started_us", BigInteger, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
    Column("steady_us", BigInteger, nullable=False),
    Column("capacity", Integer),
    sqlite_autoincrement=True,
)

# Which host runs a stream's engine (null: none, as its last run has ended). `generation` rises
# with each owner of a stream. Without foreign keys: the owner of a deleted stream must still end
# its run, and a host that is gone may have left a run open.
stream_owners = Table(
    "stream_owners",
    METADATA,
    Column("stream_id", Integer, primary_key=True, autoincrement=False),
    Column("host_id", Integer),
    Column("generation", Integer, nullable=False),
    Column("taken_us", BigInteger, nullable=False),
)
Index("ix_stream_owners_host_id", stream_owners.c.host_id)

# The folders of copies that a CDN may read (`storage.objects.cdn_copies`), by their secret name.
# The stream or video with that hash has one as long as everyone may see it. `withdrawn_us` is when
# that ended: its copies are being deleted, and then the row. Without foreign keys: the copies of a
# deleted stream or video must still be deleted.
cdn_folders = Table(
    "cdn_folders",
    METADATA,
    Column("token", String(32), primary_key=True),
    Column("hash", String(12), nullable=False),
    Column("withdrawn_us", BigInteger),
)
_IN_USE: Final = text("withdrawn_us IS NULL")
Index(
    "ix_cdn_folders_hash",
    cdn_folders.c.hash,
    unique=True,
    sqlite_where=_IN_USE,
    postgresql_where=_IN_USE,
)
