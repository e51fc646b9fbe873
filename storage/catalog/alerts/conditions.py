"""What is wrong with a machine, from when it is found until it is not (`catalog.conditions`).

Whoever looks after something says so again and again, as often as it looks: `begin` while it is
wrong, `end` once it is well. Operators are told when it begins, and once a day while it lasts. What
must be done regularly is the same the other way round: whoever has done it puts off (`put_off`) the
time from which on its absence is a condition, so that nobody need be there to find it.
"""

from typing import Final

from sqlalchemy import ColumnElement, and_, delete, or_, select, update

from media.alerts import AlertKind
from media.ticks import DAY_US
from storage.catalog.engine.database import Repository
from storage.catalog.queries.alerts import NewAlert, queue_of_installation
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.schema.alert_tables import alert_conditions

_TABLE: Final = alert_conditions.c
# A condition that lasts must not be forgotten, and not fill a mailbox either.
_AGAIN_US: Final = DAY_US
_LONGEST_TEXT: Final = 1000  # of its column
_LONGEST_KEY: Final = 255


class Conditions(Repository):
    """The conditions of an installation; each method is one transaction.

    `key` tells those of one kind apart, as the host and its disk. `text` is a sentence for people,
    without a secret.
    """

    async def begin(
        self, kind: AlertKind, key: str, text: str, now_us: int, *, lapses_us: int | None = None
    ) -> None:
        """Record that something is wrong, unless it is on record.

        At `lapses_us` it is forgotten if that was not said again; None: it is to be ended.
        """
        begun = {"begins_us": now_us, "told_us": None}
        async with self._database.writing() as connection:
            row = {"kind": kind.value, "key": key[:_LONGEST_KEY], "text": text[:_LONGEST_TEXT]}
            await connection.execute(insert_missing(connection, alert_conditions, row | begun))
            which = _which(kind, key)
            put_off = and_(which, _TABLE.begins_us > now_us)
            await connection.execute(update(alert_conditions).where(put_off).values(begun))
            said = {"text": row["text"], "lapses_us": lapses_us}
            await connection.execute(update(alert_conditions).where(which).values(said))

    async def put_off(self, kind: AlertKind, key: str, text: str, until_us: int) -> None:
        """Record what is wrong from `until_us` on unless it is put off again, or ended."""
        values = {
            "text": text[:_LONGEST_TEXT],
            "begins_us": until_us,
            "told_us": None,
            "lapses_us": None,
        }
        async with self._database.writing() as connection:
            row = {"kind": kind.value, "key": key[:_LONGEST_KEY], **values}
            await connection.execute(insert_missing(connection, alert_conditions, row))
            changed = update(alert_conditions).where(_which(kind, key)).values(values)
            await connection.execute(changed)

    async def end(self, kind: AlertKind, key: str) -> None:
        """Record that nothing is wrong."""
        which = _which(kind, key)
        async with self._database.reading() as connection:  # most calls find nothing to write
            query = select(_TABLE.key).where(which)
            if (await connection.execute(query)).scalar_one_or_none() is None:
                return
        async with self._database.writing() as connection:
            await connection.execute(delete(alert_conditions).where(which))

    async def tell_due(self, now_us: int) -> int:
        """Queue alerts of what has begun, or has lasted for a day since the last one.

        Returns how many conditions there were.
        """
        lapsed = _TABLE.lapses_us <= now_us
        # Told in the future: the clock was ahead.
        is_told = _TABLE.told_us.between(now_us - _AGAIN_US + 1, now_us + _AGAIN_US)
        due = and_(
            _TABLE.begins_us <= now_us,
            or_(_TABLE.told_us.is_(None), ~is_told),
            or_(_TABLE.lapses_us.is_(None), ~lapsed),
        )
        async with self._database.reading() as connection:
            query = select(_TABLE.key).where(or_(due, lapsed)).limit(1)
            if (await connection.execute(query)).scalar_one_or_none() is None:
                return 0
        async with self._database.writing() as connection:
            await connection.execute(delete(alert_conditions).where(lapsed))
            query = select(alert_conditions).where(due).order_by(_TABLE.kind, _TABLE.key)
            rows = (await connection.execute(query.with_for_update(skip_locked=True))).all()
            new = [NewAlert(kind=AlertKind(row.kind), facts={"text": row.text}) for row in rows]
            await queue_of_installation(connection, new, now_us)
            for row in rows:
                told = update(alert_conditions).where(_which(AlertKind(row.kind), row.key))
                await connection.execute(told.values(told_us=now_us))
            return len(rows)


def _which(kind: AlertKind, key: str) -> ColumnElement[bool]:
    return and_(_TABLE.kind == kind.value, _TABLE.key == key[:_LONGEST_KEY])
