"""A service with a mail server sends what is due, and tries the server out."""

from pathlib import Path

from headend.config.mail_settings import MailSettings
from headend.install.installation import catalog_location
from headend.roles.mail import mail_test, mailer_task
from headend.supervision import run_in_background
from media.alerts import AlertKind
from storage.catalog import open_catalog
from storage.catalog.alerts.mailings import GATHER_US
from storage.catalog.records.alerts import INSTALLATION, AlertEdit
from storage.catalog.records.common import Change
from tests.support.headend.installed import installed
from tests.support.mail_server import SENDER, mail_server
from tests.support.waiting import until

CONSOLE = "https://video.example/console"


async def test_what_is_due_is_sent_in_the_background(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with (
        open_catalog(catalog_location(settings), migrate=False) as catalog,
        mail_server() as server,
    ):
        mail = MailSettings(server=f"127.0.0.1:{server.port}", security="none", sender=SENDER)
        await catalog.recipients.change(INSTALLATION, AlertEdit(to=("a@b.example",)), Change(1))
        began_us = catalog.clock.now_us() - GATHER_US
        await catalog.conditions.begin(AlertKind.DISK, "x", "It is full.", began_us)
        await catalog.conditions.tell_due(began_us)
        task = mailer_task(mail, catalog, CONSOLE)
        assert task.name == "mail"
        async with run_in_background(task):
            await until(lambda: len(server.mails) == 1)
        answers = await mail_test(mail, catalog, CONSOLE)(["c@d.example"])
        assert [each.accepted for each in answers] == [True]
        assert [to for to, _ in server.mails] == ["a@b.example", "c@d.example"]
