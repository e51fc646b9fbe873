"""Queues alerts for those who want them, within the caller's transaction.

Whoever is told is decided here, when it happens: what nobody wants is not stored. An alert then
stays until its mail was accepted (`storage.catalog.alerts.mailings`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import func, insert, select

from media.alerts import AlertKind
from media.stream_events import OwnerEvent
from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.records.alerts import INSTALLATION, AlertSettings
from storage.catalog.schema.alert_tables import alerts
from storage.catalog.schema.tables import installation, projects

# Of one kind for one recipient. A mail shows fewer; more only come together while none can be
# sent, as of an encoder that reconnects every few seconds for days.
MOST_WAITING: Final = 500
_NOTHING: Final = PublicHash("")


class NewAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that is to be queued; `event` is the stored kind of its event, "" for none."""

    kind: AlertKind
    facts: Mapping[str, object]
    event: str = ""


def parse_settings(text: str) -> AlertSettings:
    """Return the settings that a column holds."""
    return msgspec.json.decode(text, type=AlertSettings)


async def queue_events(
    connection: AsyncConnection,
    project: int,
    subject: PublicHash,
    events: Sequence[OwnerEvent],
    now_us: int,
) -> None:
    """Queue the alerts that some events of a project are, for the project and the installation."""
    new = [
        NewAlert(kind=each.alert, facts=each.facts, event=each.kind)
        for each in events
        if each.alert is not None
    ]
    if new:
        of_project = select(projects.c.mail).where(projects.c.id == project)
        for scope, query in ((project, of_project), (INSTALLATION, select(installation.c.mail))):
            settings = (await connection.execute(query)).scalar_one_or_none()
            await _queue(connection, scope, settings or "{}", new, now_us, project, subject)


async def queue_of_installation(
    connection: AsyncConnection, new: Sequence[NewAlert], now_us: int
) -> None:
    """Queue alerts that are of no project."""
    settings = (await connection.execute(select(installation.c.mail))).scalar_one_or_none()
    await _queue(connection, INSTALLATION, settings or "{}", new, now_us)


async def _queue(
    connection: AsyncConnection,
    scope: int,
    settings: str,
    new: Sequence[NewAlert],
    now_us: int,
    project: int | None = None,
    subject: PublicHash = _NOTHING,
) -> None:
    """Queue alerts for the recipients of a scope; `project` is what they are about."""
    wanted = parse_settings(settings)
    rows: list[dict[str, object]] = [
        {
            "scope": scope,
            "kind": each.kind.value,
            "address": address,
            "project_id": project,
            "subject": subject,
            "event": each.event,
            "facts": json.dumps(each.facts, ensure_ascii=False),
            "created_us": now_us,
        }
        for each in new
        if each.kind not in wanted.off
        for address in wanted.to
        if not await _is_full(connection, scope, each.kind, address)
    ]
    if rows:
        await connection.execute(insert(alerts), rows)


async def _is_full(connection: AsyncConnection, scope: int, kind: AlertKind, address: str) -> bool:
    waiting = select(alerts.c.id).where(
        alerts.c.scope == scope, alerts.c.kind == kind.value, alerts.c.address == address
    )
    counted = select(func.count()).select_from(waiting.limit(MOST_WAITING).subquery())
    return (await connection.execute(counted)).scalar_one() >= MOST_WAITING
