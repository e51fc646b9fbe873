"""Mails handed to a real mail server: over TLS, with a password, and what it says if it does not.

The server is aiosmtpd, on loopback.
"""

import asyncio
import ssl
import time
from email.message import EmailMessage
from pathlib import Path

import pytest

from headend.install.certificates import CertificateFiles
from notify.message import trial_mail
from notify.smtp import MailNotSent, Security, SendProgress, SmtpServer, send
from tests.support.mail_server import PASSWORD, SENDER, USER, mail_server

ADDRESS = "ops@a.example"


def mail() -> EmailMessage:
    return trial_mail(ADDRESS, sender=SENDER, console="https://v.example/console", now_us=1)


async def refused(server: SmtpServer, *, seconds: float = 30.0) -> str:
    with pytest.raises(MailNotSent) as caught:
        await send(
            server, mail(), ADDRESS, SendProgress(), step_seconds=seconds, text_seconds=seconds
        )
    assert PASSWORD not in str(caught.value)
    assert not caught.value.is_unsure
    return str(caught.value)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_mail_goes_over_tls_with_the_password_of_a_file(
    security: Security, server_tls: ssl.SSLContext, authority: CertificateFiles, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    async with mail_server(server_tls, security) as there:
        server = there.settings(
            user=USER, password_file=str(file), authority=str(authority.authority)
        )
        answer = await send(server, mail(), ADDRESS, SendProgress())
        assert answer == "250 2.0.0 Ok: queued as 4711"
        assert [to for to, _ in there.mails] == [ADDRESS]
        assert there.mails[0][1]["Subject"] == "[Headend] A test mail"


async def test_without_tls_where_that_is_set() -> None:
    async with mail_server() as there:
        await send(there.settings(), mail(), ADDRESS, SendProgress())
        assert len(there.mails) == 1


async def test_a_wrong_password_and_a_strange_certificate_are_named(
    server_tls: ssl.SSLContext, authority: CertificateFiles
) -> None:
    async with mail_server(server_tls, "starttls") as there:
        trusted = str(authority.authority)
        wrong = there.settings(user=USER, password="no", authority=trusted)
        assert (await refused(wrong)).startswith(
            "the mail server refused the user or the password: 535 "
        )
        strange = await refused(there.settings(user=USER, password=PASSWORD))
        assert strange.startswith(f"the certificate of the mail server 127.0.0.1:{there.port} is")
        assert there.mails == []


async def test_a_server_without_tls_gets_no_password() -> None:
    async with mail_server() as there:
        server = there.settings(security="starttls", user=USER, password=PASSWORD)
        assert "STARTTLS" in await refused(server)
        server = there.settings(security="tls", user=USER, password=PASSWORD)
        assert "speaks no TLS here: see mail.security" in await refused(server)


async def test_refusals_are_told_in_the_words_of_the_server() -> None:
    async with mail_server() as there:
        there.refuse_recipient = "550 5.1.1 no such\tuser here"
        assert await refused(there.settings()) == (
            "the mail server refused the recipient: 550 5.1.1 no such user here"
        )
        there.refuse_recipient, there.refuse_text = "", "554 5.7.1 spam"
        assert await refused(there.settings()) == "the mail server refused: 554 5.7.1 spam"


async def test_a_server_that_is_not_there_is_named() -> None:
    async with mail_server() as there:
        await there.go()
        gone = await refused(there.settings())
        assert gone.startswith(f"the mail server 127.0.0.1:{there.port} cannot be reached: ")
    nowhere = SmtpServer(host="mail.invalid", port=25, sender=SENDER, security="none")
    assert await refused(nowhere) == "the mail server mail.invalid:25 is not known by this name"


async def test_one_that_says_nothing_is_waited_for_no_longer_than_set() -> None:
    writers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _reader, w: writers.append(w), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    server = SmtpServer(host="127.0.0.1", port=port, sender=SENDER, security="none")
    began = time.monotonic()
    assert "did not answer in time" in await refused(server, seconds=0.2)
    assert time.monotonic() - began < 10
    silent.close()
    for writer in writers:
        writer.close()
        await writer.wait_closed()


async def test_it_is_unsure_whether_a_text_without_an_answer_was_accepted() -> None:
    async with mail_server() as there:
        there.drops_after_text = True
        with pytest.raises(MailNotSent) as caught:
            await send(there.settings(), mail(), ADDRESS, SendProgress())
        assert caught.value.is_unsure
        there.drops_after_text = False
        there.may_answer.clear()
        with pytest.raises(MailNotSent) as caught:
            await send(there.settings(), mail(), ADDRESS, SendProgress(), text_seconds=0.2)
        assert caught.value.is_unsure


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with mail_server() as there:
        gone = tmp_path / "gone"
        password = there.settings(user=USER, password_file=str(gone))
        assert await refused(password) == f"mail.password_file: {gone}: No such file or directory"
        authority = there.settings(security="tls", authority=str(gone))
        assert await refused(authority) == f"mail.authority: {gone}: No such file or directory"
        gone.write_text("no certificate")
        assert (await refused(authority)).startswith(f"mail.authority: {gone}: ")


def test_a_password_is_not_shown() -> None:
    server = SmtpServer(host="h", port=25, sender=SENDER, user=USER, password=PASSWORD)
    assert repr(server) == "SmtpServer(h:25, starttls)"
