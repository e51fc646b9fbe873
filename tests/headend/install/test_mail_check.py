"""Whether operators get mail, as the doctor finds it: server, addresses and what waits."""

from pathlib import Path

import msgspec

from api.operations.report import Finding
from headend.config.mail_settings import MailSettings
from headend.config.settings import ServiceSettings
from headend.config.smtp_server import smtp_server
from headend.install.installation import catalog_location
from headend.install.mail_check import check_mail
from media.stream_events import SlateEvent
from notify.mailer import Mailer
from storage.catalog import open_catalog
from storage.catalog.records.alerts import AlertEdit
from storage.catalog.records.common import Change
from tests.support.headend.installed import installed
from tests.support.mail_server import SENDER, mail_server

NOW = 1_800_000_000_000_000
HOUR_US = 3_600_000_000


async def test_what_keeps_mail_from_operators_is_found(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with (
        open_catalog(catalog_location(settings), migrate=False) as catalog,
        mail_server() as server,
    ):
        place = MailSettings(server=f"127.0.0.1:{server.port}", security="none", sender=SENDER)
        served = msgspec.structs.replace(settings, mail=place)

        async def found(settings: ServiceSettings, now_us: int = NOW) -> tuple[str, str]:
            finding: Finding = await check_mail(settings, catalog, now_us)
            assert finding.topic == "mail"
            return finding.verdict, finding.text

        assert await found(settings) == ("well", "no mail server is set, and nobody is to get mail")
        assert (await found(served))[1].endswith("nobody is to get mail: see the console")
        await catalog.recipients.change(1, AlertEdit(to=("a@b.example",)), Change(1))
        assert await found(settings) == (
            "act", "addresses are to get mail, and no mail server is set: mail.server",
        )  # fmt: skip
        assert await found(served) == ("well", "the mail server answers")
        assert server.mails == []
        stream = (await catalog.streams.add(1, "Title", Change(1))).hash
        await catalog.events.add(stream, SlateEvent(reason="lost"), NOW)
        assert (await found(served, NOW + HOUR_US))[0] == "well"
        late = ("act", "what was to be mailed 2 hours ago is not sent yet")
        assert await found(served, NOW + 2 * HOUR_US + 1) == late
        server.refuse_recipient = "550 5.1.1 unknown"
        mailer = Mailer(catalog, smtp_server(place), "https://v.example", lambda: NOW + HOUR_US)
        await mailer.send_due()
        why = "the mail server refused the recipient: 550 5.1.1 unknown"
        assert await found(served, NOW + 2 * HOUR_US + 1) == ("act", f"{late[1]}: {why}")
        await server.go()
        verdict, text = await found(served)
        assert verdict == "act"
        assert "cannot be reached" in text
