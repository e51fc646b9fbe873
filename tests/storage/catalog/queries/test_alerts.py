"""Alerts are queued for those who want them, within the transaction of what happened."""

import pytest

from media.alerts import AlertKind
from media.stream_events import LiveEvent, SlateEvent
from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.queries.alerts import NewAlert, queue_events, queue_of_installation
from storage.catalog.records.alerts import INSTALLATION, AlertEdit
from storage.catalog.records.common import Change

LOST = SlateEvent(reason="lost")


async def test_nothing_is_stored_that_nobody_wants(catalog: Catalog, database: Database) -> None:
    await catalog.installation.first_start(1)
    edit = AlertEdit(to=("ops@a.example",), kinds={AlertKind.OFF_AIR: False})
    await catalog.recipients.change(INSTALLATION, edit, Change(2))
    async with database.writing() as connection:
        await queue_events(connection, 1, "", [LOST, LiveEvent()], 3)
        new = [NewAlert(kind=AlertKind.DISK, facts={"text": "full"})]
        await queue_of_installation(connection, new, 3)
    assert (await catalog.mailings.find_state(1)).waiting == 0
    assert (await catalog.mailings.find_state(INSTALLATION)).waiting == 1


async def test_what_did_not_happen_is_not_told(catalog: Catalog, database: Database) -> None:
    await catalog.installation.first_start(1)
    await catalog.recipients.change(1, AlertEdit(to=("a@b.example",)), Change(2))
    with pytest.raises(RuntimeError):
        async with database.writing() as connection:
            await queue_events(connection, 1, "", [LOST], 3)
            raise RuntimeError
    assert (await catalog.mailings.find_state(1)).waiting == 0
