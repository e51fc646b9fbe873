"""A real mail server (aiosmtpd) on loopback that accepts, refuses, dawdles or is gone, as told."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from anyio.from_thread import start_blocking_portal

from notify.smtp import Security, SmtpServer

SENDER = "headend@video.example"
USER, PASSWORD = "headend", "S3CRET-of-the-mail"


class MailServer:
    """What arrived (`mails`, each with its recipient), and how the server behaves.

    `refuse_recipient` and `refuse_text` are answers. While `may_answer` is not set, it answers to
    no text, and `asked` counts those that wait. While it is `gone`, nothing listens at its port.
    """

    def __init__(self, tls: ssl.SSLContext | None, security: Security) -> None:
        self.mails: list[tuple[str, EmailMessage]] = []
        self.raw: list[bytes] = []
        self.refuse_recipient = ""
        self.refuse_text = ""
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = 0
        self.drops_after_text = False
        self.port = 0
        self._tls = tls
        self._security = security
        self._server: asyncio.Server | None = None
        self._protocols: list[SMTP] = []

    async def handle_RCPT(  # aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: object
    ) -> str:
        if self.refuse_recipient:
            return self.refuse_recipient
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # aiosmtpd's name
        self, server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        self.asked += 1
        try:
            await self.may_answer.wait()
        finally:
            self.asked -= 1
        if self.refuse_text:
            return self.refuse_text
        content = envelope.content
        assert isinstance(content, bytes)
        mail = message_from_bytes(content, policy=default)
        self.raw.append(content)
        self.mails += [(address, mail) for address in envelope.rcpt_tos]
        if self.drops_after_text:
            _abort(server)
        return "250 2.0.0 Ok: queued as 4711"

    def settings(self, **changes: str) -> SmtpServer:
        """Return what a client is told of it."""
        values = {"security": self._security, "sender": SENDER, **changes}
        return SmtpServer(host="127.0.0.1", port=self.port, **values)  # type: ignore[arg-type] # texts

    async def begin(self) -> None:
        """Listen, at the same port each time."""
        loop = asyncio.get_running_loop()
        direct = self._tls if self._security == "tls" else None
        self._server = await loop.create_server(
            self._protocol, "127.0.0.1", self.port, ssl=direct, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def go(self) -> None:
        """Stop to listen."""
        assert self._server is not None
        self._server.close()

    async def end(self) -> None:
        """Stop to listen, and end what clients left open."""
        await self.go()
        for protocol in self._protocols:
            _abort(protocol)
        for _ in range(3):  # for their tasks, and then their sockets, to end
            await asyncio.sleep(0.01)

    def _protocol(self) -> SMTP:
        secure = self._security == "starttls"
        with warnings.catch_warnings():
            # That it asks for a password without STARTTLS: its connections have TLS already.
            warnings.simplefilter("ignore")
            protocol = self._new(secure)
        self._protocols.append(protocol)
        return protocol

    def _new(self, secure: bool) -> SMTP:
        return SMTP(
            self,
            hostname="mail.example",
            tls_context=self._tls if secure else None,
            require_starttls=secure,
            auth_required=self._security != "none",
            auth_require_tls=secure,
            authenticator=_authenticate,
            loop=asyncio.get_running_loop(),
        )


def _abort(protocol: SMTP) -> None:
    transport = protocol.transport
    if isinstance(transport, asyncio.Transport) and not transport.is_closing():
        transport.abort()


def _authenticate(
    _server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, data: object
) -> AuthResult:
    assert isinstance(data, LoginPassword), mechanism
    right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)


@asynccontextmanager
async def mail_server(
    tls: ssl.SSLContext | None = None, security: Security = "none"
) -> AsyncGenerator[MailServer]:
    """Run a mail server for the length of the block; with TLS it asks for `USER`'s password."""
    server = MailServer(tls, security)
    await server.begin()
    try:
        yield server
    finally:
        await server.end()


@contextmanager
def mail_server_aside() -> Generator[MailServer]:
    """Run one without TLS in a thread, for tests without an event loop."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(mail_server()) as it:
        yield it
