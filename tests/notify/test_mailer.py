"""Mails that are due go out once, whatever the mail server does; nothing else waits for it.

The server is aiosmtpd on loopback, the clock that of the test, the databases are both; in
`make test` SQLite, since `tests/storage/catalog/alerts` has the statements on both there.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from media.alerts import AlertKind
from media.stream_events import EncoderOffEvent, SlateEvent
from media.ticks import MICROSECONDS
from notify.mailer import AT_ONCE, Mailer, MailTrial
from storage.catalog import open_catalog
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import VideoFailedEvent
from storage.catalog.records.common import Change
from tests.notify.conftest import Site
from tests.support.mail_server import MailServer, mail_server
from tests.support.shared_engines import mostly_on
from tests.support.waiting import until

pytestmark = mostly_on("sqlite")

SECOND = MICROSECONDS
HOUR = 3600
LOST = EncoderOffEvent(slot="primary", receiving_count=0, reason="lost")
DARK = SlateEvent(reason="lost")


@asynccontextmanager
async def writing(site: Site) -> AsyncGenerator[AsyncConnection]:
    """Write to the site's database, as one of its processes does."""
    async with (
        open_database(database_url(site.location), create=False) as database,
        database.writing() as connection,
    ):
        yield connection


async def happen(site: Site) -> None:
    """Let each kind of alert happen once."""
    now_us = site.now_us
    await site.catalog.events.add(site.stream.hash, LOST, now_us)
    await site.catalog.events.add(site.stream.hash, DARK, now_us)
    async with writing(site) as connection:
        failed = VideoFailedEvent(reason="no picture")
        await announce(connection, 1, "", failed, change=Change(now_us))
    for kind in (AlertKind.DISK, AlertKind.CERTIFICATE, AlertKind.BACKUP):
        await site.catalog.conditions.begin(kind, "here", f"The {kind} is wrong.", now_us)


def subjects(server: MailServer, address: str) -> list[str]:
    return sorted(mail["Subject"] for to, mail in server.mails if to == address)


OF_OWNER = [
    "[Headend] A video failed",
    "[Headend] Off air unexpectedly: My first stream",
    "[Headend] Primary encoder lost: My first stream",
]
OF_OPERATOR = sorted(
    [
        *OF_OWNER,
        "[Headend] A certificate needs you",
        "[Headend] A disk is nearly full",
        "[Headend] No good backup",
    ]
)


async def rename(site: Site, table: str, name: str) -> None:
    """Give a table of the database another name."""
    async with writing(site) as connection:
        await connection.execute(text(f"ALTER TABLE {table} RENAME TO {name}"))


async def pass_time(site: Site, mailer: Mailer, seconds: int, *, step: int = 30) -> None:
    """Let the mailer look for mails every `step` seconds for some time of the site's clock."""
    for _ in range(0, seconds, step):
        site.now_us += step * SECOND
        await mailer.send_due()


async def test_each_kind_is_told_once_to_each_recipient(site: Site) -> None:
    async with mail_server() as server:
        mailer = site.mailer(server.settings())
        await happen(site)
        await pass_time(site, mailer, 12 * HOUR, step=1800)
        assert subjects(server, "owner@a.example") == OF_OWNER
        assert subjects(server, "ops@a.example") == OF_OPERATOR
        key = str(site.stream.key).encode()
        assert all(b"S3CRET" not in raw and key not in raw for raw in server.raw)


async def test_a_server_that_is_gone_for_an_hour_loses_nothing(site: Site) -> None:
    async with mail_server() as server:
        mailer = site.mailer(server.settings())
        await server.go()
        await happen(site)
        await pass_time(site, mailer, HOUR, step=120)
        assert server.mails == []
        state = await site.catalog.mailings.find_state(1)
        assert state.waiting == 3
        assert "cannot be reached" in (state.problem or "")
        # What comes meanwhile is in the same mail.
        await site.catalog.events.add(site.stream.hash, LOST, site.now_us)
        await server.begin()
        await pass_time(site, mailer, 3 * HOUR, step=700)
        several = "[Headend] Primary encoders lost 2 times: My first stream"
        assert subjects(server, "owner@a.example") == sorted([*OF_OWNER[:2], several])
        assert len(subjects(server, "ops@a.example")) == 6
        assert (await site.catalog.mailings.find_state(1)).problem is None


async def test_one_that_refuses_for_an_hour_gets_each_mail_later(site: Site) -> None:
    async with mail_server() as server:
        mailer = site.mailer(server.settings())
        server.refuse_text = "451 4.3.0 try again later"
        await happen(site)
        await pass_time(site, mailer, HOUR, step=120)
        assert server.mails == []
        state = await site.catalog.mailings.find_state(1)
        assert state.problem == "the mail server refused: 451 4.3.0 try again later"
        server.refuse_text = ""
        await pass_time(site, mailer, 3 * HOUR, step=700)
        assert subjects(server, "owner@a.example") == OF_OWNER
        assert subjects(server, "ops@a.example") == OF_OPERATOR


async def test_one_that_answers_slowly_holds_nothing_else_up(site: Site) -> None:
    async with mail_server() as server:
        mailer = site.mailer(server.settings())
        server.may_answer.clear()
        await happen(site)
        site.now_us += 60 * SECOND
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(mailer.send_due())
            await until(lambda: server.asked == AT_ONCE)
            for _ in range(10):
                await site.catalog.events.add(site.stream.hash, DARK, site.now_us)
            assert not sending.done()
            assert server.mails == []
            server.may_answer.set()
        await pass_time(site, mailer, 60, step=10)
        assert len(subjects(server, "owner@a.example")) == 3
        assert len(subjects(server, "ops@a.example")) == 6


async def test_one_that_does_not_answer_to_a_text_gets_the_same_again(site: Site) -> None:
    async with mail_server() as server:
        mailer = site.mailer(server.settings())
        server.drops_after_text = True
        await site.catalog.events.add(site.stream.hash, DARK, site.now_us)
        await pass_time(site, mailer, 30)
        await site.catalog.events.add(site.stream.hash, DARK, site.now_us)
        server.drops_after_text = False
        await pass_time(site, mailer, 60)
        mine = [mail for to, mail in server.mails if to == "owner@a.example"]
        assert [mail["Message-ID"] for mail in mine] == [mine[0]["Message-ID"]] * 2
        assert mine[0].get_content() == mine[1].get_content()
        await pass_time(site, mailer, 600)
        assert len([to for to, _ in server.mails if to == "owner@a.example"]) == 3


async def test_what_was_due_is_sent_after_a_restart(
    site: Site, either_database: str | Path
) -> None:
    async with mail_server() as server:
        server.may_answer.clear()
        await happen(site)
        site.now_us += 60 * SECOND
        mailer = site.mailer(server.settings())
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(mailer.run())
            await until(lambda: server.asked == AT_ONCE)
            first.cancel()
        assert server.mails == []
        server.may_answer.set()
        async with open_catalog(either_database, migrate=False) as catalog:
            again = Site(catalog, site.stream, site.location, site.now_us)
            # At once: the process that stopped gave its leases back.
            await pass_time(again, again.mailer(server.settings()), 30, step=10)
        assert subjects(server, "owner@a.example") == OF_OWNER
        assert subjects(server, "ops@a.example") == OF_OPERATOR


async def test_of_two_processes_one_sends_each_mail(
    site: Site, either_database: str | Path
) -> None:
    async with mail_server() as server:
        await happen(site)
        async with open_catalog(either_database, migrate=False) as catalog:
            other = Site(catalog, site.stream, site.location, site.now_us)
            both = [site.mailer(server.settings()), other.mailer(server.settings())]
            for _ in range(20):
                site.now_us = other.now_us = site.now_us + 10 * SECOND
                async with asyncio.TaskGroup() as tasks:
                    for mailer in both:
                        tasks.create_task(mailer.send_due())
        assert subjects(server, "owner@a.example") == OF_OWNER
        assert subjects(server, "ops@a.example") == OF_OPERATOR


async def test_a_test_mail_is_answered_for_each_address(site: Site) -> None:
    async with mail_server() as server:
        trial = MailTrial(server.settings(), "https://v.example/console", lambda: site.now_us)
        answers = await trial(["a@b.example", "c@d.example"])
        assert [(each.to, each.accepted, each.answer) for each in answers] == [
            ("a@b.example", True, "250 2.0.0 Ok: queued as 4711"),
            ("c@d.example", True, "250 2.0.0 Ok: queued as 4711"),
        ]
        server.refuse_recipient = "550 5.1.1 unknown"
        assert [each.accepted for each in await trial(["a@b.example"])] == [False]


async def test_a_database_that_refuses_ends_no_mailer(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    async with mail_server() as server:
        mailer = site.mailer(server.settings())
        await happen(site)
        await rename(site, "mailings", "gone")
        await pass_time(site, mailer, 90)
        assert [each.message for each in caplog.records].count("mails not looked for") == 1
        await rename(site, "gone", "mailings")
        await pass_time(site, mailer, 30)
        assert len(subjects(server, "ops@a.example")) == 6
