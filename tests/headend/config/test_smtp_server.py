"""The mail server as the settings name it."""

from headend.config.mail_settings import MailSettings
from headend.config.smtp_server import smtp_server


def test_it_has_what_the_settings_say() -> None:
    settings = MailSettings(
        server="mail.example:2587", sender="a@b.example", user="u", password="p", authority="/ca"
    )
    server = smtp_server(settings)
    assert (server.host, server.port, server.security) == ("mail.example", 2587, "starttls")
    assert (server.sender, server.user, server.password) == ("a@b.example", "u", "p")
    assert (server.authority, server.password_file) == ("/ca", "")
