"""The mail server as the settings name it; imported only where one is set."""

from headend.config.mail_settings import MailSettings
from notify.smtp import SmtpServer


def smtp_server(settings: MailSettings) -> SmtpServer:
    """Return the mail server of the settings, which name one."""
    host, port = settings.place
    return SmtpServer(
        host=host,
        port=port,
        sender=settings.sender,
        security=settings.security,
        user=settings.user,
        password=settings.password,
        password_file=settings.password_file,
        authority=settings.authority,
    )
