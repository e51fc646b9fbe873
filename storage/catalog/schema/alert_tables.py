"""The tables of alerts: what operators are to be told by mail, and which mails were sent.

`scope` is the number of the project whose recipients are told, 0 for those of the installation.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from storage.catalog.schema.tables import METADATA, WIDE

# What one recipient is still to be told, in a mail of its kind. `project_id` is what it is about,
# null for the installation; `subject` the hash of a stream or video, "" for neither; `event` the
# stored kind of the event, "" for a condition. `facts` is a JSON object.
alerts = Table(
    "alerts",
    METADATA,
    Column("id", WIDE, primary_key=True),
    Column("scope", Integer, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("address", String(254), nullable=False),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE")),
    Column("subject", String(12), nullable=False),
    Column("event", String(40), nullable=False),
    Column("facts", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
Index(
    "ix_alerts_scope_kind_address_id",
    alerts.c.scope,
    alerts.c.kind,
    alerts.c.address,
    alerts.c.id,
)
Index("ix_alerts_project_id", alerts.c.project_id)

# The mails of a kind to one recipient: when one was last accepted (`sent_us`), when the next
# attempt may be made, and which process makes it, until `leased_until_us`. `upto_id` is the last
# alert of a mail that may have been accepted without an answer: the same is sent again. `problem`
# is why the last attempt failed.
mailings = Table(
    "mailings",
    METADATA,
    Column("scope", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(20), primary_key=True),
    Column("address", String(254), primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE")),
    Column("sent_us", BigInteger, nullable=False, server_default="0"),
    Column("run_after_us", BigInteger, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("owner", String(64)),
    Column("leased_until_us", BigInteger),
    Column("upto_id", BigInteger),
    Column("problem", String(400)),
)
Index("ix_mailings_project_id", mailings.c.project_id)

# What is wrong with a machine, or will be from `begins_us` on unless that is put off. `told_us` is
# when operators were last told (null: not yet). Nobody looks after it any more at `lapses_us`.
alert_conditions = Table(
    "alert_conditions",
    METADATA,
    Column("kind", String(20), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("text", String(1000), nullable=False),
    Column("begins_us", BigInteger, nullable=False),
    Column("told_us", BigInteger),
    Column("lapses_us", BigInteger),
)
