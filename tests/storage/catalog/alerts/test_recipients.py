"""Who gets mail: kept for each project and the installation, and asked when something happens."""

import pytest

from media.alerts import AlertKind
from media.stream_events import SlateEvent
from storage.catalog import Catalog
from storage.catalog.records.alerts import INSTALLATION, AlertEdit, AlertSettings
from storage.catalog.records.common import Change, StreamRecord
from tests.support.shared_engines import ON_BOTH

LOST = SlateEvent(reason="lost")


@ON_BOTH
async def test_addresses_and_switches_are_kept_for_each_scope(
    catalog: Catalog, stream: StreamRecord
) -> None:
    edit = AlertEdit(kinds={AlertKind.DISK: False, AlertKind.OFF_AIR: True})
    after = await catalog.recipients.change(INSTALLATION, edit, Change(3))
    assert after == AlertSettings(to=("ops@a.example",), off=(AlertKind.DISK,))
    assert await catalog.recipients.find(INSTALLATION) == after
    assert await catalog.recipients.find(1) == AlertSettings(to=("owner@a.example",))
    on = AlertEdit(kinds={AlertKind.DISK: True})
    assert await catalog.recipients.change(INSTALLATION, on, Change(4)) == AlertSettings(
        to=("ops@a.example",)
    )
    newest = (await catalog.events.find_page(1)).items[:4]
    assert [(each.kind, each.facts["keys"]) for each in newest] == [
        ("installation mail changed", ["disk"]), ("installation mail changed", ["disk"]),
        ("installation mail changed", ["to"]), ("project mail changed", ["to"]),
    ]  # fmt: skip


async def test_there_are_none_of_a_project_that_is_not_there(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    assert await catalog.recipients.find(77) is None
    assert await catalog.recipients.find(1 << 40) is None
    assert await catalog.recipients.change(77, AlertEdit(to=("a@b.example",)), Change(3)) is None


async def test_a_check_keeps_the_settings(catalog: Catalog, stream: StreamRecord) -> None:
    def refuse(before: AlertSettings) -> None:
        assert before.to == ("owner@a.example",)
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        await catalog.recipients.change(1, AlertEdit(to=()), Change(3), check=refuse)
    assert await catalog.recipients.find(1) == AlertSettings(to=("owner@a.example",))


@ON_BOTH
async def test_what_waits_for_those_who_do_not_want_it_any_more_is_dropped(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await catalog.events.add(stream.hash, LOST, 5)
    assert (await catalog.mailings.find_state(1)).waiting == 1
    await catalog.recipients.change(1, AlertEdit(kinds={AlertKind.OFF_AIR: False}), Change(6))
    assert (await catalog.mailings.find_state(1)).waiting == 0
    await catalog.events.add(stream.hash, LOST, 7)
    assert (await catalog.mailings.find_state(1)).waiting == 0
    assert (await catalog.mailings.find_state(INSTALLATION)).waiting == 2
    await catalog.recipients.change(INSTALLATION, AlertEdit(to=()), Change(8))
    assert (await catalog.mailings.find_state(INSTALLATION)).waiting == 0
