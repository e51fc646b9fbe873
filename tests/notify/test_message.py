"""Mails as text and headers: whatever others wrote, it is one line in its place."""

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from hypothesis import given
from hypothesis import strategies as st

from media.alerts import AlertKind
from notify.message import alert_mail, as_bytes, one_line, trial_mail
from storage.catalog.records.alerts import Alert, AlertBundle, AlertSubject

NOW = 1_800_000_000_000_000
SENDER = "headend@video.example"
CONSOLE = "https://video.example/console"
HEADERS = {
    "From", "To", "Subject", "Date", "Auto-Submitted", "Message-ID", "MIME-Version",
    "Content-Type", "Content-Transfer-Encoding",
}  # fmt: skip


def bundle(title: str, *, scope: int = 1, total: int = 1, name: str = "default") -> AlertBundle:
    alert = Alert(
        id=7,
        created_us=NOW,
        event="encoder off",
        facts={"slot": "primary", "receiving_count": 1, "reason": "lost"},
        hash="abc",
        project="kEy",
        project_name=name,
        subject=AlertSubject(noun="stream", id=3, title=title),
    )
    return AlertBundle(
        scope=scope, kind=AlertKind.PRIMARY_LOST, address="ops@a.example", owner="x", upto=7,
        total=total, alerts=(alert,), project="kEy" if scope else "", project_name=name,
    )  # fmt: skip


def parsed(given: AlertBundle) -> EmailMessage:
    mail = alert_mail(given, sender=SENDER, console=CONSOLE, now_us=NOW)
    return message_from_bytes(as_bytes(mail), policy=default)


def text_of(mail: EmailMessage) -> str:
    """Return the text of a mail, with the ends of lines as Python has them."""
    text: str = mail.get_content()
    return text.replace("\r\n", "\n")


def test_a_mail_says_what_happened_and_where_to_look() -> None:
    mail = parsed(bundle("Morning show"))
    assert mail["Subject"] == "[Headend] Primary encoder lost: Morning show"
    assert (mail["From"], mail["To"]) == (f"Headend <{SENDER}>", "ops@a.example")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert text_of(mail) == (
        "Primary encoder lost: Morning show.\n"
        "\n"
        "2027-01-15 08:00:00 UTC Morning show, project default\n"
        "The connection of the primary encoder was lost. 1 other encoder sends.\n"
        "https://video.example/console/kEy/streams/3\n"
        "\n"
        "--\n"
        "You get this because your address is among those that the project default tells.\n"
        "Other addresses, and what they are told:"
        " https://video.example/console/kEy/settings#mail\n"
        "There is one mail of a kind in five minutes, with all that came meanwhile.\n"
    )


def test_the_same_bundle_has_the_same_number() -> None:
    first, again = parsed(bundle("x")), parsed(bundle("x"))
    assert first["Message-ID"] == again["Message-ID"]
    assert first["Message-ID"] != parsed(bundle("x", scope=0))["Message-ID"]
    assert first["Message-ID"].endswith("@video.example>")


def test_what_is_left_out_is_counted() -> None:
    assert "And 41 more: the console has them all." in text_of(parsed(bundle("x", total=42)))


def test_that_of_the_installation_leads_to_its_page() -> None:
    disk = Alert(id=1, created_us=NOW, event="", facts={"text": "2 GiB are free."})
    given = AlertBundle(
        scope=0, kind=AlertKind.DISK, address="ops@a.example", owner="x", upto=1, total=1,
        alerts=(disk,),
    )  # fmt: skip
    text = text_of(parsed(given))
    assert "2027-01-15 08:00:00 UTC\n2 GiB are free.\n" in text
    assert "\nhttps://video.example/console/operations\n" in text
    assert "/console/operations#mail\n" in text


def test_of_what_was_deleted_the_hash_is_left() -> None:
    gone = Alert(id=1, created_us=NOW, event="slate", facts={}, hash="h4sh", project="kEy")
    given = AlertBundle(
        scope=1, kind=AlertKind.OFF_AIR, address="a@b.example", owner="x", upto=1, total=1,
        alerts=(gone,), project="kEy",
    )  # fmt: skip
    text = text_of(parsed(given))
    assert "h4sh (deleted since)" in text
    assert "/console/kEy/streams\n" in text


def test_a_title_adds_no_header() -> None:
    evil = "x\r\nBcc: all@victim.example\r\n\r\n<b>\u202etxt.exe\x00\x1b[31m\u2028y"
    mail = parsed(bundle(evil))
    assert set(mail.keys()) == HEADERS
    assert mail["Subject"] == (
        "[Headend] Primary encoder lost: x Bcc: all@victim.example <b> txt.exe [31m y"
    )
    assert "\nBcc" not in text_of(mail)


@given(st.text(max_size=400), st.text(max_size=60))
def test_any_title_is_one_line_of_printable_characters(title: str, name: str) -> None:
    raw = as_bytes(alert_mail(bundle(title, name=name), sender=SENDER, console=CONSOLE, now_us=NOW))
    raw.decode("ascii")
    mail = message_from_bytes(raw, policy=default)
    assert set(mail.keys()) == HEADERS
    assert mail["To"] == "ops@a.example"
    assert len(mail["Subject"]) <= 120
    assert max(map(len, raw.split(b"\r\n"))) < 998
    lines = text_of(mail).split("\n")
    assert len(lines) == 11
    assert all(line.isprintable() for line in lines)


def test_a_long_text_is_cut() -> None:
    assert one_line("a" * 700) == "a" * 599 + "…"
    assert one_line("  a \n\t b ") == "a b"


def test_a_test_mail_names_the_console() -> None:
    mail = trial_mail("a@b.example", sender=SENDER, console=CONSOLE, now_us=NOW)
    assert mail["Subject"] == "[Headend] A test mail"
    assert CONSOLE in text_of(mail)
