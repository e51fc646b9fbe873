"""Hands mails to a mail server by SMTP (RFC 5321), over TLS unless it is told not to.

Every step has a deadline, and the whole attempt has one. Whatever the server answers is put into
words; passwords are in none of them.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import aiosmtplib
import msgspec

from notify.message import as_bytes, one_line

# RFC 5321, 4.5.3.2, asks for five minutes for a command, which would hold up other mails where a
# server is gone without a word. It asks for ten after the text: a mail whose answer is not waited
# for is sent twice.
STEP_SECONDS: Final = 60.0
TEXT_SECONDS: Final = 600.0
_ALL_SECONDS: Final = 900.0
_QUIT_SECONDS: Final = 5.0
_MOST_ANSWER: Final = 300  # characters of a server's answer that are shown

T = TypeVar("T")
Security = Literal["starttls", "tls", "none"]


class SmtpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A mail server, and how it is used.

    `starttls` and `tls` require TLS and a valid certificate, of the authorities in the PEM file
    `authority`, or of the system's. With a `user` one signs in, with `password` or the first line
    of the file `password_file`, which is read each time. `sender` is the address that mails are
    from.
    """

    host: str
    port: int
    sender: str
    security: Security = "starttls"
    user: str = ""
    password: str = ""
    password_file: str = ""
    authority: str = ""

    def __repr__(self) -> str:
        return f"SmtpServer({self.host}:{self.port}, {self.security})"


class MailNotSent(Exception):
    """A mail was not accepted; the message says why, in words for an operator.

    `is_unsure`: the server has all of it, and did not answer; it may have accepted it.
    """

    def __init__(self, problem: str, *, is_unsure: bool = False) -> None:
        super().__init__(problem)
        self.is_unsure = is_unsure


class SendProgress:
    """How far an attempt has come: `is_unsure` from the text on until it is answered."""

    is_unsure = False


async def send(
    server: SmtpServer,
    mail: EmailMessage,
    address: str,
    progress: SendProgress,
    *,
    step_seconds: float = STEP_SECONDS,
    text_seconds: float = TEXT_SECONDS,
) -> str:
    """Send a mail to an address and return the server's answer.

    Raises:
        MailNotSent: the server did not accept it.
    """
    with _in_words(server, progress):
        async with asyncio.timeout(_ALL_SECONDS):
            return await _send(server, mail, address, progress, step_seconds, text_seconds)


async def greet(server: SmtpServer, *, step_seconds: float = STEP_SECONDS) -> None:
    """Connect to the server and sign in, as for a mail, and send none.

    Raises:
        MailNotSent: that failed.
    """
    with _in_words(server, SendProgress()):
        client = await _client(server, step_seconds)
        try:
            await client.connect()
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=_QUIT_SECONDS)
        finally:
            client.close()


@contextmanager
def _in_words(server: SmtpServer, progress: SendProgress) -> Generator[None]:
    """Raise `MailNotSent` for whatever the block raises of a server."""
    try:
        yield
    except aiosmtplib.SMTPResponseException as error:
        raise MailNotSent(_refusal(error)) from error
    except (TimeoutError, aiosmtplib.SMTPTimeoutError) as error:
        raise MailNotSent(
            f"{_name(server)} did not answer in time", is_unsure=progress.is_unsure
        ) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise MailNotSent(_failure(server, error), is_unsure=progress.is_unsure) from error


async def _send(
    server: SmtpServer,
    mail: EmailMessage,
    address: str,
    progress: SendProgress,
    step_seconds: float,
    text_seconds: float,
) -> str:
    client = await _client(server, step_seconds)
    try:
        await client.connect()
        await client.mail(server.sender)
        await client.rcpt(address)
        progress.is_unsure = True
        answer = await client.data(as_bytes(mail), timeout=text_seconds)
        progress.is_unsure = False
        with suppress(aiosmtplib.SMTPException, OSError):  # it was accepted, whatever comes now
            await client.quit(timeout=_QUIT_SECONDS)
        return one_line(f"{answer.code} {answer.message}", _MOST_ANSWER)
    finally:
        client.close()


async def _client(server: SmtpServer, seconds: float) -> aiosmtplib.SMTP:
    """Return a client that signs in when it connects.

    Raises:
        MailNotSent: a file that the settings name cannot be read.
    """
    context = None
    if server.security != "none":
        read = partial(ssl.create_default_context, cafile=server.authority or None)
        context = await _of_file("mail.authority", server.authority, read)
    password = server.password
    if server.password_file:
        read_text = Path(server.password_file).read_text
        text = await _of_file("mail.password_file", server.password_file, read_text)
        password = (text.splitlines() or [""])[0].strip()
    return aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=server.security == "tls",
        start_tls=server.security == "starttls",
        tls_context=context,
        username=server.user or None,
        password=password if server.user else None,
        # Its own default asks the network for this machine's name.
        local_hostname=server.sender.rpartition("@")[2],
        timeout=seconds,
    )


async def _of_file(name: str, path: str, read: Callable[[], T]) -> T:
    """Return what is read of a file that the setting `name` names, or of the system's."""
    try:
        return await asyncio.to_thread(read)
    except (OSError, ValueError) as error:
        words = (isinstance(error, OSError) and error.strerror) or "it cannot be used"
        raise MailNotSent(f"{name}: {path}: {words}") from error


def _name(server: SmtpServer) -> str:
    return f"the mail server {server.host}:{server.port}"


def _refusal(error: aiosmtplib.SMTPResponseException) -> str:
    answer = one_line(f"{error.code} {error.message}", _MOST_ANSWER)
    match error:
        case aiosmtplib.SMTPAuthenticationError():
            return f"the mail server refused the user or the password: {answer}"
        case aiosmtplib.SMTPRecipientRefused():
            return f"the mail server refused the recipient: {answer}"
        case aiosmtplib.SMTPSenderRefused():
            return f"the mail server refused the sender: {answer}"
        case _:
            return f"the mail server refused: {answer}"


def _failure(server: SmtpServer, error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, aiosmtplib.SMTPException) else error
    match cause:
        case ssl.SSLCertVerificationError():
            return f"the certificate of {_name(server)} is not trusted: {cause.verify_message}"
        case ssl.SSLError():
            return f"{_name(server)} speaks no TLS here: see mail.security"
        case socket.gaierror():
            return f"{_name(server)} is not known by this name"
        case OSError():
            return f"{_name(server)} cannot be reached: {cause.strerror or type(cause).__name__}"
        case _:
            return one_line(f"{_name(server)}: {error or type(error).__name__}", _MOST_ANSWER)
