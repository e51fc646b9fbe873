"""The mails that are due, each leased to one process (`catalog.mailings`).

What waits of one kind for one recipient is one mail. It is due `GATHER_US` after the first of it
came, and `PAUSE_US` after the last one of its kind was accepted; after a failed attempt, later each
time. An alert is removed when its mail was accepted, or after `KEPT_US` without that.

A process that dies while a server has the whole mail and has not answered leaves it open whether it
was accepted. It is sent again then, the same with the same number, without what came since.
"""

import json
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, delete, func, or_, select, true, update

from media.alerts import AlertKind
from media.stream_keys import PublicHash
from media.ticks import DAY_US, MICROSECONDS
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.records.alerts import (
    INSTALLATION,
    Alert,
    AlertBundle,
    AlertMailState,
    AlertSubject,
)
from storage.catalog.schema.alert_tables import alerts, mailings
from storage.catalog.schema.tables import projects, streams, videos

# One loss is often several: of a stream's encoders, or of all streams of a site.
GATHER_US: Final = 10 * MICROSECONDS
PAUSE_US: Final = 300 * MICROSECONDS
# A long weekend without a mail server. What is older is no news, and in the event log.
KEPT_US: Final = 3 * DAY_US
LEASE_US: Final = 60 * MICROSECONDS
MOST_SHOWN: Final = 50  # alerts of one mail; it says how many more there are
_PAUSES: Final = (30, 60, 120, 300, 600)  # seconds after failures, the last one for all others
_LONGEST_PROBLEM: Final = 400  # of its column
# Times that are further in the future were written before a clock was set back.
_AHEAD_US: Final = 3600 * MICROSECONDS
_AT_ONCE: Final = 8
_OF: Final = alerts.c
_MAIL: Final = mailings.c


class Mailings(Repository):
    """The mails of an open catalog; each method is one transaction."""

    async def lease_due(self, owner: str, now_us: int) -> AlertBundle | None:
        """Lease the mail that has waited longest; None if none is due.

        `owner` must be a new random name for each lease, which lasts for `LEASE_US`.
        """
        async with self._database.reading() as connection:
            due = (await connection.execute(_due(now_us))).all()
        for group in due:
            async with self._database.writing() as connection:
                bundle = await _lease(connection, group, owner, now_us)
            if bundle is not None:
                return bundle
        return None

    async def extend(self, bundle: AlertBundle, now_us: int) -> bool:
        """Extend a lease; return False if it is not held any more."""
        return await self._change(bundle, leased_until_us=now_us + LEASE_US)

    async def finish(self, bundle: AlertBundle, now_us: int) -> bool:
        """Record that the mail was accepted; return False if its lease is not held any more."""
        released: dict[str, object] = {**_RELEASED, "upto_id": None, "problem": None}
        async with self._database.writing() as connection:
            changed = _held(bundle).values(sent_us=now_us, run_after_us=0, failures=0, **released)
            if (await connection.execute(changed)).rowcount != 1:
                return False
            which = and_(_is_of(alerts.c, bundle), _OF.id <= bundle.upto)
            await connection.execute(delete(alerts).where(which))
            return True

    async def fail(
        self, bundle: AlertBundle, now_us: int, problem: str, *, is_unsure: bool = False
    ) -> int:
        """Record that the mail was not accepted: it is sent again later.

        `is_unsure`: it may have been accepted, without an answer. Returns how many alerts were
        dropped because they are too old.
        """
        pause = _PAUSES[min(bundle.failures, len(_PAUSES) - 1)] * MICROSECONDS
        values: dict[str, object] = {
            **_RELEASED,
            "run_after_us": now_us + pause,
            "failures": bundle.failures + 1,
            "problem": problem[:_LONGEST_PROBLEM],
            "upto_id": bundle.upto if is_unsure else None,
        }
        old = and_(_is_of(alerts.c, bundle), _OF.created_us < now_us - KEPT_US)
        async with self._database.writing() as connection:
            if (await connection.execute(_held(bundle).values(values))).rowcount != 1:
                return 0
            return (await connection.execute(delete(alerts).where(old))).rowcount

    async def release(self, bundle: AlertBundle, *, is_unsure: bool) -> None:
        """Give a lease back because the process stops: another one sends the mail at once."""
        await self._change(bundle, **_RELEASED, upto_id=bundle.upto if is_unsure else None)

    async def find_state(self, scope: int | None) -> AlertMailState:
        """Return how the mails of a scope go; None: those of all."""
        of_alerts, of_mails = (
            true() if scope is None else each.scope == scope for each in (_OF, _MAIL)
        )
        waiting = select(func.count()).select_from(alerts).where(of_alerts)
        problem = select(_MAIL.problem).where(of_mails, _MAIL.problem.is_not(None))
        problem = problem.order_by(_MAIL.run_after_us.desc()).limit(1)
        async with self._database.reading() as connection:
            return AlertMailState(
                waiting=(await connection.execute(waiting)).scalar_one(),
                problem=(await connection.execute(problem)).scalar_one_or_none(),
            )

    async def find_oldest_us(self) -> int | None:
        """Return when the oldest alert that waits was queued; None if none does."""
        async with self._database.reading() as connection:
            return (await connection.execute(select(func.min(_OF.created_us)))).scalar_one()

    async def _change(self, bundle: AlertBundle, **values: object) -> bool:
        async with self._database.writing() as connection:
            return (await connection.execute(_held(bundle).values(values))).rowcount == 1


_RELEASED: Final[dict[str, object]] = {"owner": None, "leased_until_us": None}


def _is_of(columns: Any, key: Any) -> ColumnElement[bool]:  # Any: columns of a table, and a row
    return and_(
        columns.scope == key.scope, columns.kind == str(key.kind), columns.address == key.address
    )


def _held(bundle: AlertBundle) -> Any:  # Any: an update of a table has no short type
    return update(mailings).where(_is_of(mailings.c, bundle), _MAIL.owner == bundle.owner)


def _is_past(column: ColumnElement[int], now_us: int, wait_us: int = 0) -> ColumnElement[bool]:
    """Return the condition that `wait_us` have passed since a time, by a clock that may be set."""
    return ~column.between(now_us - wait_us + 1, now_us + _AHEAD_US)


def _due(now_us: int) -> Any:  # Any: as above
    groups = (
        select(_OF.scope, _OF.kind, _OF.address, func.min(_OF.created_us).label("first_us"))
        .group_by(_OF.scope, _OF.kind, _OF.address)
        .subquery()
    )
    return (
        select(groups)
        .select_from(groups.outerjoin(mailings, _is_of(mailings.c, groups.c)))
        .where(
            _is_past(groups.c.first_us, now_us, GATHER_US),
            or_(_MAIL.scope.is_(None), _may_be_leased(now_us)),
        )
        .order_by(groups.c.first_us)
        .limit(_AT_ONCE)
    )


def _may_be_leased(now_us: int) -> ColumnElement[bool]:
    return and_(
        _is_past(_MAIL.run_after_us, now_us),
        _is_past(_MAIL.sent_us, now_us, PAUSE_US),
        or_(_MAIL.leased_until_us.is_(None), _is_past(_MAIL.leased_until_us, now_us)),
    )


async def _lease(
    connection: AsyncConnection, group: Row[Any], owner: str, now_us: int
) -> AlertBundle | None:
    key = {"scope": group.scope, "kind": group.kind, "address": group.address}
    project = None if group.scope == INSTALLATION else group.scope
    await connection.execute(insert_missing(connection, mailings, {**key, "project_id": project}))
    which = and_(_is_of(mailings.c, group), _may_be_leased(now_us))
    query = select(mailings).where(which).with_for_update(skip_locked=True)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    waiting = _is_of(alerts.c, group)
    if row.upto_id is not None:
        again = and_(waiting, _OF.id <= row.upto_id)
        newest = (await connection.execute(select(func.max(_OF.id)).where(again))).scalar_one()
        waiting = waiting if newest is None else again
    found = select(func.max(_OF.id), func.count()).where(waiting)
    upto, total = (await connection.execute(found)).one()
    if upto is None:
        return None
    values = {"owner": owner, "leased_until_us": now_us + LEASE_US, "upto_id": upto}
    await connection.execute(update(mailings).where(which).values(values))
    name = select(projects.c.key, projects.c.name).where(projects.c.id == group.scope)
    of = (await connection.execute(name)).one_or_none()
    return AlertBundle(
        scope=group.scope,
        kind=AlertKind(group.kind),
        address=group.address,
        owner=owner,
        upto=upto,
        total=total,
        alerts=await _first(connection, waiting),
        failures=row.failures,
        project="" if of is None else of.key,
        project_name="" if of is None else of.name,
    )


async def _first(connection: AsyncConnection, which: ColumnElement[bool]) -> tuple[Alert, ...]:
    """Return the first of some alerts, with the titles and numbers of what they are about."""
    query = (
        select(
            _OF.id, _OF.created_us, _OF.event, _OF.facts, _OF.subject,
            projects.c.key, projects.c.name,
            streams.c.id.label("stream"), streams.c.title.label("stream_title"),
            videos.c.id.label("video"), videos.c.title.label("video_title"),
        )
        .select_from(
            alerts.outerjoin(projects, projects.c.id == _OF.project_id)
            .outerjoin(streams, streams.c.hash == _OF.subject)
            .outerjoin(videos, videos.c.hash == _OF.subject)
        )
        .where(which)
        .order_by(_OF.id)
        .limit(MOST_SHOWN)
    )  # fmt: skip
    return tuple(_alert(row) for row in await connection.execute(query))


def _alert(row: Any) -> Alert:  # Any: a row of that many columns has no type
    subject = None
    if row.stream is not None:
        subject = AlertSubject(noun="stream", id=row.stream, title=row.stream_title)
    elif row.video is not None:
        subject = AlertSubject(noun="video", id=row.video, title=row.video_title)
    return Alert(
        id=row.id,
        created_us=row.created_us,
        event=row.event,
        facts=json.loads(row.facts),
        hash=PublicHash(row.subject),
        project=row.key or "",
        project_name=row.name or "",
        subject=subject,
    )
