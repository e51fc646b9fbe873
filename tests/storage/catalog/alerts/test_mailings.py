"""Mails that are due: each of one process, bundled, kept until accepted, and not for ever."""

import asyncio
from pathlib import Path

from media.alerts import AlertKind
from media.stream_events import EncoderOffEvent, SlateEvent
from media.ticks import DAY_US, MICROSECONDS
from storage.catalog import Catalog, open_catalog
from storage.catalog.alerts.mailings import (
    GATHER_US,
    KEPT_US,
    LEASE_US,
    MOST_SHOWN,
    PAUSE_US,
)
from storage.catalog.queries.alerts import MOST_WAITING
from storage.catalog.records.alerts import INSTALLATION, AlertBundle, AlertEdit, AlertSubject
from storage.catalog.records.common import Change, StreamRecord
from tests.support.shared_engines import ON_BOTH

NOW = 1_800_000_000_000_000
MINUTE = 60 * MICROSECONDS
LOST = EncoderOffEvent(slot="primary", receiving_count=1, reason="lost")
DARK = SlateEvent(reason="lost")


async def leased(catalog: Catalog, now_us: int, owner: str = "one") -> AlertBundle:
    bundle = await catalog.mailings.lease_due(owner, now_us)
    assert bundle is not None
    return bundle


async def only_of_owner(catalog: Catalog) -> None:
    await catalog.recipients.change(INSTALLATION, AlertEdit(to=()), Change(3))


@ON_BOTH
async def test_a_mail_has_all_that_came_until_it_is_due(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await only_of_owner(catalog)
    await catalog.events.add(stream.hash, LOST, NOW, host="here")
    await catalog.events.add(stream.hash, DARK, NOW + 1)
    await catalog.events.add(stream.hash, LOST, NOW + 2)
    assert await catalog.mailings.lease_due("one", NOW + GATHER_US - 1) is None
    first = await leased(catalog, NOW + GATHER_US)
    assert (first.kind, first.address, first.total) == (
        AlertKind.PRIMARY_LOST, "owner@a.example", 2,
    )  # fmt: skip
    assert (first.scope, first.project_name) == (1, "default")
    assert [(each.created_us, each.event, each.project_name) for each in first.alerts] == [
        (NOW, "encoder off", "default"), (NOW + 2, "encoder off", "default"),
    ]  # fmt: skip
    assert first.alerts[0].facts == {"slot": "primary", "receiving_count": 1, "reason": "lost"}
    assert first.alerts[0].subject == AlertSubject(noun="stream", id=stream.id, title=stream.title)
    second = await leased(catalog, NOW + GATHER_US + 1, "two")
    assert second.kind == AlertKind.OFF_AIR
    assert await catalog.mailings.lease_due("three", NOW + GATHER_US + 1) is None


@ON_BOTH
async def test_the_next_mail_of_a_kind_comes_five_minutes_later_with_what_came_meanwhile(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await only_of_owner(catalog)
    await catalog.events.add(stream.hash, LOST, NOW)
    sent_us = NOW + GATHER_US
    assert await catalog.mailings.finish(await leased(catalog, sent_us), sent_us)
    for second in range(1, 200):
        await catalog.events.add(stream.hash, LOST, sent_us + second * MICROSECONDS)
    assert await catalog.mailings.lease_due("one", sent_us + PAUSE_US - 1) is None
    bundle = await leased(catalog, sent_us + PAUSE_US)
    assert (bundle.total, len(bundle.alerts)) == (199, MOST_SHOWN)
    assert await catalog.mailings.finish(bundle, sent_us + PAUSE_US)
    assert await catalog.mailings.lease_due("one", sent_us + DAY_US) is None


@ON_BOTH
async def test_processes_at_once_send_each_mail_once(
    location: str | Path, catalog: Catalog, stream: StreamRecord
) -> None:
    many = AlertEdit(to=tuple(f"{number}@a.example" for number in range(10)))
    await catalog.recipients.change(1, many, Change(3))
    await catalog.events.add(stream.hash, LOST, NOW)
    await catalog.events.add(stream.hash, DARK, NOW)
    sent: list[tuple[int, str, str]] = []

    async def work(name: int) -> None:
        async with open_catalog(location, migrate=False) as own:
            now_us = NOW + GATHER_US
            while (bundle := await own.mailings.lease_due(f"{name}", now_us)) is not None:
                sent.append((bundle.scope, bundle.kind.value, bundle.address))
                assert await own.mailings.finish(bundle, now_us)

    async with asyncio.TaskGroup() as tasks:
        for name in range(3):
            tasks.create_task(work(name))
    assert len(sent) == len(set(sent)) == 22  # of ten owners and an operator, two kinds each


@ON_BOTH
async def test_a_failed_mail_waits_longer_each_time_and_takes_along_what_came(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await only_of_owner(catalog)
    await catalog.events.add(stream.hash, LOST, NOW)
    now_us, waits = NOW + GATHER_US, list[int]()
    for _ in range(6):
        bundle = await leased(catalog, now_us)
        await catalog.mailings.fail(bundle, now_us, "450 not now")
        failed_us = now_us
        while await catalog.mailings.lease_due("two", now_us) is None:
            now_us += 10 * MICROSECONDS
        waits.append((now_us - failed_us) // MICROSECONDS)
        # What "two" leased is given up as by a process that stops.
        await catalog.mailings.release(bundle_of(bundle, "two"), is_unsure=False)
    assert waits == [30, 60, 120, 300, 600, 600]
    assert (await catalog.mailings.find_state(1)).problem == "450 not now"
    await catalog.events.add(stream.hash, LOST, now_us)
    bundle = await leased(catalog, now_us + MICROSECONDS)
    assert bundle.total == 2
    assert await catalog.mailings.finish(bundle, now_us)
    state = await catalog.mailings.find_state(1)
    assert (state.waiting, state.problem) == (0, None)


def bundle_of(bundle: AlertBundle, owner: str) -> AlertBundle:
    return AlertBundle(
        scope=bundle.scope, kind=bundle.kind, address=bundle.address, owner=owner,
        upto=bundle.upto, total=bundle.total, alerts=bundle.alerts,
    )  # fmt: skip


@ON_BOTH
async def test_what_may_have_been_accepted_is_sent_again_as_it_was(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await only_of_owner(catalog)
    await catalog.events.add(stream.hash, LOST, NOW)
    killed = await leased(catalog, NOW + GATHER_US)
    await catalog.events.add(stream.hash, LOST, NOW + GATHER_US)
    later_us = NOW + GATHER_US + LEASE_US
    assert await catalog.mailings.lease_due("two", later_us - 1) is None
    again = await leased(catalog, later_us, "two")
    assert (again.upto, again.total) == (killed.upto, 1)
    # The first one was only slow.
    assert not await catalog.mailings.extend(killed, later_us)
    assert not await catalog.mailings.finish(killed, later_us)
    assert await catalog.mailings.fail(killed, later_us, "x") == 0
    assert await catalog.mailings.extend(again, later_us)
    await catalog.mailings.fail(again, later_us, "no answer", is_unsure=True)
    unsure = await leased(catalog, later_us + MINUTE, "three")
    assert unsure.upto == killed.upto
    await catalog.mailings.fail(unsure, later_us + MINUTE, "refused")
    all_of_it = await leased(catalog, later_us + 5 * MINUTE, "four")
    assert all_of_it.total == 2


@ON_BOTH
async def test_what_could_not_be_sent_for_days_is_dropped(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await only_of_owner(catalog)
    await catalog.events.add(stream.hash, LOST, NOW)
    await catalog.events.add(stream.hash, LOST, NOW + DAY_US)
    assert await catalog.mailings.find_oldest_us() == NOW
    now_us = NOW + KEPT_US + MINUTE
    assert await catalog.mailings.fail(await leased(catalog, now_us), now_us, "gone") == 1
    assert await catalog.mailings.find_oldest_us() == NOW + DAY_US


async def test_a_flood_has_an_end(catalog: Catalog, stream: StreamRecord) -> None:
    await only_of_owner(catalog)
    for number in range(MOST_WAITING + 3):
        await catalog.events.add(stream.hash, LOST, NOW + number)
    await catalog.events.add(stream.hash, DARK, NOW)
    assert (await leased(catalog, NOW + MINUTE)).total in (1, MOST_WAITING)
    assert (await catalog.mailings.find_state(1)).waiting == MOST_WAITING + 1


async def test_a_deleted_project_takes_its_mails_along(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    project = await catalog.projects.add("films", Change(1))
    await catalog.recipients.change(project.id, AlertEdit(to=("a@b.example",)), Change(2))
    stream = await catalog.streams.add(project.id, "Title", Change(3))
    await catalog.events.add(stream.hash, LOST, NOW)
    await catalog.streams.remove(stream.id, Change(4))
    bundle = await leased(catalog, NOW + MINUTE)
    assert bundle.alerts[0].subject is None
    assert bundle.alerts[0].hash == stream.hash
    assert await catalog.projects.remove(project.id, Change(5))
    while (rows := await catalog.removed_projects.find_rows(project.id)) is not None:
        await catalog.removed_projects.remove_rows(rows)
    while not await catalog.removed_projects.remove_rest(project.id):
        pass
    assert await catalog.mailings.lease_due("two", NOW + DAY_US) is None
    assert await catalog.mailings.find_oldest_us() is None


async def test_a_clock_that_was_ahead_delays_nothing(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await only_of_owner(catalog)
    ahead_us = NOW + 400 * DAY_US
    await catalog.events.add(stream.hash, LOST, ahead_us)
    assert await catalog.mailings.finish(await leased(catalog, ahead_us + MINUTE), ahead_us)
    await catalog.events.add(stream.hash, LOST, NOW)
    await leased(catalog, NOW + GATHER_US)
