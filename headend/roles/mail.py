"""Mail to operators, where a mail server is set: what sends it, and what tries it out."""

from api.ports import MailTest
from headend.config.smtp_server import smtp_server
from headend.roles.context import RoleContext
from headend.supervision import BackgroundTask
from notify.mailer import Mailer, MailTrial


def mailer_task(context: RoleContext) -> BackgroundTask:
    """Return the task that sends mails; any number of processes may have it."""
    server, now_us = smtp_server(context.settings.mail), context.catalog.clock.now_us
    return BackgroundTask("mail", Mailer(context.catalog, server, _console(context), now_us).run)


def mail_test(context: RoleContext) -> MailTest:
    """Return what sends mails to try the server out."""
    now_us = context.catalog.clock.now_us
    return MailTrial(smtp_server(context.settings.mail), _console(context), now_us)


def _console(context: RoleContext) -> str:
    return f"{context.addresses.http}/console"
