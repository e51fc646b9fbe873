"""Mails of alerts as text and headers (RFC 5322). Pure.

Titles, names and reasons are what others wrote. In a header each is one line of printable
characters, of a bounded length: none can end the header, add another, or turn the direction of the
text around it. In the body they are one line, too.
"""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final
from urllib.parse import quote

from media.ticks import utc
from notify.words import headline, sentence
from storage.catalog.records.alerts import INSTALLATION, Alert, AlertBundle

_MOST_SUBJECT: Final = 120  # characters, of which mail programs show about half
_MOST_LINE: Final = 600
_NAME: Final = "Headend"
# Lines of headers may be as long as a server takes (RFC 5322, 2.1.1): folded at 78, a subject
# would begin with an empty line.
_POLICY: Final = SMTP.clone(max_line_length=990)


def one_line(text: str, most: int = _MOST_LINE) -> str:
    """Return a text as one line of at most `most` printable characters."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def alert_mail(bundle: AlertBundle, *, sender: str, console: str, now_us: int) -> EmailMessage:
    """Return the mail of a bundle; `console` is the address of the console, without a slash.

    The same bundle has the same `Message-ID`, by which one that arrives twice is known.
    """
    lines = [headline(bundle) + ".", ""]
    for alert in bundle.alerts:
        lines += [*_paragraph(alert, console), ""]
    more = bundle.total - len(bundle.alerts)
    if more > 0:
        lines += [f"And {more} more: the console has them all.", ""]
    lines += _footer(bundle, console)
    mail = _mail(f"[{_NAME}] {headline(bundle)}", bundle.address, sender, now_us, lines)
    domain = sender.rpartition("@")[2]
    number = f"{bundle.upto}.{bundle.scope}.{bundle.kind.value}.{bundle.alerts[0].created_us}"
    mail["Message-ID"] = f"<{number}.headend@{domain}>"
    return mail


def trial_mail(address: str, *, sender: str, console: str, now_us: int) -> EmailMessage:
    """Return the mail by which an operator tries out whether mails arrive."""
    lines = ["This is a test: mails of Headend reach you.", "", f"The console: {console}"]
    mail = _mail(f"[{_NAME}] A test mail", address, sender, now_us, lines)
    mail["Message-ID"] = f"<{now_us}.test.headend@{sender.rpartition('@')[2]}>"
    return mail


def as_bytes(mail: EmailMessage) -> bytes:
    """Return a mail as it is sent: lines end with CR LF, and all is ASCII."""
    return mail.as_bytes(policy=_POLICY)


def _mail(subject: str, to: str, sender: str, now_us: int, lines: list[str]) -> EmailMessage:
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = Address(_NAME, addr_spec=sender)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = one_line(subject, _MOST_SUBJECT)
    mail["Date"] = format_datetime(datetime.fromtimestamp(now_us // 1_000_000, UTC))
    # RFC 3834: vacation programs answer nothing to it.
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join(one_line(line) for line in lines) + "\n", cte="quoted-printable")
    return mail


def _paragraph(alert: Alert, console: str) -> list[str]:
    what = ""
    if alert.subject is not None:
        what = alert.subject.title
    elif alert.hash:
        what = f"{alert.hash} (deleted since)"
    about = ", ".join(filter(None, (what, alert.project_name and f"project {alert.project_name}")))
    when = f"{utc(alert.created_us):%Y-%m-%d %H:%M:%S} UTC"
    return [f"{when} {about}".rstrip(), sentence(alert), _link(alert, console)]


def _link(alert: Alert, console: str) -> str:
    if not alert.project:
        return f"{console}/operations"
    project, subject = f"{console}/{quote(alert.project, safe='')}", alert.subject
    return f"{project}/streams" if subject is None else f"{project}/{subject.noun}s/{subject.id}"


def _footer(bundle: AlertBundle, console: str) -> list[str]:
    if bundle.scope == INSTALLATION:
        whose, place = "the installation", f"{console}/operations#mail"
    else:
        whose = f"the project {bundle.project_name}"
        place = f"{console}/{quote(bundle.project, safe='')}/settings#mail"
    return [
        "--",
        f"You get this because your address is among those that {whose} tells.",
        f"Other addresses, and what they are told: {place}",
        "There is one mail of a kind in five minutes, with all that came meanwhile.",
    ]
