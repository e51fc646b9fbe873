"""The settings of the mail server: its port, and what is refused."""

import pytest

from headend.config.mail_settings import MailSettings

SENDER = "headend@video.example"


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (MailSettings(server="mail.example"), ("mail.example", 587)),
        (MailSettings(server="mail.example", security="tls"), ("mail.example", 465)),
        (MailSettings(server="localhost", security="none"), ("localhost", 25)),
        (MailSettings(server="[::1]:2525"), ("::1", 2525)),
        (MailSettings(server="10.0.0.1:26"), ("10.0.0.1", 26)),
    ],
)
def test_the_port_follows_from_the_security(settings: MailSettings, place: tuple[str, int]) -> None:
    assert settings.place == place


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        (MailSettings(), []),
        (MailSettings(server="mail.example", sender=SENDER), []),
        (MailSettings(server="smtp://mail.example", sender=SENDER), ["mail.server"]),
        (MailSettings(server="mail.example:0", sender=SENDER), ["mail.server"]),
        (MailSettings(server="mail.example"), ["mail.sender"]),
        (MailSettings(server="mail.example", sender="a@b\nX: y"), ["mail.sender"]),
        (
            MailSettings(server="mail.example", sender=SENDER, security="none", user="u"),
            ["mail.security"],
        ),
        (MailSettings(server="127.0.0.1", sender=SENDER, security="none", user="u"), []),
        (
            MailSettings(server="m.example", sender=SENDER, password="p", password_file="f"),
            ["mail.password_file"],
        ),
    ],
)
def test_what_cannot_be_used_is_named(settings: MailSettings, wrong: list[str]) -> None:
    assert list(settings.errors()) == wrong


def test_the_password_is_not_shown() -> None:
    assert "S3CRET" not in repr(MailSettings(password="S3CRET"))
