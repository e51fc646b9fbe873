"""Mail to operators, where a mail server is set: what sends it, and what tries it out.

`console` is the address of the console, without a slash at its end.
"""

from api.ports import MailTest
from headend.config.mail_settings import MailSettings
from headend.config.smtp_server import smtp_server
from headend.supervision import BackgroundTask
from notify.mailer import Mailer, MailTrial
from storage.catalog import Catalog


def mailer_task(settings: MailSettings, catalog: Catalog, console: str) -> BackgroundTask:
    """Return the task that sends mails; any number of processes may have it."""
    mailer = Mailer(catalog, smtp_server(settings), console, catalog.clock.now_us)
    return BackgroundTask("mail", mailer.run)


def mail_test(settings: MailSettings, catalog: Catalog, console: str) -> MailTest:
    """Return what sends mails to try the server out."""
    return MailTrial(smtp_server(settings), console, catalog.clock.now_us)
